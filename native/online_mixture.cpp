#include "online_mixture.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace mixfold {
namespace {

bool triangular(OnlineKind kind) { return kind == OnlineKind::full || kind == OnlineKind::tied; }

}  // namespace

int scatter_size(OnlineKind kind, int d) {
  if (triangular(kind)) return d * (d + 1) / 2;
  return kind == OnlineKind::diag || kind == OnlineKind::spherical ? d : 0;
}

int factor_size(OnlineKind kind, int d) {
  return kind == OnlineKind::spherical ? 1 : scatter_size(kind, d);
}

OnlineKind online_kind(const std::string& name) {
  static constexpr const char* names[] = {"full",      "tied",    "diag",
                                          "spherical", "poisson", "exponential"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw std::invalid_argument("unknown kind of mixture: " + name);
  return OnlineKind(found - std::begin(names));
}

OnlineMixture::OnlineMixture(OnlineKind kind, int components, int d, double floor, double reg) {
  constexpr int multiple = OnlineState::lane_multiple;
  OnlineState& s = state_;
  s.kind = kind;
  s.components = components;
  s.d = d;
  s.scatter_size = scatter_size(kind, d);
  s.factor_size = factor_size(kind, d);
  s.padded = (components + multiple - 1) / multiple * multiple;
  s.floor = floor;
  s.reg = reg;
  s.stale = true;
  trial_ = s;
  const ptrdiff_t entries = 9 + 7 * ptrdiff_t(d) + 3 * s.scatter_size + s.factor_size;
  memory_.resize(2 * entries * s.padded);
  lay_out(state_, memory_.data());
  lay_out(trial_, memory_.data() + entries * s.padded);
}

void OnlineMixture::lay_out(OnlineState& s, double* cursor) const {
  const int d = s.d, components = s.components;
  s.s_weight = take(cursor, 1);
  s.s_mean = take(cursor, d);
  s.s_scatter = take(cursor, s.scatter_size);
  s.c_weight = take(cursor, 1);
  s.c_mean = take(cursor, d);
  s.c_scatter = take(cursor, s.scatter_size);
  s.t_weight = take(cursor, 1);
  s.t_mean = take(cursor, d);
  s.t_factor = take(cursor, s.factor_size);
  s.coefficients = take(cursor, d);
  s.log_scale = take(cursor, 1);
  s.joint = take(cursor, 1);
  s.mass = take(cursor, 1);
  s.joint_mask = take(cursor, 1);
  s.number = take(cursor, 1);
  for (int k = 0; k < s.padded; ++k) s.number[k] = k;
  s.end = take(cursor, 1);
  s.end[components - 1] = std::numeric_limits<double>::infinity();
  s.column = take(cursor, d);
  s.pooled = take(cursor, s.scatter_size);
  s.row = take(cursor, d);
  s.floors = take(cursor, d);
  std::fill(s.joint_mask + components, s.joint_mask + s.padded,
            -std::numeric_limits<double>::infinity());
  // An empty component must have a density, though nothing comes of it.
  std::fill(s.t_weight + components, s.t_weight + s.padded, 1e-300);
  for (int j = 0; j < d; ++j)
    std::fill(s.t_mean + j * s.padded + components, s.t_mean + (j + 1) * s.padded, 1.0);
  for (int e = 0; e < s.factor_size; ++e)
    std::fill(s.t_factor + e * s.padded + components, s.t_factor + (e + 1) * s.padded, 1.0);
}

double* OnlineMixture::take(double*& cursor, ptrdiff_t entries) const {
  double* const taken = cursor;
  cursor += entries * state_.padded;
  return taken;
}

void OnlineMixture::import_array(double* to, const double* from, int entries) const {
  for (int k = 0; k < state_.components; ++k)
    for (int e = 0; e < entries; ++e)
      to[e * state_.padded + k] = from[ptrdiff_t(k) * entries + e];
}

void OnlineMixture::export_array(const double* from, double* to, int entries) const {
  for (int k = 0; k < state_.components; ++k)
    for (int e = 0; e < entries; ++e)
      to[ptrdiff_t(k) * entries + e] = from[e * state_.padded + k];
}

void OnlineMixture::import_factor(const double* from) {
  const OnlineState& s = state_;
  if (!triangular(s.kind)) {
    import_array(s.t_factor, from, s.factor_size);
  } else {
    for (int k = 0; k < s.components; ++k)
      for (int i = 0, e = 0; i < s.d; ++i)
        for (int j = 0; j <= i; ++j, ++e) {
          const ptrdiff_t matrix = s.kind == OnlineKind::tied ? 0 : k;
          s.t_factor[e * s.padded + k] = from[(matrix * s.d + i) * s.d + j];
        }
  }
}

void OnlineMixture::export_factor(double* to) const {
  const OnlineState& s = state_;
  if (!triangular(s.kind)) return export_array(s.t_factor, to, s.factor_size);
  const int matrices = s.kind == OnlineKind::tied ? 1 : s.components;
  for (int k = 0; k < matrices; ++k)
    for (int i = 0; i < s.d; ++i)
      for (int j = 0; j < s.d; ++j)
        to[(ptrdiff_t(k) * s.d + i) * s.d + j] =
            j <= i ? s.t_factor[(i * (i + 1) / 2 + j) * s.padded + k] : 0.0;
}

}  // namespace mixfold
