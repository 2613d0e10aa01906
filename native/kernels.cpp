// Every kernel, compiled once per instruction set.
#include "diagonal_wide.hpp"
#include "kernels.hpp"
#include "linear.hpp"
#include "triangular.hpp"
#include "triangular_small.hpp"

namespace mixfold::MIXFOLD_ISA {
namespace {

template <template <class> class Family, class Parameters>
void expect_any(const Rows& rows, const double* weights, const Parameters& p, double* result) {
  if (rows.single_precision) {
    Family<float> family(p);
    expect<float>(rows, weights, family, result);
  } else {
    Family<double> family(p);
    expect<double>(rows, weights, family, result);
  }
}

template <template <class> class Family, class Parameters>
void posterior_any(const Rows& rows, const Parameters& p, const Posterior& out) {
  Family<double> family(p);
  if (rows.single_precision) posterior<float>(rows, family, out);
  else posterior<double>(rows, family, out);
}

template <template <class> class Family, class Parameters>
void moments_any(const Rows& rows, const double* weights, const double* responsibilities,
                 const Parameters& p, double* result) {
  Family<double> family(p);
  if (rows.single_precision) moments<float>(rows, weights, responsibilities, family, result);
  else moments<double>(rows, weights, responsibilities, family, result);
}

template <class T> using Triangular1 = TriangularSmall<T, 1>;
template <class T> using Triangular2 = TriangularSmall<T, 2>;
template <class T> using Triangular3 = TriangularSmall<T, 3>;
template <class T> using Triangular4 = TriangularSmall<T, 4>;

void expect_triangular(const Rows& rows, const double* weights, const Gaussians& g,
                       double* result) {
  switch (g.d) {
    case 1: return expect_any<Triangular1>(rows, weights, g, result);
    case 2: return expect_any<Triangular2>(rows, weights, g, result);
    case 3: return expect_any<Triangular3>(rows, weights, g, result);
    case 4: return expect_any<Triangular4>(rows, weights, g, result);
    default: return expect_any<Triangular>(rows, weights, g, result);
  }
}

void posterior_triangular(const Rows& rows, const Gaussians& g, const Posterior& out) {
  switch (g.d) {
    case 1: return posterior_any<Triangular1>(rows, g, out);
    case 2: return posterior_any<Triangular2>(rows, g, out);
    case 3: return posterior_any<Triangular3>(rows, g, out);
    case 4: return posterior_any<Triangular4>(rows, g, out);
    default: return posterior_any<Triangular>(rows, g, out);
  }
}

void moments_triangular(const Rows& rows, const double* weights, const double* responsibilities,
                        const Gaussians& g, double* result) {
  switch (g.d) {
    case 1: return moments_any<Triangular1>(rows, weights, responsibilities, g, result);
    case 2: return moments_any<Triangular2>(rows, weights, responsibilities, g, result);
    case 3: return moments_any<Triangular3>(rows, weights, responsibilities, g, result);
    case 4: return moments_any<Triangular4>(rows, weights, responsibilities, g, result);
    default: return moments_any<Triangular>(rows, weights, responsibilities, g, result);
  }
}

void expect_diagonal(const Rows& rows, const double* weights, const Gaussians& g, double* result) {
  if (g.d < 32) expect_any<Diagonal>(rows, weights, g, result);
  else expect_any<DiagonalWide>(rows, weights, g, result);
}

}  // namespace

void expect_product(const Rows&, const double*, const ProductFamily&, double*);
void posterior_product(const Rows&, const ProductFamily&, const Posterior&);
void moments_product(const Rows&, const double*, const double*, const ProductFamily&, double*);

void fold(OnlineState&, const OnlineState&, const RowOptions&, const Rows&, const double*,
          const double*, int, double&);
void evaluate(const OnlineState&, const Rows&, const Posterior&);

long long match(const ConjugatePosterior&, const Rows&, const double*, double&);
void anneal_single(AnnealedMixture<float>&, const Rows&, const double*, int);
void anneal_double(AnnealedMixture<double>&, const Rows&, const double*, int);

void search_candidates(const Rows&, const CandidateComponents&, const CandidateLists&,
                       const CandidateSearch&);
void add_candidates(const Rows&, const CandidateComponents&, const CandidateRows&, double*);

extern const Kernels table;
const Kernels table = {
    expect_triangular,
    expect_diagonal,
    expect_any<Linear, LinearFamily>,
    posterior_triangular,
    posterior_any<Diagonal, Gaussians>,
    posterior_any<Linear, LinearFamily>,
    moments_triangular,
    moments_any<Diagonal, Gaussians>,
    moments_any<Linear, LinearFamily>,
    expect_product,
    posterior_product,
    moments_product,
    fold,
    evaluate,
    match,
    anneal_single,
    anneal_double,
    search_candidates,
    add_candidates,
};

}  // namespace mixfold::MIXFOLD_ISA
