// Sums over the lanes of many vectors at once.
#pragma once

#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

// Lane i of the result is the sum of the lanes of v[i]; vectors from Count on count as zero.
template <class S, int Count>
MIXFOLD_INLINE typename S::Real sums_of_group(const typename S::Real* v) {
  constexpr int N = S::lanes;
  typename S::Real level[N];
  MIXFOLD_UNROLL
  for (int i = 0; i < N; ++i) level[i] = i < Count ? v[i] : S::zero();
  MIXFOLD_UNROLL
  for (int width = N; width > 1; width /= 2)
    MIXFOLD_UNROLL
    for (int i = 0; i < width / 2; ++i)
      level[i] = S::even(level[2 * i], level[2 * i + 1]) + S::odd(level[2 * i], level[2 * i + 1]);
  return level[0];
}

// out[i] = the sum of the lanes of v[i].
template <class S, int Count, class T>
MIXFOLD_INLINE void lane_sums(const typename S::Real* v, T* out) {
  constexpr int N = S::lanes;
  if constexpr (Count > N) {
    S::store(out, sums_of_group<S, N>(v));
    lane_sums<S, Count - N>(v + N, out + N);
  } else {
    T last[N];
    S::store(last, sums_of_group<S, Count>(v));
    for (int i = 0; i < Count; ++i) out[i] = last[i];
  }
}

template <class S, int Count>
MIXFOLD_INLINE void add_lane_sums(const typename S::Real (&v)[Count], double* out) {
  using T = decltype(S::sum(v[0]));
  T sums[Count];
  lane_sums<S, Count>(v, sums);
  for (int i = 0; i < Count; ++i) out[i] += double(sums[i]);
}

}  // namespace mixfold::MIXFOLD_ISA
