// What online EM remembers between rows.
#pragma once

#include <stddef.h>

namespace mixfold {

enum class OnlineKind { full, tied, diag, spherical, poisson, exponential };

// Components lie along the lanes: entry e of component k of an array is at [e * padded + k].
// Matrices are packed lower triangles, row by row; a tied factor is repeated for every component.
// Lanes past the last component hold an empty one.
struct OnlineState {
  static constexpr int lane_multiple = 8;

  OnlineKind kind;
  int components, d, scatter_size, factor_size;
  ptrdiff_t padded;
  double floor, reg;

  // Normalised statistics: weight, mean, covariance about that mean.
  double *s_weight, *s_mean, *s_scatter;
  // Parameters.
  double *t_weight, *t_mean, *t_factor;
  // Derived from the parameters, renewed when `stale`: the coefficients of the log density
  // (reciprocal standard deviations or means, or logarithms of means) and its constant term.
  double *coefficients, *log_scale;
  bool stale;
  // Working memory: one row, one floor per coordinate, one column and one triangle of vectors.
  double *row, *floors, *joint, *column, *pooled;
  // 0 for a component, minus infinity past the last.
  double* joint_mask;

  long long degeneracies;
};

}  // namespace mixfold
