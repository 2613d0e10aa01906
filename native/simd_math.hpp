// exp and log of vectors, accurate to about 1 ulp on the ranges the kernels need.
#pragma once

#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

// Constants of exp: x = n ln 2 + r, exp(x) = 2^n (1 + r + r^2 p(r)), p interpolates at Chebyshev
// nodes. `shift` is 1.5 * 2^(mantissa bits): adding it rounds to an integer held in the low bits.
template <class T> struct ExpConstants;
template <> struct ExpConstants<double> {
  static constexpr double log2_e = 1.4426950408889634, ln2_high = 6.93147180369123816490e-01,
                          ln2_low = 1.90821492927058770002e-10, shift = 6755399441055744.0;
  static constexpr int mantissa = 52, terms = 10;
  static constexpr double p[terms] = {
      0.5000000000000001,     0.16666666666666669,    0.041666666666624136,
      0.008333333333330063,   0.001388888891720967,   0.00019841269863050506,
      2.4801521302241082e-05, 2.7557268464831627e-06, 2.7620085455018414e-07,
      2.510038319586702e-08};
};
template <> struct ExpConstants<float> {
  static constexpr float log2_e = 1.44269504f, ln2_high = 6.9314575195e-01f,
                         ln2_low = 1.4286067653e-06f, shift = 12582912.0f;
  static constexpr int mantissa = 23, terms = 5;
  static constexpr float p[terms] = {0.5f, 0.16666576998242924f, 0.041666554627878084f,
                                     0.008363177629994445f, 0.0013926181810489343f};
};

// exp(x) for x <= 0; exactly 0 where x is below `cutoff` (>= -708, or -87 for float) or NaN.
template <class S, class T>
MIXFOLD_INLINE typename S::Real exp_nonpositive(const typename S::Real& x, T cutoff) {
  using C = ExpConstants<T>;
  const auto shift = S::splat(C::shift);
  const auto shifted = x * S::splat(C::log2_e) + shift;
  const auto n = shifted - shift;
  const auto r = (x - n * S::splat(C::ln2_high)) - n * S::splat(C::ln2_low);
  auto p = S::splat(C::p[C::terms - 1]);
  MIXFOLD_UNROLL
  for (int i = C::terms - 2; i >= 0; --i) p = p * r + S::splat(C::p[i]);
  const auto e = S::splat(T(1)) + (r + r * r * p);
  const auto scaled = S::from_bits(S::bits(e) + (S::bits(shifted) << C::mantissa));
  return S::select(x > S::splat(cutoff), scaled, S::zero());
}

// Constants of log, from fdlibm: x = 2^n (1 + f), s = f / (2 + f), log(1 + f) = f - s (f - R(s^2)).
template <class T> struct LogConstants;
template <> struct LogConstants<double> {
  static constexpr double ln2_high = 6.93147180369123816490e-01,
                          ln2_low = 1.90821492927058770002e-10;
  static constexpr uint64_t half_sqrt = 0x3fe6a09e667f3bcd, mantissa_mask = 0x000fffffffffffff;
  static constexpr uint64_t shift_bits = 0x4338000000000000;
  static constexpr int terms = 7;
  static constexpr double p[terms] = {6.666666666666735130e-01, 3.999999999940941908e-01,
                                      2.857142874366239149e-01, 2.222219843214978396e-01,
                                      1.818357216161805012e-01, 1.531383769920937332e-01,
                                      1.479819860511658591e-01};
};
template <> struct LogConstants<float> {
  static constexpr float ln2_high = 6.9313812256e-01f, ln2_low = 9.0580006145e-06f;
  static constexpr uint32_t half_sqrt = 0x3f3504f3, mantissa_mask = 0x007fffff;
  static constexpr uint32_t shift_bits = 0x4b400000;
  static constexpr int terms = 4;
  static constexpr float p[terms] = {0.66666662693f, 0.40000972152f, 0.28498786688f,
                                     0.24279078841f};
};

// log(x) for positive normal x.
template <class S, class T> MIXFOLD_INLINE typename S::Real log_normal(const typename S::Real& x) {
  using C = LogConstants<T>;
  constexpr int mantissa = ExpConstants<T>::mantissa;
  const auto shift = S::splat(ExpConstants<T>::shift);
  const auto half_sqrt = S::splat_bits(C::half_sqrt);
  const auto offset = S::bits(x) - half_sqrt;
  // The exponent is converted through the low bits of `shift`: there is no 64-bit conversion
  // before AVX-512.
  const auto exponent = S::shift_right(offset, mantissa);
  const auto n = S::from_bits(exponent + S::splat_bits(C::shift_bits)) - shift;
  const auto m = S::from_bits((offset & S::splat_bits(C::mantissa_mask)) + half_sqrt);
  const auto f = m - S::splat(T(1));
  const auto s = f / (S::splat(T(2)) + f);
  const auto z = s * s;
  auto p = S::splat(C::p[C::terms - 1]);
  MIXFOLD_UNROLL
  for (int i = C::terms - 2; i >= 0; --i) p = p * z + S::splat(C::p[i]);
  const auto half_square = S::splat(T(0.5)) * f * f;
  const auto tail = s * (half_square + z * p) + n * S::splat(C::ln2_low);
  return n * S::splat(C::ln2_high) - ((half_square - tail) - f);
}

}  // namespace mixfold::MIXFOLD_ISA
