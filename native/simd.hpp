// Short vectors of numbers: GCC and Clang vector extensions, or plain arrays where there are none.
//
// Every file that includes this one is compiled once per instruction set, so everything lives in a
// namespace named after it: otherwise the linker would merge, say, AVX-512 and baseline copies of
// one inline function. For the same reason the standard library's inline functions stay out.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <utility>

#if !defined(MIXFOLD_ISA)
#error "MIXFOLD_ISA must name the instruction set this file is compiled for"
#endif

// MIXFOLD_INLINE_LAMBDA stands between the parameters of a lambda and its body.
#if defined(_MSC_VER)
#define MIXFOLD_INLINE __forceinline
#define MIXFOLD_INLINE_LAMBDA
#define MIXFOLD_UNROLL
#elif defined(MIXFOLD_SANITIZE)
// With a check of every access, code that is inlined and unrolled takes minutes to compile.
#define MIXFOLD_INLINE inline
#define MIXFOLD_INLINE_LAMBDA
#define MIXFOLD_UNROLL
#else
#define MIXFOLD_INLINE inline __attribute__((always_inline))
#define MIXFOLD_INLINE_LAMBDA __attribute__((always_inline))
#define MIXFOLD_UNROLL _Pragma("GCC unroll 32")
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(MIXFOLD_PLAIN_LANES)
#define MIXFOLD_VECTOR_EXTENSIONS 1
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#else
#include <math.h>
#endif

namespace mixfold::MIXFOLD_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

// Integers as wide as a number: what comparisons give, and the bits of a number.
template <class T> struct IntegerOf;
template <> struct IntegerOf<double> {
  using type = int64_t;
  using bits = uint64_t;
};
template <> struct IntegerOf<float> {
  using type = int32_t;
  using bits = uint32_t;
};

#if defined(MIXFOLD_VECTOR_EXTENSIONS)

template <class T, int N> struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
  typedef T in_memory __attribute__((vector_size(N * sizeof(T)), aligned(1)));
};
template <class T, int N> using Vector = typename VectorOf<T, N>::type;

#else

template <class T, int N> struct Vector {
  T lane[N];
  MIXFOLD_INLINE T operator[](int i) const { return lane[i]; }
};

#define MIXFOLD_LANEWISE(op)                                                              \
  template <class T, int N>                                                               \
  MIXFOLD_INLINE Vector<T, N> operator op(const Vector<T, N>& a, const Vector<T, N>& b) { \
    Vector<T, N> c;                                                                       \
    for (int i = 0; i < N; ++i) c.lane[i] = T(a.lane[i] op b.lane[i]);                    \
    return c;                                                                             \
  }                                                                                       \
  template <class T, int N>                                                               \
  MIXFOLD_INLINE Vector<T, N>& operator op##=(Vector<T, N>& a, const Vector<T, N>& b) {   \
    return a = a op b;                                                                    \
  }
MIXFOLD_LANEWISE(+)
MIXFOLD_LANEWISE(-)
MIXFOLD_LANEWISE(*)
MIXFOLD_LANEWISE(/)
MIXFOLD_LANEWISE(&)
MIXFOLD_LANEWISE(|)
#undef MIXFOLD_LANEWISE

#define MIXFOLD_SHIFT(op)                                                 \
  template <class T, int N>                                               \
  MIXFOLD_INLINE Vector<T, N> operator op(const Vector<T, N>& a, int s) { \
    Vector<T, N> c;                                                       \
    for (int i = 0; i < N; ++i) c.lane[i] = a.lane[i] op s;               \
    return c;                                                             \
  }
MIXFOLD_SHIFT(<<)
MIXFOLD_SHIFT(>>)
#undef MIXFOLD_SHIFT

template <class T, int N>
MIXFOLD_INLINE auto operator>(const Vector<T, N>& a, const Vector<T, N>& b) {
  Vector<typename IntegerOf<T>::type, N> c;
  for (int i = 0; i < N; ++i) c.lane[i] = a.lane[i] > b.lane[i] ? -1 : 0;
  return c;
}

#endif

