// A Gaussian mixture under stochastic gradients.
#pragma once

namespace mixfold {

// `means` are components x d. `roots` are those of the precisions, P = D'D: components x d where D is
// diagonal, components x d x d where it is `triangular`, that is upper triangular. `bumps` is
// components x components: row k is what the log joint densities are weighted with around k, and
// zero for components that are out of reach.
template <class T> struct AnnealedMixture {
  int components, d;
  bool triangular;
  double* logits;
  T *means, *roots;
  const double* bumps;
  double epsilon, least_root, most_root;
  // Of the rows: the smoothed loss and the first one; sums of log densities and of losses.
  double loss, first, log_density, bound;
};

}  // namespace mixfold
