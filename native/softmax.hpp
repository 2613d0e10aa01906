// Log joint densities to responsibilities, over the components of a block of rows.
#pragma once

#include "block.hpp"
#include "simd_math.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T> struct Extremes;
// `least` stands for minus infinity, finite so that it can be weighted by zero; responsibilities
// below exp(negligible) = 1e-30 change no statistic.
template <> struct Extremes<double> {
  static constexpr double least = -4.4e307, negligible = -69.0, smallest = -708.0;
};
template <> struct Extremes<float> {
  static constexpr float least = -8.5e37f, negligible = -69.0f, smallest = -87.0f;
};

// A row that no component explains at all: every component that exists shares it.
template <class S, class T>
void share_unexplained(const Block<T>& block, int v, const bool* exists, typename S::Real& total) {
  T sum[S::lanes];
  S::store(sum, total);
  T present = 0;
  for (int k = 0; k < block.components; ++k) present += T(exists[k]);
  for (int lane = 0; lane < S::lanes; ++lane) {
    if (sum[lane] > 0) continue;
    sum[lane] = present > 0 ? present : T(1);
    for (int k = 0; k < block.components; ++k)
      block.joint[k * block.stride + v * S::lanes + lane] = T(exists[k]);
  }
  total = S::load(sum);
}

template <class S> struct RowSoftmax {
  typename S::Real total, log_density;
};

// Leaves exp(L_k - max L) in block.joint; exactly 0 below `cutoff`.
template <class S, class T>
MIXFOLD_INLINE RowSoftmax<S> exponentiate(const Block<T>& block, int v, const bool* exists,
                                          T cutoff) {
  T* const joint = block.joint + v * S::lanes;
  auto peak = S::splat(Extremes<T>::least);
  for (int k = 0; k < block.components; ++k)
    peak = S::max(S::load(joint + k * block.stride), peak);
  auto total = S::zero();
  for (int k = 0; k < block.components; ++k) {
    const auto e = exp_nonpositive<S>(S::load(joint + k * block.stride) - peak, cutoff);
    S::store(joint + k * block.stride, e);
    total += e;
  }
  auto log_total = total;
  if (S::any(S::splat(T(1e-3)) > total)) {
    const auto explained = total > S::zero();
    share_unexplained<S>(block, v, exists, total);
    log_total = S::select(explained, total, S::splat(T(1)));
  }
  return {total, peak + log_normal<S, T>(log_total)};
}

// Responsibilities times weights into block.joint; returns the weighted log-likelihood.
template <class S, class T> double respond(const Block<T>& block, const bool* exists) {
  auto likelihood = S::zero();
  for (int v = 0; v < block.vectors; ++v) {
    const auto softmax = exponentiate<S>(block, v, exists, Extremes<T>::negligible);
    const auto weight = S::load(block.weights + v * S::lanes);
    likelihood += weight * softmax.log_density;
    const auto scale = weight / softmax.total;
    T* const joint = block.joint + v * S::lanes;
    for (int k = 0; k < block.components; ++k)
      S::store(joint + k * block.stride, S::load(joint + k * block.stride) * scale);
  }
  return double(S::sum(likelihood));
}

}  // namespace mixfold::MIXFOLD_ISA