#if defined(MIXFOLD_VECTOR_EXTENSIONS)
template <class T> struct __attribute__((packed)) Unaligned { T number; };
#endif

// A number at any address.
template <class T> MIXFOLD_INLINE T load_number(const T* p) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS)
  return reinterpret_cast<const Unaligned<T>*>(p)->number;
#else
  T x;
  memcpy(&x, p, sizeof x);
  return x;
#endif
}

// Copies from[i] to `to`, one after the other, for the bits i < N that are set; returns their number.
// Up to N numbers from `to` on may change.
template <int N> MIXFOLD_INLINE int copy_marked(unsigned bits, const int* from, int* to) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX512VL__)
  if constexpr (N == 8) {
    const auto some = _mm256_maskz_compress_epi32(bits, _mm256_loadu_si256((const __m256i*)from));
    _mm256_storeu_si256((__m256i*)to, some);
    return __builtin_popcount(bits);
  }
  if constexpr (N == 16) {
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(bits, _mm512_loadu_si512(from)));
    return __builtin_popcount(bits);
  }
#endif
  int count = 0;
  for (int i = 0; i < N; ++i) {
    to[count] = from[i];
    count += bits >> i & 1;
  }
  return count;
}

// The operations of one vector shape; arithmetic itself is written with operators.
template <class T, int N = vector_bytes / int(sizeof(T))> struct Simd {
  static constexpr int lanes = N;
  using Real = Vector<T, N>;
  using Integer = typename IntegerOf<T>::type;
  using Integers = Vector<Integer, N>;
  // Unsigned, because sums of bits may pass the largest signed integer.
  using Bit = typename IntegerOf<T>::bits;
  using Bits = Vector<Bit, N>;

  // At any address. Not by memcpy where it can be helped: that would tell the compiler that
  // anything may change.
#if defined(MIXFOLD_VECTOR_EXTENSIONS)
  using InMemory = typename VectorOf<T, N>::in_memory;
  static MIXFOLD_INLINE Real load(const T* p) { return *reinterpret_cast<const InMemory*>(p); }
  static MIXFOLD_INLINE void store(T* p, const Real& v) { *reinterpret_cast<InMemory*>(p) = v; }
#else
  static MIXFOLD_INLINE Real load(const T* p) {
    Real v;
    memcpy(&v, p, sizeof v);
    return v;
  }
  static MIXFOLD_INLINE void store(T* p, const Real& v) { memcpy(p, &v, sizeof v); }
#endif

  static MIXFOLD_INLINE Bits bits(const Real& v) { return same_bits<Bits>(v); }
  static MIXFOLD_INLINE Real from_bits(const Bits& b) { return same_bits<Real>(b); }
  // Copies of the highest bit come in from the left.
  static MIXFOLD_INLINE Bits shift_right(const Bits& b, int by) {
    return same_bits<Bits>(same_bits<Integers>(b) >> by);
  }

#if defined(MIXFOLD_VECTOR_EXTENSIONS)
  static MIXFOLD_INLINE Real splat(T x) { return x - Real{}; }
  static MIXFOLD_INLINE Integers splat_integer(Integer x) { return x - Integers{}; }
  static MIXFOLD_INLINE Bits splat_bits(Bit x) { return x - Bits{}; }
  static MIXFOLD_INLINE Real select(const Integers& mask, const Real& yes, const Real& no) {
    return mask ? yes : no;
  }
  static MIXFOLD_INLINE Integers nonzero(const Real& v) { return v != Real{}; }
  static MIXFOLD_INLINE Integers is_nan(const Real& v) { return v != v; }
#else
  static MIXFOLD_INLINE Real splat(T x) {
    Real v;
    for (int i = 0; i < N; ++i) v.lane[i] = x;
    return v;
  }
  static MIXFOLD_INLINE Integers splat_integer(Integer x) {
    Integers v;
    for (int i = 0; i < N; ++i) v.lane[i] = x;
    return v;
  }
  static MIXFOLD_INLINE Bits splat_bits(Bit x) {
    Bits v;
    for (int i = 0; i < N; ++i) v.lane[i] = x;
    return v;
  }
  static MIXFOLD_INLINE Real select(const Integers& mask, const Real& yes, const Real& no) {
    Real v;
    for (int i = 0; i < N; ++i) v.lane[i] = mask.lane[i] ? yes.lane[i] : no.lane[i];
    return v;
  }
  static MIXFOLD_INLINE Integers nonzero(const Real& v) {
    Integers mask;
    for (int i = 0; i < N; ++i) mask.lane[i] = v.lane[i] != 0 ? -1 : 0;
    return mask;
  }
  static MIXFOLD_INLINE Integers is_nan(const Real& v) {
    Integers mask;
    for (int i = 0; i < N; ++i) mask.lane[i] = v.lane[i] != v.lane[i] ? -1 : 0;
    return mask;
  }
#endif

  // a0 b0 a1 b1 ... of the lower or upper halves.
  static MIXFOLD_INLINE Real interleave_low(const Real& a, const Real& b) {
    return pick<Interleave<0>>(a, b, std::make_integer_sequence<int, N>{});
  }
  static MIXFOLD_INLINE Real interleave_high(const Real& a, const Real& b) {
    return pick<Interleave<N / 2>>(a, b, std::make_integer_sequence<int, N>{});
  }
  // Every other lane of a followed by b.
  static MIXFOLD_INLINE Real even(const Real& a, const Real& b) {
    return pick<Alternate<0>>(a, b, std::make_integer_sequence<int, N>{});
  }
  static MIXFOLD_INLINE Real odd(const Real& a, const Real& b) {
    return pick<Alternate<1>>(a, b, std::make_integer_sequence<int, N>{});
  }

  static MIXFOLD_INLINE Real zero() { return splat(T(0)); }

  // Lane i becomes lane i - 1, the first one zero.
  static MIXFOLD_INLINE Real move_up(const Real& v) {
    return pick<Shift<1>>(zero(), v, std::make_integer_sequence<int, N>{});
  }

  // Lane i becomes the sum of lanes 0 .. i.
  static MIXFOLD_INLINE Real running_sum(const Real& v) { return running_sum_from<1>(v); }

  // b where a is NaN.
  static MIXFOLD_INLINE Real max(const Real& a, const Real& b) { return select(a > b, a, b); }

  static MIXFOLD_INLINE Real sqrt(const Real& v) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX512F__)
    if constexpr (sizeof(Real) == 64 && sizeof(T) == 8) 
      return Real(_mm512_maskz_sqrt_pd(0xff, __m512d(v)));
