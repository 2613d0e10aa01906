// Sums over the lanes of many vectors at once.
#pragma once

#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

// Lane i of the result is the sum of lanes i Width .. of the vectors laid end to end. Recursive
// because a loop that halves its width is not unrolled, and would keep the vectors in memory.
template <class S, int Width>
MIXFOLD_INLINE typename S::Real fold_lanes(const typename S::Real (&v)[Width]) {
  if constexpr (Width == 1) {
    return v[0];
  } else {
    typename S::Real half[Width / 2];
    MIXFOLD_UNROLL
    for (int i = 0; i < Width / 2; ++i)
      half[i] = S::even(v[2 * i], v[2 * i + 1]) + S::odd(v[2 * i], v[2 * i + 1]);
    return fold_lanes<S, Width / 2>(half);
  }
}

// Lane i of the result is the sum of the lanes of v[i]; vectors from Count on count as zero.
template <class S, int Count>
MIXFOLD_INLINE typename S::Real sums_of_group(const typename S::Real* v) {
  typename S::Real all[S::lanes];
  MIXFOLD_UNROLL
  for (int i = 0; i < S::lanes; ++i) all[i] = i < Count ? v[i] : S::zero();
  return fold_lanes<S, S::lanes>(all);
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
