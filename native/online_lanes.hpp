// What online EM's families share: components lie along the lanes.
#pragma once

#include "count_components.hpp"
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

// Gives keep(e, x) every entry x = value(e), at e = j padded + k, or the floor of its coordinate j
// if that is larger. Returns how many components had an entry that was not above its floor.
template <class S, class Value, class Keep>
MIXFOLD_INLINE int raise_to_floors(const OnlineState& s, int d, const Value& value,
                                   const Keep& keep) {
  int floored = 0;
  for (int k = 0; k < s.components; k += S::lanes) {
    auto healthy_all = S::splat_integer(-1);
    for (int j = 0; j < d; ++j) {
      const auto x = value(j * s.padded + k), least = S::splat(s.floors[j]);
      healthy_all = healthy_all & (x > least);
      keep(j * s.padded + k, S::max(x, least));
    }
    floored += count_components<S>(s.components, k, S::splat_integer(-1) - healthy_all);
  }
  return floored;
}

}  // namespace mixfold::MIXFOLD_ISA
