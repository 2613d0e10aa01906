// Weighted sums of u and u^2, u = x - origin, for components that many rows matter to.
//
// All components share u and its square, so that a row costs each of them two fused operations per
// coordinate, where whitening it first costs four. What whitening must then take off the sums
// cancels if a component is many of its deviations from the origin: such a component is not suited.
#pragma once

#include "block.hpp"
#include "tiling.hpp"

namespace mixfold::MIXFOLD_ISA {

// `shift` bounds the mean in deviations, `scale` and `square` keep u^2 from under- and overflow.
template <class T> struct SharedLimits;
template <> struct SharedLimits<double> {
  static constexpr double shift = 64, scale = 1e120, square = 1e300;
};
template <> struct SharedLimits<float> {
  static constexpr float shift = 4, scale = 1e12f, square = 1e36f;
};

template <class T> class SharedMoments {
 public:
  SharedMoments(const Gaussians& g, int vectors, int rows)
      : g_(g), vectors_(vectors), tiles_(vectors, wide) {
    members_ = scratch_of<Member>(Slot::members, g.components);
    interleaved_ = scratch_of<T>(Slot::interleaved, ptrdiff_t(rows) * deep);
  }

  // Has component k take part in the next add().
  void enlist(int k, const T* responsibilities, double weight) {
    if (!moments_) clear();
    members_[count_++] = {k, responsibilities};
    weights_[k] += weight;
  }

  // Vector j of row i is at x[(j stride + i) lanes].
  void add(const T* x, ptrdiff_t stride, int rows) {
    if (count_ == 0) return;
    const Tiling groups(count_, deep);
    for (int g = 0; g < groups.count; ++g)
      with_constant<deep>(groups.size(g), [&](auto size) {
        constexpr int K = decltype(size)::value;
        const Member* const members = members_ + groups.begin(g);
        interleave<K>(members, rows);
        for (int t = 0; t < tiles_.count; ++t)
          with_constant<wide>(tiles_.size(t), [&](auto width) {
            add_tile<K, decltype(width)::value>(members, x, stride, rows, tiles_.begin(t));
          });
      });
    count_ = 0;
  }

  // Adds to S1 and S2 of each component the sums over its whitened rows.
  void convert(double* result) const {
    if (!moments_) return;
    for (int k = 0; k < g_.components; ++k, result += 1 + 2 * g_.d)
      if (weights_[k] > 0)
        for (int j = 0; j < g_.d; j += S::lanes) convert_vector(k, j, result + 1 + j);
  }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;
  // Components by vectors of coordinates: two sums for each stay in registers.
  static constexpr int deep = vector_bytes == 64 ? 6 : 3, wide = 2;
  static constexpr int pair = 2 * S::lanes;

  struct Member {
    int k;
    const T* responsibilities;
  };

  void clear() {
    const ptrdiff_t size = ptrdiff_t(g_.components) * (1 + ptrdiff_t(vectors_) * pair);
    moments_ = scratch_of<double>(Slot::moments, size);
    weights_ = moments_ + size - g_.components;
    memset(moments_, 0, size * sizeof(double));
  }

  void convert_vector(int k, int j, double* s1) const {
    const double* const sum = moments_ + (ptrdiff_t(k) * vectors_ * S::lanes + j) * 2;
    const double* const mean = g_.means + ptrdiff_t(k) * g_.d + j;
    const double* const whiten = g_.whiten + ptrdiff_t(k) * g_.d + j;
    const double weight = weights_[k];
    double* const s2 = s1 + g_.d;
    const int some = g_.d - j < S::lanes ? g_.d - j : S::lanes;
    for (int i = 0; i < some; ++i) {
      const double shift = mean[i] * whiten[i];
      const double scaled = whiten[i] * sum[i], centred = scaled - shift * weight;
      s1[i] += centred;
      s2[i] += whiten[i] * (whiten[i] * sum[S::lanes + i]) - shift * (scaled + centred);
    }
  }

  template <int K> void interleave(const Member* members, int rows) {
    for (int k = 0; k < K; ++k)
      for (int i = 0; i < rows; ++i) interleaved_[i * K + k] = members[k].responsibilities[i];
  }

  template <int K, int J>
  void add_tile(const Member* members, const T* x, ptrdiff_t stride, int rows, int j0) {
    Real sum[K][2 * J];
    MIXFOLD_UNROLL
    for (int k = 0; k < K; ++k)
      MIXFOLD_UNROLL
      for (int j = 0; j < 2 * J; ++j) sum[k][j] = S::zero();
    x += j0 * stride * S::lanes;
    const T* r = interleaved_;
    for (int i = 0; i < rows; ++i, x += S::lanes, r += K) {
      Real u[2 * J];
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j) {
        u[2 * j] = S::load(x + j * stride * S::lanes);
        u[2 * j + 1] = u[2 * j] * u[2 * j];
      }
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k) {
        const Real share = S::splat(r[k]);
        MIXFOLD_UNROLL
        for (int j = 0; j < 2 * J; ++j) sum[k][j] += share * u[j];
      }
    }
    MIXFOLD_UNROLL
    for (int k = 0; k < K; ++k)
      add_lanes(sum[k], moments_ + (ptrdiff_t(members[k].k) * vectors_ + j0) * pair);
  }

  template <int J> static MIXFOLD_INLINE void add_lanes(const Real (&sums)[J], double* out) {
    if constexpr (sizeof(T) == sizeof(double)) {
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j)
        S::store(out + j * S::lanes, S::load(out + j * S::lanes) + sums[j]);
    } else {
      T lane[J * S::lanes];
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j) S::store(lane + j * S::lanes, sums[j]);
      for (int i = 0; i < J * S::lanes; ++i) out[i] += double(lane[i]);
    }
  }

  const Gaussians g_;
  int vectors_;
  Tiling tiles_;
  Member* members_;
  int count_ = 0;
  T* interleaved_;
  double *moments_ = nullptr, *weights_ = nullptr;
};

}  // namespace mixfold::MIXFOLD_ISA
