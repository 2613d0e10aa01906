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

// Cuts 0 .. length into runs of nearly equal size, none above `most`.
struct Tiling {
  int length, count;
  Tiling(int length_, int most) : length(length_), count((length_ + most - 1) / most) {}
  int begin(int t) const { return int(int64_t(length) * t / count); }
  int end(int t) const { return begin(t + 1); }
  int size(int t) const { return end(t) - begin(t); }
};

}  // namespace mixfold::MIXFOLD_ISA
