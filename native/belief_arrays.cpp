#include "belief_arrays.hpp"

#include <algorithm>
#include <limits>

namespace mixfold {

BeliefArrays::BeliefArrays(BeliefKind kind, int components, int d) {
  constexpr int multiple = Beliefs::lane_multiple;
  Beliefs& b = view_;
  b.kind = kind;
  b.components = components;
  b.d = d;
  b.padded = (components + multiple - 1) / multiple * multiple;
  const bool full = kind == BeliefKind::full, normal = full || kind == BeliefKind::diagonal;
  const int each = full ? 1 : d, factor = full ? d * (d + 1) / 2 : d, rates = normal ? 0 : d;
  // An empty component must have a density, though nothing comes of it.
  memory_.assign(size_t(5 + 3 * d + 3 * each + factor + 2 * rates) * b.padded, d + 3.0);
  double* cursor = memory_.data();
  const auto take = [&](int entries) {
    double* const taken = cursor;
    cursor += entries * b.padded;
    return taken;
  };
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

void BeliefArrays::put(double* to, const double* from, int entries) const {
  for (int k = 0; k < view_.components; ++k)
    for (int e = 0; e < entries; ++e)
      to[e * view_.padded + k] = from[ptrdiff_t(k) * entries + e];
}

void BeliefArrays::get(const double* from, double* to, int entries) const {
  for (int k = 0; k < view_.components; ++k)
    for (int e = 0; e < entries; ++e)
      to[ptrdiff_t(k) * entries + e] = from[e * view_.padded + k];
}

void BeliefArrays::put_factor(const double* from) const {
  const Beliefs& b = view_;
  if (b.kind == BeliefKind::diagonal) return put(b.factor, from, b.d);
  for (int k = 0; k < b.components; ++k)
    for (int i = 0, e = 0; i < b.d; ++i)
      for (int j = 0; j <= i; ++j, ++e)
        b.factor[e * b.padded + k] = from[(ptrdiff_t(k) * b.d + i) * b.d + j];
}

void BeliefArrays::get_factor(double* to) const {
  const Beliefs& b = view_;
  if (b.kind == BeliefKind::diagonal) return get(b.factor, to, b.d);
  for (int k = 0; k < b.components; ++k)
    for (int i = 0, e = 0; i < b.d; ++i)
      for (int j = 0; j <= i; ++j, ++e)
        to[(ptrdiff_t(k) * b.d + i) * b.d + j] = b.factor[e * b.padded + k];
}

}  // namespace mixfold
