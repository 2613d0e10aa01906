// Gaussians with a diagonal whitening matrix in many dimensions.
//
// There few rows matter to a component, as a rule, so that the statistics are taken row by row,
// coordinates along the lanes: nothing is spent on the neighbours of a row that matters. Components
// that many rows matter to share what they can.
#pragma once

#include "diagonal.hpp"
#include "shared_moments.hpp"
#include "transpose.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T> class DiagonalWide : public DiagonalDensity<T> {
 public:
  explicit DiagonalWide(const Gaussians& g)
      : DiagonalDensity<T>(g), d_(g.d), padded_((g.d + S::lanes - 1) / S::lanes * S::lanes),
        capacity_(block_vectors<T>(this->per_vector()) * S::lanes),
        tiles_(padded_ / S::lanes, tile), shared_(g, padded_ / S::lanes, capacity_) {
    rows_ = scratch_of<T>(Slot::centred, ptrdiff_t(capacity_) * padded_);
    scale_ = scratch_of<T>(Slot::whitened, ptrdiff_t(g.components) * padded_);
    shift_ = scratch_of<T>(Slot::weighted, ptrdiff_t(g.components) * padded_);
    active_ = scratch_of<int>(Slot::active, capacity_ + g.components);
    suited_ = active_ + capacity_;
    for (int k = 0; k < g.components; ++k) {
      pad(g, k);
      suited_[k] = may_share(k);
    }
  }

  void accumulate(const Block<T>& block, double* result) {
    const int rows = block.vectors * S::lanes;
    const bool tame = restore_rows(block);
    for (int k = 0; k < block.components; ++k, result += 1 + 2 * d_) {
      const T* const r = block.joint + k * block.stride;
      const Presence present = find_presence(r, block.vectors);
      result[0] += present.weight;
      if (tame && suited_[k] && present.rows * crowd > rows)
        shared_.enlist(k, r, present.weight);
      else if (present.rows > 0)
        accumulate_whitened(k, r, list_rows(r, rows), result + 1);
    }
    shared_.add(rows_, capacity_, rows);
  }

  void finish(double* result) const { shared_.convert(result); }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;
  static constexpr int tile = vector_bytes == 64 ? 6 : 3;
  // From one row in so many on, passing over the others no longer pays.
  static constexpr int crowd = 3;

  struct Presence {
    int rows;
    double weight;
  };

  void pad(const Gaussians& g, int k) {
    const double* const mean = g.means + ptrdiff_t(k) * d_;
    const double* const whiten = g.whiten + ptrdiff_t(k) * d_;
    T* const scale = scale_ + ptrdiff_t(k) * padded_;
    T* const shift = shift_ + ptrdiff_t(k) * padded_;
    for (int j = 0; j < d_; ++j) {
      scale[j] = T(whiten[j]);
      shift[j] = T(-mean[j] * whiten[j]);
    }
    for (int j = d_; j < padded_; ++j) scale[j] = shift[j] = T(0);
  }

  bool may_share(int k) const {
    auto scale = S::zero(), square = S::zero();
    for (ptrdiff_t j = ptrdiff_t(k) * padded_; j < ptrdiff_t(k + 1) * padded_; j += S::lanes) {
      const Real shift = S::load(shift_ + j);
      scale = S::max(S::load(scale_ + j), scale);
      square = S::max(shift * shift, square);
    }
    using Limits = SharedLimits<T>;
    return S::largest(scale) < Limits::scale && S::largest(square) < Limits::shift * Limits::shift;
  }

  // Back from lanes to rows: vector j of row i goes to rows_[(j capacity + i) lanes]. True if the
  // squares of all can be added up.
  bool restore_rows(const Block<T>& block) {
    // Two sums, so that adding to one need not wait for the other.
    Real squares[2] = {S::zero(), S::zero()};
    for (int v = 0; v < block.vectors; ++v) {
      const T* const group = block.x + ptrdiff_t(v) * d_ * S::lanes;
      for (int j0 = 0; j0 < padded_; j0 += S::lanes) {
        Real x[S::lanes];
        MIXFOLD_UNROLL
        for (int j = 0; j < S::lanes; ++j) {
          x[j] = j0 + j < d_ ? S::load(group + (j0 + j) * S::lanes) : S::zero();
          squares[j % 2] += x[j] * x[j];
        }
        transpose_square<S>(x);
        T* const rows = rows_ + (ptrdiff_t(j0) * capacity_ + ptrdiff_t(v) * S::lanes * S::lanes);
        MIXFOLD_UNROLL
        for (int i = 0; i < S::lanes; ++i) S::store(rows + i * S::lanes, x[i]);
      }
    }
    return S::sum(squares[0] + squares[1]) < SharedLimits<T>::square;
  }

  // How many rows have any responsibility, and their weight.
  static Presence find_presence(const T* r, int vectors) {
    auto weight = S::zero(), rows = S::zero();
    for (int v = 0; v < vectors; ++v) {
      const auto group = S::load(r + v * S::lanes);
      weight += group;
      rows += S::select(group > S::zero(), S::splat(T(1)), S::zero());
    }
    return {int(S::sum(rows)), double(S::sum(weight))};
  }

  int list_rows(const T* r, int rows) {
    int count = 0;
    for (int v = 0; v < rows; v += S::lanes) {
      if (!S::any(S::load(r + v) > S::zero())) continue;
      for (int i = v; i < v + S::lanes; ++i) {
        active_[count] = i;
        count += r[i] > 0;
      }
    }
    return count;
  }

  void accumulate_whitened(int k, const T* r, int count, double* result) const {
    for (int t = 0; t < tiles_.count; ++t)
      with_constant<tile>(tiles_.size(t), [&](auto size) {
        accumulate_tile<decltype(size)::value>(k, r, count, tiles_.begin(t) * S::lanes, result);
      });
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
    const ptrdiff_t step = ptrdiff_t(capacity_) * S::lanes;
    for (int a = 0; a < count; ++a) {
      const T* const x = rows_ + ptrdiff_t(active_[a]) * S::lanes + ptrdiff_t(j0) * capacity_;
      const Real r = S::splat(responsibilities[active_[a]]);
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j) {
        const Real y = S::load(x + j * step) * scale[j] + shift[j];
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

  int d_, padded_, capacity_;
  Tiling tiles_;
  SharedMoments<T> shared_;
  T *rows_, *scale_, *shift_;
  int *active_, *suited_;
};

}  // namespace mixfold::MIXFOLD_ISA
