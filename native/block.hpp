// A block of rows, transposed so that rows lie along the lanes.
#pragma once

#include "kernels.hpp"
#include "scratch.hpp"
#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T> MIXFOLD_INLINE T* scratch_of(Slot slot, size_t count) {
  return static_cast<T*>(scratch(slot, count * sizeof(T)));
}

// `vectors` groups of `lanes` rows. Group v holds coordinate j of its rows at x[(v d + j) lanes];
// The first `unit_vectors` groups have no row of a weight other than 1. Log joint densities, later
// responsibilities, of component k are at joint[k stride + v lanes]. The block has `count` rows of
// the table, from row `first` on.
template <class T> struct Block {
  int vectors, unit_vectors, d, components;
  const T *x, *weights;
  T* joint;
  ptrdiff_t stride;
  int first, count;
};

template <class S, class T>
void copy_weights(const double* weights, int first, int count, T* out) {
  const int padded = (count + S::lanes - 1) / S::lanes * S::lanes;
  for (int i = 0; i < count; ++i) out[i] = weights ? T(weights[first + i]) : T(1);
  for (int i = count; i < padded; ++i) out[i] = T(0);
}

// How many vectors of rows make a block: a working set of `per_vector` numbers each stays in L2.
// A multiple of 4, the most vectors that any register tile takes at once.
template <class T> int block_vectors(ptrdiff_t per_vector) {
  constexpr ptrdiff_t cache = 768 * 1024, least = 8, most = 32;
  const ptrdiff_t vectors = cache / (per_vector * ptrdiff_t(sizeof(T))) / 4 * 4;
  return int(vectors < least ? least : vectors > most ? most : vectors);
}

// The most vectors of rows that pruning.hpp takes at once.
template <class T> inline constexpr int pruned_vectors = 2048 / Simd<T>::lanes;

template <class T> MIXFOLD_INLINE T* copy_as(T* out, const double* values, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) out[i] = T(values[i]);
  return out + count;
}

}  // namespace mixfold::MIXFOLD_ISA
