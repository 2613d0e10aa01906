// What online EM remembers between rows.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace mixfold {

enum class OnlineKind { full, tied, diag, spherical, poisson, exponential };

// How a row is given to components: by responsibility, all to the most likely one, all to the one
// most likely after the M-step it would cause, or all to one that is drawn.
enum class Assign { expected, mode, lookahead, draw };

// What is taken off a row's statistics, and given back on average: nothing; the row's own part of a
// mean over all rows, which is the statistics themselves (incremental EM); its part of a reference
// beside them (variance-reduced and fast incremental EM).
enum class Control { none, incremental, anchored };

// `old` and `fresh` are the responsibilities before and after, a row of them per row, for any
// Control; `per_weight` is one over the weight of all rows.
struct RowOptions {
  Assign assign;
  Control control;
  bool recursive, narrow;
  double per_weight;
  const double* old;
  double* fresh;
};

// Components lie along the lanes: entry e of component k of an array is at [e * padded + k].
// Matrices are packed lower triangles, row by row; a tied scale is repeated for every component.
// Lanes past the last component hold an empty one.
struct OnlineState {
  OnlineKind kind;
  int components, d, scatter_size, scale_size;
  ptrdiff_t padded;
  // `least` is a variance that is not passed downwards, as asked for; zero if there is none. It is
  // for variances alone, not for triangles.
  double floor, reg, least;
  // What a variance or a mean of a coordinate is at least: `floor` times that of all rows, the square
  // of `rounding` times their mean (variances alone), and the coordinate's number in `lowest`.
  double rounding;
  const double* lowest;
  // Parameters that stay as they are given.
  bool keep_weights, keep_scales;

  // Normalised statistics: weight, mean, covariance about that mean; and those of a reference.
  double *s_weight, *s_mean, *s_scatter;
  double *c_weight, *c_mean, *c_scatter;
  // Parameters.
  double *t_weight, *t_mean, *t_scale;
  // Derived from the parameters, renewed when `stale`: the coefficients of the log density
  // (reciprocal standard deviations or means, or logarithms of means) and its constant term.
  double *coefficients, *log_scale;
  bool stale;
  // Working memory: one row, one floor per coordinate, one column and one triangle of vectors.
  double *row, *floors, *joint, *mass, *column, *pooled;
  // 0 for a component, minus infinity past the last; the number of every lane; and infinity for
  // the last component, 0 for all others.
  double *joint_mask, *number, *end;

  // The state of the generator for Assign::draw, which takes a number per row.
  uint64_t noise[4];

  long long n_degenerate;
};

}  // namespace mixfold
