#include "posterior_arrays.hpp"

#include <algorithm>
#include <limits>

namespace mixfold {

PosteriorArrays::PosteriorArrays(PosteriorKind kind, int components, int d) : lanes_(components) {
  ConjugatePosterior& b = view_;
  b.kind = kind;
  b.components = components;
  b.d = d;
  b.padded = lanes_.padded;
  const bool full = kind == PosteriorKind::full, normal = full || kind == PosteriorKind::diagonal;
  const int each = full ? 1 : d, scale = full ? d * (d + 1) / 2 : d, rates = normal ? 0 : d;
  // An empty component must have a density, though nothing comes of it.
  memory_.assign(size_t(5 + 3 * d + 3 * each + scale + 2 * rates) * b.padded, d + 3.0);
  double* cursor = memory_.data();
  const auto take = [&](int entries) { return lanes_.take(cursor, entries); };
  b.alpha = take(1);
  b.mean = take(d);
  b.kappa = take(each);
  b.nu = take(each);
  b.scale = take(scale);
  b.shape = take(rates);
  b.rate = take(rates);
  b.constant = take(1);
  b.log_joint = take(1);
  b.responsibility = take(1);
  b.square = take(each);
  b.row = take(d);
  b.column = take(d);
  b.mask = take(1);
  std::fill(b.mask, b.mask + components, 0.0);
  std::fill(b.mask + components, b.mask + b.padded, -std::numeric_limits<double>::infinity());
}

void PosteriorArrays::import_scale(const double* from) const {
  const ConjugatePosterior& b = view_;
  if (b.kind == PosteriorKind::diagonal) return lanes_.import_array(b.scale, from, b.d);
  lanes_.import_triangles(b.scale, from, b.d, b.components);
}

void PosteriorArrays::export_scale(double* to) const {
  const ConjugatePosterior& b = view_;
  if (b.kind == PosteriorKind::diagonal) return lanes_.export_array(b.scale, to, b.d);
  lanes_.export_triangles(b.scale, to, b.d, b.components);
}

}  // namespace mixfold
