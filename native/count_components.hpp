// Counting where components lie along the lanes.
#pragma once

#include <string.h>

#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

// How many of the first `components` are marked among k .. k + lanes.
template <class S>
MIXFOLD_INLINE int count_components(int components, int k, const typename S::Integers& marked) {
  if (!S::any(marked)) return 0;
  typename S::Integer lane[S::lanes];
  memcpy(lane, &marked, sizeof lane);
  int count = 0;
  for (int i = 0; i < S::lanes && k + i < components; ++i) count += lane[i] != 0;
  return count;
}

}  // namespace mixfold::MIXFOLD_ISA