#endif
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX__)
    if constexpr (sizeof(Real) == 32 && sizeof(T) == 8) return Real(_mm256_sqrt_pd(__m256d(v)));
#endif
    T lane[N];
    store(lane, v);
    for (int i = 0; i < N; ++i) lane[i] = scalar_sqrt(lane[i]);
    return load(lane);
  }

  static MIXFOLD_INLINE double scalar_sqrt(double x) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS)
    return __builtin_sqrt(x);
#else
    return ::sqrt(x);
#endif
  }

  // To within two units in the last place where there is a faster way than to divide.
  static MIXFOLD_INLINE Real reciprocal(const Real& v) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX512F__)
    if constexpr (sizeof(Real) == 64 && sizeof(T) == 4)
      return refined(v, Real(_mm512_maskz_rcp14_ps(0xffff, __m512(v))));
#endif
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX__)
    if constexpr (sizeof(Real) == 32 && sizeof(T) == 4)
      return refined(v, Real(_mm256_rcp_ps(__m256(v))));
#endif
    return splat(T(1)) / v;
  }

  // Pairwise, so that the order of additions is the same for every caller.
  static MIXFOLD_INLINE T sum(const Real& v) {
    if constexpr (N == 1) {
      return v[0];
    } else {
      using Half = Simd<T, N / 2>;
      T lane[N];
      store(lane, v);
      return Half::sum(Half::load(lane) + Half::load(lane + N / 2));
    }
  }

  static MIXFOLD_INLINE T largest(const Real& v) {
    if constexpr (N == 1) {
      return v[0];
    } else {
      using Half = Simd<T, N / 2>;
      T lane[N];
      store(lane, v);
      return Half::largest(Half::max(Half::load(lane), Half::load(lane + N / 2)));
    }
  }

  static MIXFOLD_INLINE bool any(const Integers& mask) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX512DQ__)
    if constexpr (sizeof(Real) == 64 && sizeof(T) == 8) return _mm512_movepi64_mask(__m512i(mask));
    if constexpr (sizeof(Real) == 64 && sizeof(T) == 4) return _mm512_movepi32_mask(__m512i(mask));
