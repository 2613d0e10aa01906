// What tells components apart, from their parameters alone: which one a row is probably nearest to,
// and a bound of the density of the others there.
#pragma once

#include "separable.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class T> struct SeparationLimits;
// `distance` of the means from the origin in deviations keeps rounding out of the bounds.
template <> struct SeparationLimits<double> {
  static constexpr double distance = 1e8, never = 1e120;
};
template <> struct SeparationLimits<float> {
  static constexpr double distance = 1e4, never = 1e15;
};

// The nearest mean in a metric that components have on average is the guess. Then, with u the unit
// vector from whitened mean k to mean c, |y_k|^2 is at least (u . y_k)^2, which is far from zero for
// a row near mean c.
template <class T> class Separation {
 public:
  Separation() = default;

  Separation(const Gaussians& g, bool diagonal) : g_(g), diagonal_(diagonal) {
    const int k = g.components, d = g.d;
    const ptrdiff_t each = Product::size(k, d);
    double* const work = scratch_of<double>(Slot::partial, ptrdiff_t(k) * (d + 1) + 2 * d);
    offset_ = work, vectors_ = work + k, first_ = vectors_ + ptrdiff_t(k) * d, second_ = first_ + d;
    products_ = scratch_of<Product>(Slot::products, k + 1);
    T* memory = scratch_of<T>(Slot::guide, each * (k + 1));
    for (int c = 0; c <= k; ++c, memory += each) {
      if (c < k) find_bounds(c);
      else find_guess();
      products_[c] = Product(memory, k, d, offset_, [&](int, int i, int j) {
        return vectors_[ptrdiff_t(i) * d + j];
      });
    }
  }

  // Scores in block.joint: the largest is that of the guess.
  void score(const Block<T>& block) const { products_[g_.components].log_joint(block); }

  // Lower bounds of whitened distances, of either sign, of rows near the mean of component c.
  void distances(int c, const Block<T>& block) const { products_[c].log_joint(block); }

  // Whether rounding leaves the bounds exact enough.
  bool exact() const { return largest_ < SeparationLimits<T>::distance; }

 private:
  using Product = Separable<T, InnerProduct>;
  static constexpr int most_averaged = 8;

  // out = W_k v or its transpose.
  void whiten(int k, const double* v, double* out) const {
    const int d = g_.d;
    const double* const w = g_.whiten + ptrdiff_t(k) * d * (diagonal_ ? 1 : d);
    for (int i = 0; i < d; ++i) {
      out[i] = diagonal_ ? w[i] * v[i] : dot(i + 1, w + ptrdiff_t(i) * d, v);
    }
  }

  void add_transposed(int k, const double* v, double factor, double* out) const {
    const int d = g_.d;
    const double* const w = g_.whiten + ptrdiff_t(k) * d * (diagonal_ ? 1 : d);
    for (int i = 0; i < d; ++i) {
      const double scaled = factor * v[i];
      if (diagonal_) out[i] += w[i] * scaled;
      else for (int j = 0; j <= i; ++j) out[j] += w[ptrdiff_t(i) * d + j] * scaled;
    }
  }

  static double dot(int d, const double* a, const double* b) {
    using S = Simd<double>;
    auto sums = S::zero();
    int j = 0;
    for (; j + S::lanes <= d; j += S::lanes) sums += S::load(a + j) * S::load(b + j);
    double sum = S::sum(sums);
    for (; j < d; ++j) sum += a[j] * b[j];
    return sum;
  }

  void find_bounds(int c) {
    const int d = g_.d;
    for (int k = 0; k < g_.components; ++k) {
      const double *const mean = g_.means + ptrdiff_t(k) * d, *from = g_.means + ptrdiff_t(c) * d;
      double* const v = vectors_ + ptrdiff_t(k) * d;
      for (int j = 0; j < d; ++j) v[j] = 0, first_[j] = from[j] - mean[j];
      offset_[k] = k == c ? SeparationLimits<T>::never : 0;
      whiten(k, first_, second_);
      const double square = dot(d, second_, second_);
      if (!(square > 0) || k == c) continue;
      add_transposed(k, second_, 1 / __builtin_sqrt(square), v);
      offset_[k] = -dot(d, v, mean);
      const double size = dot(d, v, v) * dot(d, mean, mean);
      if (!(size <= largest_ * largest_)) largest_ = __builtin_sqrt(size);
    }
  }

  void find_guess() {
    const int k = g_.components, d = g_.d, averaged = k < most_averaged ? k : most_averaged;
    for (int c = 0; c < k; ++c) {
      double* const v = vectors_ + ptrdiff_t(c) * d;
      for (int j = 0; j < d; ++j) v[j] = 0;
      for (int i = 0; i < averaged; ++i) {
        const int other = int(ptrdiff_t(i) * k / averaged);
        whiten(other, g_.means + ptrdiff_t(c) * d, first_);
        add_transposed(other, first_, 1.0 / averaged, v);
      }
      offset_[c] = -0.5 * dot(d, v, g_.means + ptrdiff_t(c) * d);
    }
  }

  Gaussians g_{};
  bool diagonal_ = false;
  double largest_ = 0;
  double *offset_ = nullptr, *vectors_ = nullptr, *first_ = nullptr, *second_ = nullptr;
  Product* products_ = nullptr;
};

}  // namespace mixfold::MIXFOLD_ISA
