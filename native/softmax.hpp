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

// What the softmax of a vector of rows leaves to be used: the largest log joint density and the sum
// of exp(L_k - largest) over components.
template <class S> struct RowSoftmax {
  typename S::Real peak, total;
};

// A row that no component explains at all: every component that exists shares it. `total` becomes
// their number there; the factor of the density, 1, is returned.
template <class S, class T>
typename S::Real share_unexplained(const Block<T>& block, int v, const bool* exists,
                                   typename S::Real& total) {
  T sum[S::lanes], factor[S::lanes], present = 0;
  S::store(sum, total);
  S::store(factor, total);
  for (int k = 0; k < block.components; ++k) present += T(exists[k]);
  for (int lane = 0; lane < S::lanes; ++lane) {
    if (sum[lane] > 0) continue;
    sum[lane] = present > 0 ? present : T(1);
    factor[lane] = 1;
    for (int k = 0; k < block.components; ++k)
      block.joint[k * block.stride + v * S::lanes + lane] = T(exists[k]);
  }
  total = S::load(sum);
  return S::load(factor);
}

// Leaves exp(L_k - peak) in block.joint; exactly 0 below `cutoff`.
template <class S, class T>
MIXFOLD_INLINE RowSoftmax<S> exponentiate(const Block<T>& block, int v, T cutoff) {
  T* const joint = block.joint + v * S::lanes;
  const ptrdiff_t stride = block.stride;
  const int components = block.components;
  auto peak = S::splat(Extremes<T>::least);
  for (int k = 0; k < components; ++k) peak = S::max(S::load(joint + k * stride), peak);
  auto total = S::zero();
  for (int k = 0; k < components; ++k) {
    const auto e = exp_nonpositive<S>(S::load(joint + k * stride) - peak, cutoff);
    S::store(joint + k * stride, e);
    total += e;
  }
  return {peak, total};
}

// True where some lane of a row's total is zero: the totals of explained rows are at least 1.
template <class S> MIXFOLD_INLINE bool unexplained(const typename S::Real& total) {
  return S::any(S::splat(0.5f) > total);
}

// The sum of log(total) over vectors, one logarithm for many: each total is between 1 and the
// number of components, so that a product of `capacity` of them does not overflow.
template <class S, class T> class LogProduct {
 public:
  explicit LogProduct(int components) {
    for (T bound = T(components); bound < overflow / T(components); bound *= T(components))
      if (++capacity_ == 32) break;
  }
  MIXFOLD_INLINE void multiply(const typename S::Real& factor) {
    product_ *= factor;
    if (++count_ >= capacity_) flush();
  }
  typename S::Real sum() {
    flush();
    return sum_;
  }

 private:
  static constexpr T overflow = sizeof(T) == 8 ? T(1e300) : T(1e37f);

  void flush() {
    sum_ += log_normal<S, T>(product_);
    product_ = S::splat(T(1));
    count_ = 0;
  }

  typename S::Real product_ = S::splat(T(1)), sum_ = S::zero();
  int capacity_ = 1, count_ = 0;
};

template <class S, class T>
MIXFOLD_INLINE void scale_responsibilities(const Block<T>& block, int v,
                                           const typename S::Real& scale) {
  T* const joint = block.joint + v * S::lanes;
  const ptrdiff_t stride = block.stride;
  const int components = block.components;
  for (int k = 0; k < components; ++k)
    S::store(joint + k * stride, S::load(joint + k * stride) * scale);
}

// Responsibilities times weights into block.joint; returns the weighted log-likelihood. The passes
// over the block are separate to keep the processor's window of instructions short.
template <class S, class T> double respond(const Block<T>& block, const bool* exists) {
  T* const totals = scratch_of<T>(Slot::totals, ptrdiff_t(block.vectors) * S::lanes);
  T* const peaks = scratch_of<T>(Slot::peaks, ptrdiff_t(block.vectors) * S::lanes);
  for (int v = 0; v < block.vectors; ++v) {
    const auto softmax = exponentiate<S>(block, v, Extremes<T>::negligible);
    S::store(totals + v * S::lanes, softmax.total);
    S::store(peaks + v * S::lanes, softmax.peak);
  }
  auto likelihood = S::zero();
  LogProduct<S, T> product(block.components);
  for (int v = 0; v < block.vectors; ++v) {
    auto total = S::load(totals + v * S::lanes), factor = total;
    if (unexplained<S>(total)) factor = share_unexplained<S>(block, v, exists, total);
    const auto weight = S::load(block.weights + v * S::lanes), peak = S::load(peaks + v * S::lanes);
    if (v < block.unit_vectors) {
      likelihood += peak;
      product.multiply(factor);
    } else {
      likelihood += weight * (peak + log_normal<S, T>(factor));
    }
    scale_responsibilities<S>(block, v, weight / total);
  }
  return double(S::sum(likelihood)) + double(S::sum(product.sum()));
}

}  // namespace mixfold::MIXFOLD_ISA
