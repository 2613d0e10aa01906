// Gaussians with a triangular whitening matrix in few dimensions, all loops unrolled.
#pragma once

#include "expectation.hpp"
#include "reduction.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T, int D> class TriangularSmall : public NoBaseMeasure<T> {
 public:
  using Number = T;

  explicit TriangularSmall(const Gaussians& g) : g_(g), k_(g.components) {
    parameters_ = scratch_of<T>(Slot::parameters, D + ptrdiff_t(k_) * stride);
    exists_ = scratch_of<bool>(Slot::exists, k_);
    copy_as(parameters_, g.origin, D);
    for (int k = 0; k < k_; ++k) pack(g, k);
    const ptrdiff_t size = ptrdiff_t(block_vectors<T>(per_vector())) * k_ * D * S::lanes;
    whitened_ = scratch_of<T>(Slot::whitened, size);
  }

  int components() const { return k_; }
  ptrdiff_t per_vector() const { return ptrdiff_t(k_ + 1) * (D + 1) * S::lanes; }
  const T* origin() const { return parameters_; }
  const bool* exists() const { return exists_; }

  void log_joint(const Block<T>& block) {
    for (int k = 0; k < k_; ++k)
      log_joint_of(k, block.x, block.vectors, whitened_ + k * block.vectors * D * S::lanes,
                   block.joint + k * block.stride);
  }

  void accumulate(const Block<T>& block, double* result) const {
    for (int k = 0; k < k_; ++k)
      accumulate_of(k, whitened_ + k * block.vectors * D * S::lanes,
                    block.joint + k * block.stride, block.vectors,
                    result + k * sums_per_component());
  }

  // What pruning.hpp asks for; y may be x.
  static constexpr bool diagonal = false;
  int operations() const { return D * (D + 3); }
  const Gaussians& parameters() const { return g_; }
  static constexpr ptrdiff_t sums_per_component() { return 1 + D + P; }

  void log_joint_of(int k, const T* x, int vectors, T* y, T* joint) const {
    const T* const p = parameters_ + D + k * stride;
    for (int v = 0; v < vectors; ++v, x += D * S::lanes, y += D * S::lanes) {
      Real dx[D], square = S::zero();
      MIXFOLD_UNROLL
      for (int j = 0; j < D; ++j) dx[j] = S::load(x + j * S::lanes) - S::splat(p[j]);
      MIXFOLD_UNROLL
      for (int i = 0; i < D; ++i) {
        const T* const w = p + D + i * (i + 1) / 2;
        Real yi = S::splat(w[0]) * dx[0];
        MIXFOLD_UNROLL
        for (int j = 1; j <= i; ++j) yi += S::splat(w[j]) * dx[j];
        S::store(y + i * S::lanes, yi);
        square += yi * yi;
      }
      S::store(joint + v * S::lanes, S::splat(p[D + P]) - S::splat(T(0.5)) * square);
    }
  }

  void accumulate_of(int, const T* y, const T* r, int vectors, double* result) const {
    // The weight, the first and the second moments, in the order of the result.
    Real sums[1 + D + P];
    MIXFOLD_UNROLL
    for (int i = 0; i < 1 + D + P; ++i) sums[i] = S::zero();
    for (int v = 0; v < vectors; ++v, y += D * S::lanes) {
      const Real rv = S::load(r + v * S::lanes);
      sums[0] += rv;
      Real yv[D];
      MIXFOLD_UNROLL
      for (int j = 0; j < D; ++j) yv[j] = S::load(y + j * S::lanes);
      MIXFOLD_UNROLL
      for (int i = 0; i < D; ++i) {
        const Real ry = rv * yv[i];
        sums[1 + i] += ry;
        MIXFOLD_UNROLL
        for (int j = 0; j <= i; ++j) sums[1 + D + i * (i + 1) / 2 + j] += ry * yv[j];
      }
    }
    add_lane_sums<S>(sums, result);
  }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;
  static constexpr int P = D * (D + 1) / 2, stride = D + P + 1;

  void pack(const Gaussians& g, int k) {
    T* p = copy_as(parameters_ + D + k * stride, g.means + k * D, D);
    for (int i = 0; i < D; ++i) p = copy_as(p, g.whiten + (k * D + i) * D, i + 1);
    *p = T(g.log_scale[k]);
    exists_[k] = g.log_scale[k] > -1.7e308;
  }

  const Gaussians g_;
  int k_;
  T *parameters_, *whitened_;
  bool* exists_;
};

}  // namespace mixfold::MIXFOLD_ISA
