// What online EM's families share: components lie along the lanes.
#pragma once

#include "online_state.hpp"
#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

// A small array of vectors: in registers when its size is known, in given memory otherwise.
template <class S, int Size> class Registers {
 public:
  Registers(double*, ptrdiff_t) {}
  MIXFOLD_INLINE typename S::Real get(int i) const { return v_[i]; }
  MIXFOLD_INLINE void set(int i, const typename S::Real& x) { v_[i] = x; }

 private:
  typename S::Real v_[Size];
};

template <class S> class Registers<S, 0> {
 public:
  Registers(double* memory, ptrdiff_t stride) : memory_(memory), stride_(stride) {}
  MIXFOLD_INLINE typename S::Real get(int i) const { return S::load(memory_ + i * stride_); }
  MIXFOLD_INLINE void set(int i, const typename S::Real& x) { S::store(memory_ + i * stride_, x); }

 private:
  double* memory_;
  ptrdiff_t stride_;
};

// Entry e of the statistics' second moments, mixed with the reference's in the ratio 1 - t : t.
template <class S>
MIXFOLD_INLINE void mix_entry(const OnlineState& s, int e, int k, const typename S::Real& t,
                              const typename S::Real& spread) {
  double* const c = s.s_scatter + e * s.padded + k;
  const auto keep = S::splat(1.0) - t;
  const auto other = S::load(s.c_scatter + e * s.padded + k);
  S::store(c, keep * S::load(c) + t * other + t * keep * spread);
}

// How many of the components k .. k + lanes are marked.
template <class S>
MIXFOLD_INLINE int count_components(const OnlineState& s, int k,
                                    const typename S::Integers& marked) {
  if (!S::any(marked)) return 0;
  typename S::Integer lane[S::lanes];
  memcpy(lane, &marked, sizeof lane);
  int count = 0;
  for (int i = 0; i < S::lanes && k + i < s.components; ++i) count += lane[i] != 0;
  return count;
}

}  // namespace mixfold::MIXFOLD_ISA
