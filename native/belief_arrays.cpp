#include "belief_arrays.hpp"

#include <algorithm>
#include <limits>

namespace mixfold {

BeliefArrays::BeliefArrays(BeliefKind kind, int components, int d) : lanes_(components) {
  Beliefs& b = view_;
  b.kind = kind;
  b.components = components;
  b.d = d;
  b.padded = lanes_.padded;
  const bool full = kind == BeliefKind::full, normal = full || kind == BeliefKind::diagonal;
  const int each = full ? 1 : d, factor = full ? d * (d + 1) / 2 : d, rates = normal ? 0 : d;
  // An empty component must have a density, though nothing comes of it.
  memory_.assign(size_t(5 + 3 * d + 3 * each + factor + 2 * rates) * b.padded, d + 3.0);
  double* cursor = memory_.data();
  const auto take = [&](int entries) { return lanes_.take(cursor, entries); };
  b.alpha = take(1);
  b.mean = take(d);
  b.kappa = take(each);
  b.nu = take(each);
  b.factor = take(factor);
  b.shape = take(rates);
  b.rate = take(rates);
  b.constant = take(1);
  b.log_joint = take(1);
  b.chance = take(1);
  b.square = take(each);
  b.row = take(d);
  b.column = take(d);
  b.mask = take(1);
  std::fill(b.mask, b.mask + components, 0.0);
  std::fill(b.mask + components, b.mask + b.padded, -std::numeric_limits<double>::infinity());
}

void BeliefArrays::import_factor(const double* from) const {
  const Beliefs& b = view_;
  if (b.kind == BeliefKind::diagonal) return lanes_.import_array(b.factor, from, b.d);
  lanes_.import_triangles(b.factor, from, b.d, b.components);
}

void BeliefArrays::export_factor(double* to) const {
  const Beliefs& b = view_;
  if (b.kind == BeliefKind::diagonal) return lanes_.export_array(b.factor, to, b.d);
  lanes_.export_triangles(b.factor, to, b.d, b.components);
}

}  // namespace mixfold
