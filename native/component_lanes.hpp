// Arrays whose components lie along the lanes, to and from component-major order.
#pragma once

#include <stddef.h>

namespace mixfold {

// Entry e of component k of an array is at [e * padded + k].
struct ComponentLanes {
  explicit ComponentLanes(int components);

  // The next array of memory, `entries` long per component; moves the cursor past it.
  double* take(double*& cursor, ptrdiff_t entries) const;

  void import_array(double* to, const double* from, int entries) const;
  void export_array(const double* from, double* to, int entries) const;

  // Packed lower triangles, row by row, from and to d x d matrices: one for every component, or one
  // for all. What lies above a diagonal is neither read nor written.
  void import_triangles(double* to, const double* from, int d, int matrices) const;
  void export_triangles(const double* from, double* to, int d, int matrices) const;

  int components;
  ptrdiff_t padded;
};

}  // namespace mixfold
