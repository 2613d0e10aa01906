// Families whose sufficient statistic is the row itself: Poisson, exponential.
#pragma once

#include "expectation.hpp"
#include "log_factorial.hpp"
#include "reduction.hpp"
#include "separable.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T> class Linear {
 public:
  using Number = T;

  explicit Linear(const LinearFamily& f)
      : density_(f.components, f.d, f.offset,
                 [&](int, int k, int j) { return f.eta[ptrdiff_t(k) * f.d + j]; }),
        components_(f.components, components_tile), coordinates_(f.d, coordinates_tile),
        poisson_(f.poisson) {
    origin_ = scratch_of<T>(Slot::origin, f.d);
    for (int j = 0; j < f.d; ++j) origin_[j] = 0;
  }

  int components() const { return density_.components(); }
  ptrdiff_t per_vector() const { return density_.per_vector(); }
  const T* origin() const { return origin_; }
  const bool* exists() const { return density_.exists(); }
  void log_joint(const Block<T>& block) const { density_.log_joint(block); }

  double log_base_measure(const Block<T>& block) const {
    double sum = 0;
    if (poisson_)
      for (int v = 0; v < block.vectors; ++v)
        for (int lane = 0; lane < S::lanes; ++lane)
          sum += double(block.weights[v * S::lanes + lane]) * log_base_measure(block, v, lane);
    return sum;
  }

  double log_base_measure(const Block<T>& block, int v, int lane) const {
    if (!poisson_) return 0;
    const T* const x = block.x + ptrdiff_t(v) * block.d * S::lanes + lane;
    double sum = 0;
    for (int j = 0; j < block.d; ++j) sum -= log_factorial_of(x[j * S::lanes]);
    return sum;
  }

  void accumulate(const Block<T>& block, double* result) const {
    for (int t = 0; t < components_.count; ++t)
      with_constant<components_tile>(components_.size(t), [&](auto rows) {
        constexpr int K = decltype(rows)::value;
        double* const out = result + ptrdiff_t(components_.begin(t)) * (1 + block.d);
        const T* const r = block.joint + components_.begin(t) * block.stride;
        accumulate_weights<K>(block, r, out);
        for (int q = 0; q < coordinates_.count; ++q)
          with_constant<coordinates_tile>(coordinates_.size(q), [&](auto columns) {
            accumulate_tile<K, decltype(columns)::value>(block, r, coordinates_.begin(q), out + 1);
          });
      });
  }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;
  static constexpr int components_tile = vector_bytes == 64 ? 4 : 3;
  static constexpr int coordinates_tile = vector_bytes == 64 ? 5 : 3;

  double log_factorial_of(T x) const {
    // The comparisons fail for a NaN too.
    if (x >= 0 && x < tabulated_factorials && T(int(x)) == x) return table_[int(x)];
    return log_factorial(double(x));
  }

  template <int K>
  static void accumulate_weights(const Block<T>& block, const T* r, double* out) {
    Real sum[K];
    MIXFOLD_UNROLL
    for (int k = 0; k < K; ++k) sum[k] = S::zero();
    for (int v = 0; v < block.vectors; ++v)
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k) sum[k] += S::load(r + k * block.stride + v * S::lanes);
    T sums[K];
    lane_sums<S, K>(sum, sums);
    for (int k = 0; k < K; ++k) out[ptrdiff_t(k) * (1 + block.d)] += double(sums[k]);
  }

  template <int K, int J>
  static void accumulate_tile(const Block<T>& block, const T* r, int j0, double* out) {
    Real sum[K * J];
    MIXFOLD_UNROLL
    for (int i = 0; i < K * J; ++i) sum[i] = S::zero();
    for (int v = 0; v < block.vectors; ++v) {
      const T* const x = block.x + (ptrdiff_t(v) * block.d + j0) * S::lanes;
      Real xv[J];
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j) xv[j] = S::load(x + j * S::lanes);
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k) {
        const Real rv = S::load(r + k * block.stride + v * S::lanes);
        MIXFOLD_UNROLL
        for (int j = 0; j < J; ++j) sum[k * J + j] += rv * xv[j];
      }
    }
    T sums[K * J];
    lane_sums<S, K * J>(sum, sums);
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < J; ++j)
        out[ptrdiff_t(k) * (1 + block.d) + j0 + j] += double(sums[k * J + j]);
  }

  Separable<T, InnerProduct> density_;
  Tiling components_, coordinates_;
  bool poisson_;
  const double* table_ = log_factorial_table();
  T* origin_;
};

}  // namespace mixfold::MIXFOLD_ISA
