// Gaussians with a diagonal whitening matrix.
#pragma once

#include "active.hpp"
#include "reduction.hpp"
#include "separable.hpp"

namespace mixfold::MIXFOLD_ISA {

// y = s x - s mu, one fused operation; adds y^2.
struct SquaredDistance {
  static constexpr int coefficients = 2;
  static constexpr double scale = -0.5;
  template <class S, class Real, class T>
  static MIXFOLD_INLINE void add(Real& sum, const Real& x, const T* p, int next) {
    const Real y = x * S::splat(p[0]) + S::splat(p[next]);
    sum += y * y;
  }
};

// The density, whatever the way of accumulating.
template <class T> class DiagonalDensity : public NoBaseMeasure<T> {
 public:
  using Number = T;

  explicit DiagonalDensity(const Gaussians& g)
      : density_(g.components, g.d, g.log_scale,
                 [d = g.d, means = g.means, whiten = g.whiten](int c, int k, int j) {
                   const ptrdiff_t at = ptrdiff_t(k) * d + j;
                   return c == 0 ? whiten[at] : -means[at] * whiten[at];
                 }) {
    origin_ = scratch_of<T>(Slot::origin, g.d);
    copy_as(origin_, g.origin, g.d);
  }

  int components() const { return density_.components(); }
  ptrdiff_t per_vector() const { return density_.per_vector(); }
  const T* origin() const { return origin_; }
  const bool* exists() const { return density_.exists(); }
  void log_joint(const Block<T>& block) const { density_.log_joint(block); }

 protected:
  Separable<T, SquaredDistance> density_;

 private:
  T* origin_;
};

// Few coordinates: rows along the lanes throughout.
template <class T> class Diagonal : public DiagonalDensity<T> {
 public:
  explicit Diagonal(const Gaussians& g) : DiagonalDensity<T>(g), tiles_(g.d, tile) {
    active_ = scratch_of<int>(Slot::active, block_vectors<T>(this->per_vector()));
  }

  void accumulate(const Block<T>& block, double* result) const {
    const int d = block.d;
    for (int k = 0; k < block.components; ++k, result += 1 + 2 * d) {
      const T* const r = block.joint + k * block.stride;
      const Active found = find_active<S>(r, block.vectors, active_);
      result[0] += found.weight;
      if (found.count == 0) continue;
      for (int t = 0; t < tiles_.count; ++t)
        with_constant<tile>(tiles_.size(t), [&](auto size) {
          accumulate_tile<decltype(size)::value>(block, k, tiles_.begin(t), found.count,
                                                 result + 1);
        });
    }
  }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;
  static constexpr int tile = vector_bytes == 64 ? 6 : 4;

  template <int J>
  void accumulate_tile(const Block<T>& block, int k, int j0, int count, double* result) const {
    const T* const responsibilities = block.joint + k * block.stride;
    Real scale[J], shift[J], s1[J], s2[J];
    MIXFOLD_UNROLL
    for (int j = 0; j < J; ++j) {
      scale[j] = S::splat(this->density_.coefficient(0, k, j0 + j));
      shift[j] = S::splat(this->density_.coefficient(1, k, j0 + j));
      s1[j] = s2[j] = S::zero();
    }
    for (int a = 0; a < count; ++a) {
      const int v = active_[a];
      const T* const x = block.x + (ptrdiff_t(v) * block.d + j0) * S::lanes;
      const Real r = S::load(responsibilities + v * S::lanes);
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j) {
        const Real y = S::load(x + j * S::lanes) * scale[j] + shift[j];
        const Real ry = r * y;
        s1[j] += ry;
        s2[j] += ry * y;
      }
    }
    add_lane_sums<S>(s1, result + j0);
    add_lane_sums<S>(s2, result + block.d + j0);
  }

  Tiling tiles_;
  int* active_;
};

}  // namespace mixfold::MIXFOLD_ISA
