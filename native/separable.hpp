// Log joint densities that are a sum over coordinates: offset_k + scale sum_j term(x_j).
//
// A form tells the term: how many coefficients it has per coordinate, how to add it, its scale.
#pragma once

#include "block.hpp"
#include "tiling.hpp"

namespace mixfold::MIXFOLD_ISA {

struct InnerProduct {
  static constexpr int coefficients = 1;
  static constexpr double scale = 1;
  template <class S, class Real, class T>
  static MIXFOLD_INLINE void add(Real& sum, const Real& x, const T* p, int) {
    sum += x * S::splat(p[0]);
  }
};

inline constexpr int separable_components = vector_bytes == 64 ? 4 : 3;
inline constexpr int separable_vectors = vector_bytes == 64 ? 4 : 2;

template <class T, class Form> class Separable {
 public:
  using S = Simd<T>;
  using Real = typename S::Real;

  // `coefficient(c, k, j)` is coefficient c of component k at coordinate j.
  template <class Coefficient>
  Separable(int components, int d, const double* offset, Coefficient coefficient)
      : Separable(scratch_of<T>(Slot::parameters, size(components, d)), components, d, offset,
                  coefficient) {
    exists_ = scratch_of<bool>(Slot::exists, k_);
    for (int k = 0; k < k_; ++k) exists_[k] = offset[k] > -1.7e308;
  }

  // With the numbers in memory of the caller, `size` of them.
  template <class Coefficient>
  Separable(T* memory, int components, int d, const double* offset, Coefficient coefficient)
      : k_(components), d_(d), tiles_(components, separable_components), offset_(memory) {
    T* p = packed_ = copy_as(memory, offset, k_);
    for (int t = 0; t < tiles_.count; ++t) {
      const int begin = tiles_.begin(t), end = tiles_.end(t);
      for (int j = 0; j < d; ++j)
        for (int c = 0; c < Form::coefficients; ++c)
          for (int k = begin; k < end; ++k) *p++ = T(coefficient(c, k, j));
    }
  }

  static ptrdiff_t size(int components, int d) {
    return ptrdiff_t(components) * (d * Form::coefficients + 1);
  }

  int components() const { return k_; }
  int d() const { return d_; }
  const bool* exists() const { return exists_; }
  ptrdiff_t per_vector() const { return ptrdiff_t(k_ + d_) * S::lanes; }

  void log_joint(const Block<T>& block) const {
    int v = 0;
    for (; v + separable_vectors <= block.vectors; v += separable_vectors)
      sum_terms<separable_vectors>(block, v);
    for (; v < block.vectors; ++v) sum_terms<1>(block, v);
  }

  // The same of one component, for rows that are stored like those of a block.
  void log_joint_of(int k, const T* x, int vectors, T* joint) const {
    int v = 0;
    const ptrdiff_t group = ptrdiff_t(d_) * S::lanes;
    for (; v + separable_vectors <= vectors; v += separable_vectors)
      sum_component<separable_vectors>(k, x + v * group, joint + v * S::lanes);
    for (; v < vectors; ++v) sum_component<1>(k, x + v * group, joint + v * S::lanes);
  }

  // Coefficient c of component k, coordinate j.
  T coefficient(int c, int k, int j) const {
    const int t = tile_of(k), size = tiles_.size(t);
    return tile(t)[(ptrdiff_t(j) * Form::coefficients + c) * size + k - tiles_.begin(t)];
  }

 private:
  // Coordinates per pass: their rows stay in L1 while all components go by.
  static constexpr int pass = 24 * 1024 / (separable_vectors * vector_bytes);

  const T* tile(int t) const {
    return packed_ + ptrdiff_t(tiles_.begin(t)) * d_ * Form::coefficients;
  }

  int tile_of(int k) const {
    int t = int(int64_t(k) * tiles_.count / k_);
    while (tiles_.end(t) <= k) ++t;
    return t;
  }

  template <int V> void sum_terms(const Block<T>& block, int v) const {
    for (int j = 0; j < d_; j += pass) {
      const int stop = d_ - j < pass ? d_ : j + pass;
      for (int t = 0; t < tiles_.count; ++t)
        with_constant<separable_components>(tiles_.size(t), [&](auto size) {
          sum_tile<decltype(size)::value, V>(block, v, t, j, stop);
        });
    }
  }

  template <int K, int V>
  void sum_tile(const Block<T>& block, int v, int t, int start, int stop) const {
    const int k0 = tiles_.begin(t);
    T* const joint = block.joint + k0 * block.stride + v * S::lanes;
    Real sum[K][V];
    MIXFOLD_UNROLL
    for (int k = 0; k < K; ++k)
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u)
        sum[k][u] = start ? S::load(joint + k * block.stride + u * S::lanes) : S::zero();
    const ptrdiff_t step = ptrdiff_t(d_) * S::lanes;
    const T* x = block.x + v * step + ptrdiff_t(start) * S::lanes;
    const T* p = tile(t) + ptrdiff_t(start) * K * Form::coefficients;
    for (int j = start; j < stop; ++j, x += S::lanes, p += K * Form::coefficients) {
      Real xv[V];
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u) xv[u] = S::load(x + u * step);
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k)
        MIXFOLD_UNROLL
        for (int u = 0; u < V; ++u) Form::template add<S>(sum[k][u], xv[u], p + k, K);
    }
    const bool last = stop == d_;
    for (int k = 0; k < K; ++k)
      for (int u = 0; u < V; ++u) {
        const Real total = S::splat(offset_[k0 + k]) + S::splat(T(Form::scale)) * sum[k][u];
        S::store(joint + k * block.stride + u * S::lanes, last ? total : sum[k][u]);
      }
  }

  template <int V> void sum_component(int k, const T* x, T* joint) const {
    const int t = tile_of(k), size = tiles_.size(t);
    const T* p = tile(t) + k - tiles_.begin(t);
    const ptrdiff_t step = ptrdiff_t(d_) * S::lanes;
    Real sum[V];
    MIXFOLD_UNROLL
    for (int u = 0; u < V; ++u) sum[u] = S::zero();
    for (int j = 0; j < d_; ++j, x += S::lanes, p += size * Form::coefficients)
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u) Form::template add<S>(sum[u], S::load(x + u * step), p, size);
    for (int u = 0; u < V; ++u)
      S::store(joint + u * S::lanes,
               S::splat(offset_[k]) + S::splat(T(Form::scale)) * sum[u]);
  }

  int k_, d_;
  Tiling tiles_;
  T *offset_, *packed_;
  bool* exists_ = nullptr;
};

}  // namespace mixfold::MIXFOLD_ISA
