// Gaussians with a diagonal whitening matrix.
#pragma once

#include "active.hpp"
#include "expectation.hpp"
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
  explicit Diagonal(const Gaussians& g) : DiagonalDensity<T>(g), g_(g), tiles_(g.d, tile) {
    const int vectors = block_vectors<T>(this->per_vector());
    active_ = scratch_of<int>(Slot::active,
                              vectors > pruned_vectors<T> ? vectors : pruned_vectors<T>);
  }

  void accumulate(const Block<T>& block, double* result) const {
    for (int k = 0; k < block.components; ++k)
      accumulate_of(k, block.x, block.joint + k * block.stride, block.vectors,
                    result + k * sums_per_component());
  }

  // What pruning.hpp asks for.
  static constexpr bool diagonal = true;
  const Gaussians& parameters() const { return g_; }
  int operations() const { return 6 * g_.d; }
  ptrdiff_t sums_per_component() const { return 1 + 2 * ptrdiff_t(g_.d); }

  void log_joint_of(int k, const T* x, int vectors, T*, T* joint) const {
    this->density_.log_joint_of(k, x, vectors, joint);
  }

  void accumulate_of(int k, const T* x, const T* r, int vectors, double* result) const {
    const Active found = find_active<S>(r, vectors, active_);
    result[0] += found.weight;
    if (found.count == 0) return;
    for (int t = 0; t < tiles_.count; ++t)
      with_constant<tile>(tiles_.size(t), [&](auto size) {
        accumulate_tile<decltype(size)::value>(x, r, k, tiles_.begin(t), found.count, result + 1);
      });
  }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;
  static constexpr int tile = vector_bytes == 64 ? 6 : 4;

  template <int J>
  void accumulate_tile(const T* rows, const T* responsibilities, int k, int j0, int count,
                       double* result) const {
    Real scale[J], shift[J], s1[J], s2[J];
    MIXFOLD_UNROLL
    for (int j = 0; j < J; ++j) {
      scale[j] = S::splat(this->density_.coefficient(0, k, j0 + j));
      shift[j] = S::splat(this->density_.coefficient(1, k, j0 + j));
      s1[j] = s2[j] = S::zero();
    }
    for (int a = 0; a < count; ++a) {
      const int v = active_[a];
      const T* const x = rows + (ptrdiff_t(v) * g_.d + j0) * S::lanes;
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
    add_lane_sums<S>(s2, result + g_.d + j0);
  }

  const Gaussians g_;
  Tiling tiles_;
  int* active_;
};

}  // namespace mixfold::MIXFOLD_ISA
