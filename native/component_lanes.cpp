#include "component_lanes.hpp"

namespace mixfold {
namespace {

// Lanes of the widest vector of doubles.
constexpr int multiple = 8;

}  // namespace

ComponentLanes::ComponentLanes(int components)
    : components(components), padded((components + multiple - 1) / multiple * multiple) {}

double* ComponentLanes::take(double*& cursor, ptrdiff_t entries) const {
  double* const taken = cursor;
  cursor += entries * padded;
  return taken;
}

void ComponentLanes::import_array(double* to, const double* from, int entries) const {
  for (int k = 0; k < components; ++k)
    for (int e = 0; e < entries; ++e) to[e * padded + k] = from[ptrdiff_t(k) * entries + e];
}

void ComponentLanes::export_array(const double* from, double* to, int entries) const {
  for (int k = 0; k < components; ++k)
    for (int e = 0; e < entries; ++e) to[ptrdiff_t(k) * entries + e] = from[e * padded + k];
}

void ComponentLanes::import_triangles(double* to, const double* from, int d, int matrices) const {
  for (int k = 0; k < components; ++k) {
    const ptrdiff_t matrix = matrices == 1 ? 0 : k;
    for (int i = 0, e = 0; i < d; ++i)
      for (int j = 0; j <= i; ++j, ++e) to[e * padded + k] = from[(matrix * d + i) * d + j];
  }
}

void ComponentLanes::export_triangles(const double* from, double* to, int d, int matrices) const {
  for (int k = 0; k < matrices; ++k)
    for (int i = 0, e = 0; i < d; ++i)
      for (int j = 0; j <= i; ++j, ++e) to[(ptrdiff_t(k) * d + i) * d + j] = from[e * padded + k];
}

}  // namespace mixfold
