// Rotations of axes that are common to several covariance matrices.
#pragma once

namespace mixfold {

// Covariances (k, d, d) with the weights of their components, and axes (d, d) in columns. With
// `one_volume` all components have the same determinant of their variances along the axes.
struct CommonAxes {
  int k, d;
  bool one_volume;
  const double* weight;
  const double* covariance;
  double* vectors;
};

// Rotates pairs of axes in turn (Flury and Gautschi 1986), in at most `most_sweeps` sweeps over all
// pairs, until a sweep changes the likelihood by no more than `enough` of its size. Returns minus
// twice the log-likelihood without constants; throws std::bad_alloc.
double rotate_axes(const CommonAxes& axes, int most_sweeps, double enough);

}  // namespace mixfold
