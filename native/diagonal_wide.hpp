// Gaussians with a diagonal whitening matrix in many dimensions.
//
// There few rows matter to a component, so that the statistics are taken row by row, coordinates
// along the lanes: nothing is spent on the neighbours of a row that matters.
#pragma once

#include "diagonal.hpp"
#include "transpose.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T> class DiagonalWide : public DiagonalDensity<T> {
 public:
  explicit DiagonalWide(const Gaussians& g)
      : DiagonalDensity<T>(g), d_(g.d), padded_((g.d + S::lanes - 1) / S::lanes * S::lanes),
        tiles_(padded_ / S::lanes, tile) {
    const int rows = block_vectors<T>(this->per_vector()) * S::lanes;
    rows_ = scratch_of<T>(Slot::centred, ptrdiff_t(rows) * padded_);
    scale_ = scratch_of<T>(Slot::whitened, ptrdiff_t(g.components) * padded_);
    shift_ = scratch_of<T>(Slot::weighted, ptrdiff_t(g.components) * padded_);
    active_ = scratch_of<int>(Slot::active, rows);
    for (int k = 0; k < g.components; ++k) pad(g, k);
  }

  void accumulate(const Block<T>& block, double* result) {
    for (int v = 0; v < block.vectors; ++v) restore_rows(block, v);
    for (int k = 0; k < block.components; ++k, result += 1 + 2 * d_) {
      const T* const r = block.joint + k * block.stride;
      const int count = find_rows(r, block.vectors, result);
      if (count == 0) continue;
      for (int t = 0; t < tiles_.count; ++t)
        with_constant<tile>(tiles_.size(t), [&](auto size) {
          accumulate_tile<decltype(size)::value>(k, r, count, tiles_.begin(t) * S::lanes,
                                                 result + 1);
        });
    }
  }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;
  static constexpr int tile = vector_bytes == 64 ? 6 : 3;

  void pad(const Gaussians& g, int k) {
    const double* const mean = g.means + ptrdiff_t(k) * d_;
    const double* const whiten = g.whiten + ptrdiff_t(k) * d_;
    T* const scale = scale_ + ptrdiff_t(k) * padded_;
    T* const shift = shift_ + ptrdiff_t(k) * padded_;
    for (int j = 0; j < padded_; ++j) {
      scale[j] = j < d_ ? T(whiten[j]) : T(0);
      shift[j] = j < d_ ? T(-mean[j] * whiten[j]) : T(0);
    }
  }

  // Back from lanes to rows.
  void restore_rows(const Block<T>& block, int v) {
    const T* const group = block.x + ptrdiff_t(v) * d_ * S::lanes;
    T* const rows = rows_ + ptrdiff_t(v) * S::lanes * padded_;
    for (int j0 = 0; j0 < padded_; j0 += S::lanes) {
      Real x[S::lanes];
      MIXFOLD_UNROLL
      for (int j = 0; j < S::lanes; ++j)
        x[j] = j0 + j < d_ ? S::load(group + (j0 + j) * S::lanes) : S::zero();
      transpose_square<S>(x);
      MIXFOLD_UNROLL
      for (int i = 0; i < S::lanes; ++i) S::store(rows + i * ptrdiff_t(padded_) + j0, x[i]);
    }
  }

  // Lists the rows with any responsibility, and adds up their weight.
  int find_rows(const T* r, int vectors, double* weight) {
    int count = 0;
    auto sum = S::zero();
    for (int v = 0; v < vectors; ++v) {
      const auto group = S::load(r + v * S::lanes);
      if (!S::any(group > S::zero())) continue;
      sum += group;
      for (int i = v * S::lanes; i < (v + 1) * S::lanes; ++i) {
        active_[count] = i;
        count += r[i] > 0;
      }
    }
    *weight += double(S::sum(sum));
    return count;
  }

  template <int J>
  void accumulate_tile(int k, const T* responsibilities, int count, int j0, double* result) const {
    Real scale[J], shift[J], s1[J], s2[J];
    const T* const first = scale_ + ptrdiff_t(k) * padded_ + j0;
    const T* const second = shift_ + ptrdiff_t(k) * padded_ + j0;
    MIXFOLD_UNROLL
    for (int j = 0; j < J; ++j) {
      scale[j] = S::load(first + j * S::lanes);
      shift[j] = S::load(second + j * S::lanes);
      s1[j] = s2[j] = S::zero();
    }
    for (int a = 0; a < count; ++a) {
      const T* const x = rows_ + ptrdiff_t(active_[a]) * padded_ + j0;
      const Real r = S::splat(responsibilities[active_[a]]);
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j) {
        const Real y = S::load(x + j * S::lanes) * scale[j] + shift[j];
        const Real ry = r * y;
        s1[j] += ry;
        s2[j] += ry * y;
      }
    }
    add_lanes(s1, j0, result);
    add_lanes(s2, j0, result + d_);
  }

  template <int J> void add_lanes(const Real (&sums)[J], int j0, double* out) const {
    T lane[J * S::lanes];
    MIXFOLD_UNROLL
    for (int j = 0; j < J; ++j) S::store(lane + j * S::lanes, sums[j]);
    const int some = d_ - j0 < J * S::lanes ? d_ - j0 : J * S::lanes;
    for (int i = 0; i < some; ++i) out[j0 + i] += double(lane[i]);
  }

  int d_, padded_;
  Tiling tiles_;
  T *rows_, *scale_, *shift_;
  int* active_;
};

}  // namespace mixfold::MIXFOLD_ISA
