// Cutting loops into register tiles whose sizes the compiler knows.
#pragma once

#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

template <int N> struct Constant { static constexpr int value = N; };

// Calls f with n as a compile-time constant, 1 <= n <= N.
template <int N, class F> MIXFOLD_INLINE void with_constant(int n, F&& f) {
  if constexpr (N == 1) {
    f(Constant<1>{});
  } else {
    if (n == N) f(Constant<N>{});
    else with_constant<N - 1>(n, f);
  }
}

// Cuts 0 .. length into runs of nearly equal size, none above `most`; shorter ones first, so that
// begin(t) <= length t / count.
struct Tiling {
  int count, least = 0, shorter = 0;
  // Divides once: the loops ask for begin and size too often to divide there.
  Tiling(int length, int most) : count((length + most - 1) / most) {
    if (count) least = length / count, shorter = count - length % count;
  }
  int begin(int t) const { return t * least + (t > shorter ? t - shorter : 0); }
  int end(int t) const { return begin(t + 1); }
  int size(int t) const { return end(t) - begin(t); }
};

}  // namespace mixfold::MIXFOLD_ISA
