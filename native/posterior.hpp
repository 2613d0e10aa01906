// The posterior of the components of a mixture, and the Dirichlet posterior of their weights.
#pragma once

#include <stddef.h>

namespace mixfold {

// Normal-Wishart, normal-gamma, and gamma posteriors of the rates of counts or of waiting times.
enum class PosteriorKind { full, diagonal, poisson, exponential };

// Components lie along the lanes: entry e of component k of an array is at [e * padded + k].
// kappa and nu have one entry, or d if the covariance is diagonal; the scale, the Cholesky factor
// of V = W^-1, is a packed lower triangle, row by row, or d square roots. Lanes past the last
// component hold an empty one. Gamma posteriors have d shapes and rates per component, and none of
// the other four.
struct ConjugatePosterior {
  PosteriorKind kind;
  int components, d;
  ptrdiff_t padded;
  double *alpha, *mean, *kappa, *nu, *scale, *shape, *rate;
  // What the log density of a row of weight one has besides its distance, renewed with the
  // posterior.
  double* constant;
  // Working memory: one row, its squared distances, log joint densities and responsibilities; a
  // column.
  double *row, *square, *log_joint, *responsibility, *column;
  // 0 for a component, minus infinity past the last.
  double* mask;
};

}  // namespace mixfold
