// The kernels of products, compiled once per instruction set.
#include "product.hpp"

namespace mixfold::MIXFOLD_ISA {

void expect_product(const Rows& rows, const double* weights, const ProductFamily& f,
                    double* result) {
  Product family(f);
  if (rows.single_precision) expect<float>(rows, weights, family, result);
  else expect<double>(rows, weights, family, result);
}

void posterior_product(const Rows& rows, const ProductFamily& f, const Posterior& out) {
  Product family(f);
  if (rows.single_precision) posterior<float>(rows, family, out);
  else posterior<double>(rows, family, out);
}

void moments_product(const Rows& rows, const double* weights, const double* responsibilities,
                     const ProductFamily& f, double* result) {
  Product family(f);
  if (rows.single_precision) moments<float>(rows, weights, responsibilities, family, result);
  else moments<double>(rows, weights, responsibilities, family, result);
}

}  // namespace mixfold::MIXFOLD_ISA