#endif
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX__)
    if constexpr (sizeof(Real) == 32) return _mm256_movemask_ps(__m256(mask));
#endif
    Integer lane[N], found = 0;
    memcpy(lane, &mask, sizeof lane);
    for (int i = 0; i < N; ++i) found |= lane[i];
    return found != 0;
  }

  // Bit i is set where lane i is.
  static MIXFOLD_INLINE unsigned marked(const Integers& mask) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX512DQ__)
    if constexpr (sizeof(Real) == 64 && sizeof(T) == 8) return _mm512_movepi64_mask(__m512i(mask));
    if constexpr (sizeof(Real) == 64 && sizeof(T) == 4) return _mm512_movepi32_mask(__m512i(mask));
#endif
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX__)
    if constexpr (sizeof(Real) == 32 && sizeof(T) == 8) return _mm256_movemask_pd(__m256d(mask));
    if constexpr (sizeof(Real) == 32 && sizeof(T) == 4) return _mm256_movemask_ps(__m256(mask));
#endif
    Integer lane[N];
    unsigned found = 0;
    memcpy(lane, &mask, sizeof lane);
    for (int i = 0; i < N; ++i) found |= unsigned(lane[i] != 0) << i;
    return found;
  }

  static MIXFOLD_INLINE int count(const Integers& mask) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX512DQ__)
    if constexpr (sizeof(Real) == 64 && sizeof(T) == 8)
      return __builtin_popcount(_mm512_movepi64_mask(__m512i(mask)));
#endif
#if defined(MIXFOLD_VECTOR_EXTENSIONS) && defined(__AVX2__)
    if constexpr (sizeof(Real) == 32 && sizeof(T) == 8)
      return __builtin_popcount(_mm256_movemask_pd(__m256d(mask)));
#endif
    Integer lane[N];
    int marked = 0;
    memcpy(lane, &mask, sizeof lane);
    for (int i = 0; i < N; ++i) marked += lane[i] != 0;
    return marked;
  }

 private:
  template <class To, class From> static MIXFOLD_INLINE To same_bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
  }

  // One step of Newton's method towards 1 / v.
  static MIXFOLD_INLINE Real refined(const Real& v, const Real& rough) {
    return rough + rough * (splat(T(1)) - v * rough);
  }

  // Where lane i of a shuffle comes from, in a followed by b.
  template <int From> struct Interleave {
    static constexpr int source(int i) { return From + i / 2 + i % 2 * N; }
  };
  template <int From> struct Alternate {
    static constexpr int source(int i) { return From + 2 * i; }
  };

  // Lanes moved up, zeros (lanes of a) into the gap.
  template <int By> struct Shift {
    static constexpr int source(int i) { return i < By ? i : N + i - By; }
  };

  template <int By> static MIXFOLD_INLINE Real running_sum_from(const Real& v) {
    if constexpr (By >= N) {
      return v;
    } else {
      constexpr auto order = std::make_integer_sequence<int, N>{};
      return running_sum_from<2 * By>(v + pick<Shift<By>>(zero(), v, order));
    }
  }

  template <class Order, int... I>
  static MIXFOLD_INLINE Real pick(const Real& a, const Real& b, std::integer_sequence<int, I...>) {
#if defined(MIXFOLD_VECTOR_EXTENSIONS)
    return __builtin_shufflevector(a, b, Order::source(I)...);
#else
    return {{(Order::source(I) < N ? a : b).lane[Order::source(I) % N]...}};
#endif
  }

};

}  // namespace mixfold::MIXFOLD_ISA
