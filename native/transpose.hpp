// Rows of a table to groups of `lanes` rows, coordinates contiguous within each (see block.hpp).
#pragma once

#include "block.hpp"

namespace mixfold::MIXFOLD_ISA {

// The transpose of a square: interleaving the two halves log2(lanes) times.
template <class S> MIXFOLD_INLINE void transpose_square(typename S::Real (&v)[S::lanes]) {
  constexpr int N = S::lanes;
  MIXFOLD_UNROLL
  for (int width = 1; width < N; width *= 2) {
    typename S::Real next[N];
    MIXFOLD_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      next[2 * i] = S::interleave_low(v[i], v[i + N / 2]);
      next[2 * i + 1] = S::interleave_high(v[i], v[i + N / 2]);
    }
    MIXFOLD_UNROLL
    for (int i = 0; i < N; ++i) v[i] = next[i];
  }
}

// The transpose of lanes x D numbers that are contiguous, D a power of two.
template <class S, int D> MIXFOLD_INLINE void separate_columns(typename S::Real (&v)[D]) {
  MIXFOLD_UNROLL
  for (int width = 1; width < D; width *= 2) {
    typename S::Real next[D];
    MIXFOLD_UNROLL
    for (int i = 0; i < D / 2; ++i) {
      next[i] = S::even(v[2 * i], v[2 * i + 1]);
      next[i + D / 2] = S::odd(v[2 * i], v[2 * i + 1]);
    }
    MIXFOLD_UNROLL
    for (int i = 0; i < D; ++i) v[i] = next[i];
  }
}

template <class S, class In, class T> class Transposer {
 public:
  Transposer(const Rows& rows, const T* origin) : rows_(rows), origin_(origin) {}

  // Lanes past the last row hold zeros: finite, and of weight zero.
  void operator()(int first, int count, T* x) const {
    for (int r = 0; r < count; r += lanes, x += ptrdiff_t(rows_.d) * lanes) {
      if (count - r >= lanes && full_group(first + r, x)) continue;
      any_group(first + r, count - r < lanes ? count - r : lanes, x);
    }
  }

  // Rows `index[0]`, `index[1]` ... after row `first`, as many as fill whole groups, in ascending
  // order within each.
  void gather(int first, const int* index, int count, T* x) const {
    for (int r = 0; r < count; r += lanes, x += ptrdiff_t(rows_.d) * lanes) {
      if constexpr (sizeof(In) == sizeof(T)) {
        if (within_table(first + index[r + lanes - 1])) {
          squares([&](int i) { return row(first + index[r + i]); }, x);
          continue;
        }
      }
      for (int lane = 0; lane < lanes; ++lane) put_row(first + index[r + lane], lane, x);
    }
  }

 private:
  using Real = typename S::Real;
  static constexpr int lanes = S::lanes;

  const In* row(int i) const { return static_cast<const In*>(rows_.data) + i * rows_.row_stride; }

  // False where the layout allows no shortcut.
  bool full_group(int first, T* x) const {
    if constexpr (sizeof(In) == sizeof(T)) {
      if (rows_.row_stride == 1) return columns(row(first), x), true;
      if (rows_.column_stride != 1) return false;
      if (rows_.row_stride == rows_.d) {
        if (rows_.d == 2) return few_columns<2>(row(first), x), true;
        if (rows_.d == 4) return few_columns<4>(row(first), x), true;
      }
      if (within_table(first + lanes - 1))
        return squares([&](int i) { return row(first + i); }, x), true;
    }
    return false;
  }

  // Squares reach past the end of a row, into the next ones: there must be some.
  bool within_table(int i) const {
    return rows_.column_stride == 1 && rows_.row_stride > 0 &&
           row(i) + padded() <= row(rows_.n - 1) + rows_.d;
  }

  ptrdiff_t padded() const { return ptrdiff_t(rows_.d + lanes - 1) / lanes * lanes; }

  void put(T* x, int j, const Real& v) const {
    S::store(x + ptrdiff_t(j) * lanes, v - S::splat(origin_[j]));
  }

  void columns(const In* from, T* x) const {
    for (int j = 0; j < rows_.d; ++j) put(x, j, S::load(from + j * rows_.column_stride));
  }

  template <int D> void few_columns(const In* from, T* x) const {
    Real v[D];
    MIXFOLD_UNROLL
    for (int j = 0; j < D; ++j) v[j] = S::load(from + j * lanes);
    separate_columns<S, D>(v);
    MIXFOLD_UNROLL
    for (int j = 0; j < D; ++j) put(x, j, v[j]);
  }

  template <class RowAt> MIXFOLD_INLINE void squares(RowAt from, T* x) const {
    for (int j0 = 0; j0 < rows_.d; j0 += lanes) {
      Real v[lanes];
      MIXFOLD_UNROLL
      for (int i = 0; i < lanes; ++i) v[i] = S::load(from(i) + j0);
      transpose_square<S>(v);
      const int some = rows_.d - j0;
      MIXFOLD_UNROLL
      for (int j = 0; j < lanes; ++j)
        if (j < some) put(x, j0 + j, v[j]);
    }
  }

  void any_group(int first, int filled, T* x) const {
    for (int lane = 0; lane < filled; ++lane) put_row(first + lane, lane, x);
    for (int lane = filled; lane < lanes; ++lane)
      for (int j = 0; j < rows_.d; ++j) x[j * lanes + lane] = T(0);
  }

  void put_row(int i, int lane, T* x) const {
    const In* const from = row(i);
    for (int j = 0; j < rows_.d; ++j)
      x[j * lanes + lane] = T(load_number(from + j * rows_.column_stride)) - origin_[j];
  }

  const Rows& rows_;
  const T* origin_;
};

}  // namespace mixfold::MIXFOLD_ISA
