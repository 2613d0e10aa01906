// Gaussians with a triangular whitening matrix in any dimension, in register tiles.
#pragma once

#include "active.hpp"
#include "expectation.hpp"
#include "reduction.hpp"
#include "tiling.hpp"

namespace mixfold::MIXFOLD_ISA {

// Tile sizes fill the vector registers: 32 with AVX-512, 16 otherwise.
inline constexpr int whiten_tile = vector_bytes == 64 ? 6 : 5;
inline constexpr int whiten_vectors = vector_bytes == 64 ? 4 : 2;
inline constexpr int scatter_tile = vector_bytes == 64 ? 5 : 3;

template <class T> class Triangular : public NoBaseMeasure<T> {
 public:
  using Number = T;

  explicit Triangular(const Gaussians& g)
      : g_(g), k_(g.components), d_(g.d), p_(d_ * (d_ + 1) / 2), rows_(d_, whiten_tile),
        cross_(d_, scatter_tile) {
    // A factor may be padded by the unused corner of each diagonal tile.
    stride_ = d_ + p_ + rows_.count * whiten_tile * (whiten_tile - 1) / 2 + 1;
    parameters_ = scratch_of<T>(Slot::parameters, d_ + ptrdiff_t(k_) * stride_);
    copy_as(parameters_, g.origin, d_);
    for (int k = 0; k < k_; ++k) pack(g, k);
    const int vectors = block_vectors<T>(per_vector());
    const int most = vectors > pruned_vectors<T> ? vectors : pruned_vectors<T>;
    centred_ = scratch_of<T>(Slot::centred, whiten_vectors * d_ * S::lanes);
    whitened_ = scratch_of<T>(Slot::whitened, ptrdiff_t(vectors) * k_ * d_ * S::lanes);
    weighted_ = scratch_of<T>(Slot::weighted, ptrdiff_t(most) * scatter_tile * S::lanes);
    active_ = scratch_of<int>(Slot::active, most);
    exists_ = scratch_of<bool>(Slot::exists, k_);
    for (int k = 0; k < k_; ++k) exists_[k] = g.log_scale[k] > -1.7e308;
  }

  int components() const { return k_; }
  ptrdiff_t per_vector() const { return ptrdiff_t(k_ + 2) * (d_ + 1) * S::lanes; }
  const T* origin() const { return parameters_; }
  const bool* exists() const { return exists_; }

  void log_joint(const Block<T>& block) {
    for (int k = 0; k < k_; ++k)
      log_joint_of(k, block.x, block.vectors, whitened_ + k * block.vectors * group(),
                   block.joint + k * block.stride);
  }

  void accumulate(const Block<T>& block, double* result) {
    for (int k = 0; k < k_; ++k)
      accumulate_of(k, whitened_ + k * block.vectors * group(), block.joint + k * block.stride,
                    block.vectors, result + k * sums_per_component());
  }

  // What pruning.hpp asks for; y may be x.
  static constexpr bool diagonal = false;
  int operations() const { return d_ * (d_ + 3); }
  const Gaussians& parameters() const { return g_; }
  ptrdiff_t sums_per_component() const { return 1 + d_ + p_; }

  void log_joint_of(int k, const T* x, int vectors, T* y, T* joint) {
    int v = 0;
    for (; v + whiten_vectors <= vectors; v += whiten_vectors)
      whiten<whiten_vectors>(k, x + v * group(), y + v * group(), joint + v * S::lanes);
    for (; v < vectors; ++v) whiten<1>(k, x + v * group(), y + v * group(), joint + v * S::lanes);
  }

  void accumulate_of(int, const T* y, const T* r, int vectors, double* result) {
    const Active found = find_active<S>(r, vectors, active_);
    result[0] += found.weight;
    const Scatter scatter{y,       weighted_,   r, active_, found.count, d_, result + 1,
                          result + 1 + d_};
    if (found.count) accumulate_component(scatter);
  }

 private:
  using S = Simd<T>;
  using Real = typename S::Real;

  // One component's whitened rows and responsibilities, and where its moments go.
  struct Scatter {
    const T* y;
    T* ry;
    const T* r;
    const int* active;
    int count, d;
    double *s1, *s2;
  };

  ptrdiff_t group() const { return ptrdiff_t(d_) * S::lanes; }

  // For each tile of rows of W: its columns left of the diagonal, then the diagonal square, each
  // column contiguous.
  void pack(const Gaussians& g, int k) {
    T* p = copy_as(parameters_ + d_ + k * ptrdiff_t(stride_), g.means + ptrdiff_t(k) * d_, d_);
    const double* const w = g.whiten + ptrdiff_t(k) * d_ * d_;
    for (int t = 0; t < rows_.count; ++t)
      for (int j = 0; j < rows_.end(t); ++j)
        for (int i = rows_.begin(t); i < rows_.end(t); ++i)
          *p++ = i >= j ? T(w[ptrdiff_t(i) * d_ + j]) : T(0);
    *p = T(g.log_scale[k]);
  }

  template <int V> void whiten(int k, const T* x, T* y, T* joint) {
    const T* const mean = parameters_ + d_ + k * ptrdiff_t(stride_);
    const T* p = mean + d_;
    Real square[V];
    MIXFOLD_UNROLL
    for (int u = 0; u < V; ++u) square[u] = S::zero();
    for (int t = 0; t < rows_.count; ++t)
      with_constant<whiten_tile>(rows_.size(t), [&](auto size) MIXFOLD_INLINE_LAMBDA {
        p = whiten_rows<decltype(size)::value, V>(p, x, mean, rows_.begin(t), y, square);
      });
    for (int u = 0; u < V; ++u)
      S::store(joint + u * S::lanes, S::splat(*p) - S::splat(T(0.5)) * square[u]);
  }

  // I rows of W, from row `first`, times V vectors of centred rows. Leaves the columns that it is
  // the first to need, those of the diagonal square, centred for the tiles below. Inlined, because
  // in few dimensions the work is short enough for the calls to show.
  template <int I, int V>
  MIXFOLD_INLINE const T* whiten_rows(const T* w, const T* x, const T* mean, int first, T* y,
                                      Real* square) const {
    Real sum[I][V];
    MIXFOLD_UNROLL
    for (int i = 0; i < I; ++i)
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u) sum[i][u] = S::zero();
    const ptrdiff_t step = group(), before = ptrdiff_t(first) * S::lanes;
    T* centred = centred_;
    for (int j = 0; j < first; ++j, w += I, centred += S::lanes) {
      Real xv[V];
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u) xv[u] = S::load(centred + u * step);
      multiply<I, V, 0>(w, xv, sum);
    }
    triangle<I, V, 0>(w, x + before, mean + first, centred, step, sum);
    y += before;
    MIXFOLD_UNROLL
    for (int u = 0; u < V; ++u) {
      Real norm = square[u];
      MIXFOLD_UNROLL
      for (int i = 0; i < I; ++i) norm += sum[i][u] * sum[i][u];
      square[u] = norm;
      MIXFOLD_UNROLL
      for (int i = 0; i < I; ++i) S::store(y + u * step + i * S::lanes, sum[i][u]);
    }
    return w + I * I;
  }

  template <int I, int V, int From>
  static MIXFOLD_INLINE void multiply(const T* w, const Real (&xv)[V], Real (&sum)[I][V]) {
    MIXFOLD_UNROLL
    for (int i = From; i < I; ++i)
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u) sum[i][u] += S::splat(w[i]) * xv[u];
  }

  template <int I, int V, int J>
  static MIXFOLD_INLINE void triangle(const T* w, const T* x, const T* mean, T* centred,
                                      ptrdiff_t step, Real (&sum)[I][V]) {
    if constexpr (J < I) {
      Real xv[V];
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u) {
        xv[u] = S::load(x + u * step) - S::splat(*mean);
        S::store(centred + u * step, xv[u]);
      }
      multiply<I, V, J>(w, xv, sum);
      triangle<I, V, J + 1>(w + I, x + S::lanes, mean + 1, centred + S::lanes, step, sum);
    }
  }

  void accumulate_component(const Scatter& s) const {
    for (int t = 0; t < cross_.count; ++t) {
      with_constant<scatter_tile>(cross_.size(t), [&](auto rows) {
        constexpr int I = decltype(rows)::value;
        const int i = cross_.begin(t);
        diagonal_tile<I>(s, i);
        for (int q = 0; q < t; ++q)
          with_constant<scatter_tile>(cross_.size(q), [&](auto columns) {
            square_tile<I, decltype(columns)::value>(s, i, cross_.begin(q));
          });
      });
    }
  }

  // Also leaves r y for the square tiles of the same rows.
  template <int I> static void diagonal_tile(const Scatter s, int i0) {
    Real s1[I], s2[I * (I + 1) / 2];
    MIXFOLD_UNROLL
    for (int i = 0; i < I; ++i) s1[i] = S::zero();
    MIXFOLD_UNROLL
    for (int i = 0; i < I * (I + 1) / 2; ++i) s2[i] = S::zero();
    for (int a = 0; a < s.count; ++a) {
      const int v = s.active[a];
      const T* const y = s.y + (ptrdiff_t(v) * s.d + i0) * S::lanes;
      T* const ry = s.ry + ptrdiff_t(a) * I * S::lanes;
      const Real r = S::load(s.r + v * S::lanes);
      Real yv[I];
      MIXFOLD_UNROLL
      for (int i = 0; i < I; ++i) yv[i] = S::load(y + i * S::lanes);
      MIXFOLD_UNROLL
      for (int i = 0; i < I; ++i) {
        const Real ryi = r * yv[i];
        S::store(ry + i * S::lanes, ryi);
        s1[i] += ryi;
        MIXFOLD_UNROLL
        for (int j = 0; j <= i; ++j) s2[i * (i + 1) / 2 + j] += ryi * yv[j];
      }
    }
    add_lane_sums<S>(s1, s.s1 + i0);
    T sums[I * (I + 1) / 2];
    lane_sums<S, I*(I + 1) / 2>(s2, sums);
    for (int i = 0; i < I; ++i) {
      double* const out = s.s2 + ptrdiff_t(i0 + i) * (i0 + i + 1) / 2 + i0;
      for (int j = 0; j <= i; ++j) out[j] += double(sums[i * (i + 1) / 2 + j]);
    }
  }

  template <int I, int J> static void square_tile(const Scatter s, int i0, int j0) {
    Real s2[I * J];
    MIXFOLD_UNROLL
    for (int i = 0; i < I * J; ++i) s2[i] = S::zero();
    for (int a = 0; a < s.count; ++a) {
      const T* const y = s.y + (ptrdiff_t(s.active[a]) * s.d + j0) * S::lanes;
      const T* const ry = s.ry + ptrdiff_t(a) * I * S::lanes;
      Real yv[J];
      MIXFOLD_UNROLL
      for (int j = 0; j < J; ++j) yv[j] = S::load(y + j * S::lanes);
      MIXFOLD_UNROLL
      for (int i = 0; i < I; ++i) {
        const Real ryi = S::load(ry + i * S::lanes);
        MIXFOLD_UNROLL
        for (int j = 0; j < J; ++j) s2[i * J + j] += ryi * yv[j];
      }
    }
    T sums[I * J];
    lane_sums<S, I * J>(s2, sums);
    for (int i = 0; i < I; ++i) {
      double* const out = s.s2 + ptrdiff_t(i0 + i) * (i0 + i + 1) / 2 + j0;
      for (int j = 0; j < J; ++j) out[j] += double(sums[i * J + j]);
    }
  }

  const Gaussians g_;
  int k_, d_, p_;
  Tiling rows_, cross_;
  int stride_;
  T *parameters_, *centred_, *whitened_, *weighted_;
  int* active_;
  bool* exists_;
};

}  // namespace mixfold::MIXFOLD_ISA
