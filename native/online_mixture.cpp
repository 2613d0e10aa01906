#include "online_mixture.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace mixfold {

bool triangular(OnlineKind kind) { return kind == OnlineKind::full || kind == OnlineKind::tied; }

int matrices(OnlineKind kind, int components) { return kind == OnlineKind::tied ? 1 : components; }

int scatter_size(OnlineKind kind, int d) {
  if (triangular(kind)) return d * (d + 1) / 2;
  return kind == OnlineKind::diag || kind == OnlineKind::spherical ? d : 0;
}

int scale_size(OnlineKind kind, int d) {
  return kind == OnlineKind::spherical ? 1 : scatter_size(kind, d);
}

OnlineKind online_kind(const std::string& name) {
  static constexpr const char* names[] = {"full",      "tied",    "diag",
                                          "spherical", "poisson", "exponential"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw std::invalid_argument("unknown kind of mixture: " + name);
  return OnlineKind(found - std::begin(names));
}

OnlineMixture::OnlineMixture(OnlineKind kind, int components, int d, double floor, double reg,
                             double least, double rounding, const double* lowest)
    : lanes_(components), lowest_(lowest, lowest + d) {
  OnlineState& s = state_;
  s.kind = kind;
  s.components = components;
  s.d = d;
  s.scatter_size = scatter_size(kind, d);
  s.scale_size = scale_size(kind, d);
  s.padded = lanes_.padded;
  s.floor = floor;
  s.reg = reg;
  s.least = least;
  s.rounding = rounding;
  s.lowest = lowest_.data();
  s.stale = true;
  trial_ = s;
  const ptrdiff_t entries = 9 + 7 * ptrdiff_t(d) + 3 * ptrdiff_t(s.scatter_size) + s.scale_size;
  memory_.resize(2 * entries * s.padded);
  lay_out(state_, memory_.data());
  lay_out(trial_, memory_.data() + entries * s.padded);
}

void OnlineMixture::lay_out(OnlineState& s, double* cursor) const {
  const int d = s.d, components = s.components;
  const auto take = [&](int entries) { return lanes_.take(cursor, entries); };
  s.s_weight = take(1);
  s.s_mean = take(d);
  s.s_scatter = take(s.scatter_size);
  s.c_weight = take(1);
  s.c_mean = take(d);
  s.c_scatter = take(s.scatter_size);
  s.t_weight = take(1);
  s.t_mean = take(d);
  s.t_scale = take(s.scale_size);
  s.coefficients = take(d);
  s.log_scale = take(1);
  s.joint = take(1);
  s.mass = take(1);
  s.joint_mask = take(1);
  s.number = take(1);
  for (int k = 0; k < s.padded; ++k) s.number[k] = k;
  s.end = take(1);
  s.end[components - 1] = std::numeric_limits<double>::infinity();
  s.column = take(d);
  s.pooled = take(s.scatter_size);
  s.row = take(d);
  s.floors = take(d);
  std::fill(s.joint_mask + components, s.joint_mask + s.padded,
            -std::numeric_limits<double>::infinity());
  // An empty component must have a density, though nothing comes of it.
  std::fill(s.t_weight + components, s.t_weight + s.padded, 1e-300);
  for (int j = 0; j < d; ++j)
    std::fill(s.t_mean + j * s.padded + components, s.t_mean + (j + 1) * s.padded, 1.0);
  for (int e = 0; e < s.scale_size; ++e)
    std::fill(s.t_scale + e * s.padded + components, s.t_scale + (e + 1) * s.padded, 1.0);
}

void OnlineMixture::import_scale(const double* from) {
  const OnlineState& s = state_;
  if (!triangular(s.kind)) return lanes_.import_array(s.t_scale, from, s.scale_size);
  lanes_.import_triangles(s.t_scale, from, s.d, matrices(s.kind, s.components));
}

void OnlineMixture::export_scale(double* to) const {
  const OnlineState& s = state_;
  if (!triangular(s.kind)) return lanes_.export_array(s.t_scale, to, s.scale_size);
  lanes_.export_triangles(s.t_scale, to, s.d, matrices(s.kind, s.components));
}

}  // namespace mixfold
