// A Gaussian mixture with diagonal precisions under stochastic gradients.
#pragma once

namespace mixfold {

// `means` and `roots` are components x d; `bumps` is components x components: row k is what the log
// joint densities are weighted with around k, and zero for components that are out of reach.
template <class T> struct AnnealedMixture {
  int components, d;
  double* logits;
  T *means, *roots;
  const double* bumps;
  double epsilon, least_root, most_root;
  // Of the rows: the smoothed loss, the first one and the sum.
  double loss, first, total;
};

}  // namespace mixfold
