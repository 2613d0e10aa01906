// Beliefs about the components of a mixture, and Dirichlet ones about their weights.
#pragma once

#include <stddef.h>

namespace mixfold {

// Normal-Wishart, normal-gamma, and gamma beliefs about rates of counts or of waiting.
enum class BeliefKind { full, diagonal, poisson, exponential };

// Components lie along the lanes: entry e of component k of an array is at [e * padded + k].
// kappa and nu have one entry, or d if the covariance is diagonal; the factor of V = W^-1 is a
// packed lower triangle, row by row, or d square roots. Lanes past the last component hold an empty
// one. Gamma beliefs have d shapes and rates per component, and none of the other four.
struct Beliefs {
  BeliefKind kind;
  int components, d;
  ptrdiff_t padded;
  double *alpha, *mean, *kappa, *nu, *factor, *shape, *rate;
  // What the log density of a row of weight one has besides its distance, renewed with the beliefs.
  double* constant;
  // Working memory: one row, its squared distances, log joint densities and chances; a column.
  double *row, *square, *log_joint, *chance, *column;
  // 0 for a component, minus infinity past the last.
  double* mask;
};

}  // namespace mixfold
