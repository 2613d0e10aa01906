// What tells components apart, from their parameters alone: which one a row is probably nearest to,
// and a bound of the density of the others there.
#pragma once

#include "separable.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T> struct SeparationLimits;
// `distance` of the means from the origin in deviations keeps rounding out of the bounds.
template <> struct SeparationLimits<double> { static constexpr double distance = 1e8; };
template <> struct SeparationLimits<float> { static constexpr double distance = 1e4; };

// The nearest mean in a metric that components have on average is the guess. Then, with u the unit
// vector from whitened mean k to mean c and D their distance, |y_k| is at least u . y_k, which is
// D + b . y_c with b = W_c^-T W_k^T u: far from zero for a row near mean c.
template <class T> class Separation {
 public:
  using S = Simd<T>;
  using Real = typename S::Real;

  Separation() = default;

  Separation(const Gaussians& g, bool diagonal) : g_(g), diagonal_(diagonal) {
    const ptrdiff_t k = g.components, d = g.d;
    padded_ = (k + lanes - 1) / lanes * lanes;
    means_ = scratch_of<double>(Slot::partial, padded_ * d * (1 + lanes) + k * (d + 1 + 2 * k) +
                                                   2 * lanes * d);
    turned_ = means_ + padded_ * d, offset_ = turned_ + padded_ * d * lanes, guess_ = offset_ + k;
    distance_ = guess_ + k * d, slope_ = distance_ + k * k;
    first_ = slope_ + k * k, second_ = first_ + d * lanes;
    T* const memory = scratch_of<T>(Slot::guide, Product::size(int(k), int(d)) + k * k * (d + 1));
    directions_ = memory + Product::size(int(k), int(d));
    find_directions();
    find_guess();
    guide_ = scratch_of<Product>(Slot::products, 1);
    *guide_ = Product(memory, int(k), int(d), offset_, [&](int, int i, int j) {
      return guess_[ptrdiff_t(i) * d + j];
    });
  }

  T log_scale(int k) const { return T(g_.log_scale[k]); }

  // Scores in block.joint: the largest is that of the guess.
  void score(const Block<T>& block) const { guide_->log_joint(block); }

  // Whether log joint densities of component k are below `bound` wherever those of c are not below
  // `least`.
  bool far(int c, int k, double bound, double least) const {
    const ptrdiff_t at = ptrdiff_t(c) * g_.components + k;
    const double radius = D::scalar_sqrt(2 * (g_.log_scale[c] - least));
    const double reach = distance_[at] - slope_[at] * radius;
    return reach > 0 && g_.log_scale[k] - 0.5 * reach * reach < bound;
  }

  // Lower bounds, of either sign, of |y_k| of V vectors of rows near the mean of component c; y are
  // whitened rows of c, or rows if whitening is diagonal.
  template <int V>
  MIXFOLD_INLINE void distances(int c, int k, const T* y, Real (&sum)[V]) const {
    const int d = g_.d;
    const T* const b = directions_ + (ptrdiff_t(c) * g_.components + k) * (d + 1);
    MIXFOLD_UNROLL
    for (int u = 0; u < V; ++u) sum[u] = S::splat(b[d]);
    for (int j = 0; j < d; ++j, y += S::lanes)
      MIXFOLD_UNROLL
      for (int u = 0; u < V; ++u)
        sum[u] += S::splat(b[j]) * S::load(y + u * ptrdiff_t(d) * S::lanes);
  }

  // Whether rounding leaves the bounds exact enough.
  bool exact() const { return largest_ < SeparationLimits<T>::distance; }

 private:
  using Product = Separable<T, InnerProduct>;
  using D = Simd<double>;
  static constexpr int lanes = D::lanes;
  static constexpr int most_averaged = 8;
  static constexpr double never = 1e15;

  const double* whiten(int k) const {
    return g_.whiten + ptrdiff_t(k) * g_.d * (diagonal_ ? 1 : g_.d);
  }

  // With vectors of lanes: y = W_k x.
  void multiply(int k, const double* x, double* y) const {
    const double* w = whiten(k);
    for (int i = 0; i < g_.d; ++i) {
      auto sum = D::zero();
      if (diagonal_) sum = D::splat(w[i]) * D::load(x + i * lanes);
      else for (int j = 0; j <= i; ++j) sum += D::splat(w[j]) * D::load(x + j * lanes);
      D::store(y + i * lanes, sum);
      if (!diagonal_) w += g_.d;
    }
  }

  // y = W_k^T x.
  void multiply_transposed(int k, const double* x, double* y) const {
    const double* w = whiten(k);
    for (int j = 0; j < g_.d; ++j) D::store(y + j * lanes, D::zero());
    for (int i = 0; i < g_.d; ++i) {
      const auto xi = D::load(x + i * lanes);
      for (int j = diagonal_ ? i : 0; j <= i; ++j) {
        const auto sum = D::load(y + j * lanes) + D::splat(w[j]) * xi;
        D::store(y + j * lanes, sum);
      }
      if (!diagonal_) w += g_.d;
    }
  }

  // x becomes W_k^-T x.
  void solve_transposed(int k, double* x) const {
    for (int i = g_.d - 1; i >= 0; --i) {
      const double* const w = whiten(k) + (diagonal_ ? 0 : ptrdiff_t(i) * g_.d);
      const auto xi = D::load(x + i * lanes) * D::splat(1 / w[i]);
      D::store(x + i * lanes, xi);
      for (int j = 0; j < i && !diagonal_; ++j)
        D::store(x + j * lanes, D::load(x + j * lanes) - D::splat(w[j]) * xi);
    }
  }

  // For as many components c as there are lanes at once: v = W_k^T u for every k, along the lanes;
  // then b for each c, with components k along the lanes.
  void find_directions() {
    const int k = g_.components, d = g_.d;
    for (int j = 0; j < d; ++j)
      for (int c = 0; c < padded_; ++c)
        means_[j * padded_ + c] = g_.means[ptrdiff_t(c < k ? c : k - 1) * d + j];
    for (int c = 0; c < k; c += lanes) {
      for (int other = 0; other < padded_; ++other) turn(c, other < k ? other : k - 1, other);
      for (int lane = 0; lane < lanes && c + lane < k; ++lane)
        for (int other = 0; other < k; other += lanes) slope(c + lane, lane, other);
    }
  }

  // v of components c .. c + lanes and k, to place `at` of the turned vectors.
  void turn(int c, int k, int at) {
    const int d = g_.d;
    for (int j = 0; j < d; ++j)
      D::store(first_ + j * lanes,
               D::load(means_ + j * padded_ + c) - D::splat(g_.means[ptrdiff_t(k) * d + j]));
    multiply(k, first_, second_);
    auto square = D::zero();
    for (int j = 0; j < d; ++j)
      square += D::load(second_ + j * lanes) * D::load(second_ + j * lanes);
    multiply_transposed(k, second_, first_);
    const auto distance = D::sqrt(square);
    const auto scale = D::select(distance > D::zero(), D::splat(1) / distance, D::zero());
    for (int j = 0; j < d; ++j) {
      double v[lanes];
      D::store(v, D::load(first_ + j * lanes) * scale);
      for (int lane = 0; lane < lanes; ++lane)
        turned_[(ptrdiff_t(lane) * d + j) * padded_ + at] = v[lane];
    }
    double found[lanes];
    D::store(found, distance);
    for (int lane = 0; lane < lanes && c + lane < g_.components; ++lane)
      if (at == k) distance_[ptrdiff_t(c + lane) * g_.components + k] = found[lane];
  }

  // Directions of component c and those from k on.
  void slope(int c, int lane, int k) {
    const int d = g_.d;
    auto offset = D::zero(), size = D::zero(), square = D::zero(), own = D::zero();
    for (int j = 0; j < d; ++j) {
      const auto v = D::load(turned_ + (ptrdiff_t(lane) * d + j) * padded_ + k);
      const auto mean = D::splat(g_.means[ptrdiff_t(c) * d + j]);
      D::store(first_ + j * lanes, v);
      D::store(second_ + j * lanes, v);
      offset += v * mean;
      size += v * v;
      own += mean * mean;
    }
    solve_transposed(c, second_);
    for (int j = 0; j < d; ++j)
      square += D::load(second_ + j * lanes) * D::load(second_ + j * lanes);
    double offsets[lanes], slopes[lanes], sizes[lanes];
    D::store(offsets, offset);
    D::store(slopes, D::sqrt(square));
    D::store(sizes, D::sqrt(size * own));
    for (int i = 0; i < lanes && k + i < g_.components; ++i) {
      const ptrdiff_t at = ptrdiff_t(c) * g_.components + k + i;
      T* const b = directions_ + at * (d + 1);
      for (int j = 0; j < d; ++j) b[j] = T((diagonal_ ? first_ : second_)[j * lanes + i]);
      b[d] = T(diagonal_ ? distance_[at] - offsets[i] : distance_[at]);
      slope_[at] = 1.001 * slopes[i];
      if (!(distance_[at] < never && slope_[at] < never)) largest_ = never;
      if (diagonal_ && !(sizes[i] <= largest_)) largest_ = sizes[i];
    }
  }

  // For each component W^T W times its mean, averaged over some W.
  void find_guess() {
    const int k = g_.components, d = g_.d, averaged = k < most_averaged ? k : most_averaged;
    for (int c = 0; c < k; c += lanes) {
      const int some = k - c < lanes ? k - c : lanes;
      for (int i = 0; i < some; ++i)
        for (int j = 0; j < d; ++j) guess_[ptrdiff_t(c + i) * d + j] = 0;
      for (int i = 0; i < averaged; ++i) {
        const int other = int(ptrdiff_t(i) * k / averaged);
        for (int j = 0; j < d; ++j)
          D::store(first_ + j * lanes, D::load(means_ + j * padded_ + c));
        multiply(other, first_, second_);
        multiply_transposed(other, second_, first_);
        for (int lane = 0; lane < some; ++lane)
          for (int j = 0; j < d; ++j)
            guess_[ptrdiff_t(c + lane) * d + j] += first_[j * lanes + lane] / averaged;
      }
      for (int i = 0; i < some; ++i) {
        double product = 0;
        for (int j = 0; j < d; ++j)
          product += guess_[ptrdiff_t(c + i) * d + j] * g_.means[ptrdiff_t(c + i) * d + j];
        offset_[c + i] = -0.5 * product;
      }
    }
  }

  Gaussians g_{};
  bool diagonal_ = false;
  double largest_ = 0;
  ptrdiff_t padded_ = 0;
  double *means_ = nullptr, *turned_ = nullptr, *offset_ = nullptr, *guess_ = nullptr,
         *distance_ = nullptr, *slope_ = nullptr, *first_ = nullptr, *second_ = nullptr;
  T* directions_ = nullptr;
  Product* guide_ = nullptr;
};

}  // namespace mixfold::MIXFOLD_ISA
