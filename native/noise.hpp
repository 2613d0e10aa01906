// NumPy's PCG64DXSM, so that rows draw here what they would have drawn there.
#pragma once

#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

class Noise {
 public:
  // The words of the generator's state: state and increment, each its higher half first.
  explicit Noise(const uint64_t* words)
      : high_(words[0]), low_(words[1]), step_high_(words[2]), step_low_(words[3]) {}
  void save(uint64_t* words) const { words[0] = high_, words[1] = low_; }

  // Uniform in [0, 1), and below 1 so far that its product with a sum stays below the sum.
  MIXFOLD_INLINE double uniform() {
    uint64_t mixed = (high_ ^ (high_ >> 32)) * multiplier;
    mixed = (mixed ^ (mixed >> 48)) * (low_ | 1);
    advance();
    return double(int64_t(mixed >> 11)) * 0x1p-53;
  }

 private:
  static constexpr uint64_t multiplier = 0xda942042e4dd58b5ull;
  uint64_t high_, low_, step_high_, step_low_;

  MIXFOLD_INLINE void advance() {
    const uint64_t product = low_ * multiplier, low = product + step_low_;
    high_ = high_ * multiplier + high_product(low_) + step_high_ + (low < product);
    low_ = low;
  }

  // The higher half of x times the multiplier.
  static MIXFOLD_INLINE uint64_t high_product(uint64_t x) {
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 Wide;
    return uint64_t(Wide(x) * multiplier >> 64);
#else
    constexpr uint64_t half = 0xffffffffu, a = multiplier >> 32, b = multiplier & half;
    const uint64_t c = x >> 32, d = x & half, bd = b * d;
    const uint64_t ad = a * d + (bd >> 32), bc = b * c + (ad & half);
    return a * c + (ad >> 32) + (bc >> 32);
#endif
  }
};

}  // namespace mixfold::MIXFOLD_ISA
