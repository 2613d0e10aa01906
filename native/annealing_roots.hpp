// Distances to Gaussian components and gradient steps of them, by the roots of their precisions.
#pragma once

#include <math.h>

#include "block.hpp"
#include "simd_math.hpp"

namespace mixfold::MIXFOLD_ISA {

inline constexpr int any_number = 0;

template <class S, class T> MIXFOLD_INLINE T dot(const T* a, const T* b, int n) {
  auto sums = S::zero(), more = S::zero();
  int i = 0;
  for (; i + 2 * S::lanes <= n; i += 2 * S::lanes) {
    sums += S::load(a + i) * S::load(b + i);
    more += S::load(a + i + S::lanes) * S::load(b + i + S::lanes);
  }
  for (; i + S::lanes <= n; i += S::lanes) sums += S::load(a + i) * S::load(b + i);
  T sum = S::sum(sums + more);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y += t x
template <class S, class T> MIXFOLD_INLINE void add(T t, const T* x, T* y, int n) {
  const auto s = S::splat(t);
  int i = 0;
  for (; i + S::lanes <= n; i += S::lanes) S::store(y + i, S::load(y + i) + s * S::load(x + i));
  for (; i < n; ++i) y[i] += t * x[i];
}

template <class T> MIXFOLD_INLINE T within(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

// Sum of logs: of products of few, so that there are few logarithms and no overflow.
template <class S, class T> double sum_of_logs(const T* roots, int d) {
  constexpr int together = 8;
  double sum = 0;
  int j = 0;
  for (; j + together * S::lanes <= d; j += together * S::lanes) {
    auto product = S::load(roots + j);
    for (int i = 1; i < together; ++i) product *= S::load(roots + j + i * S::lanes);
    sum += double(S::sum(log_normal<S, T>(product)));
  }
  for (; j < d; ++j) sum += log(double(roots[j]));
  return sum;
}

// D is diagonal. `Number` is that of the rows of a batch, where it is known beforehand.
template <class T, int Number> class DiagonalRoots {
  using S = Simd<T>;

 public:
  DiagonalRoots(int d, int) : d_(d) {}

  ptrdiff_t size() const { return d_; }

  double log_determinant(const T* root) const { return sum_of_logs<S>(root, d_); }

  void squared_distances(const T* x, int n, const T* mean, const T* root, double* out,
                         ptrdiff_t stride) const {
    constexpr int together = 4;
    int i = 0;
    if constexpr (Number != 1)
      for (; i + together <= n; i += together)
        squared_distances_of<together>(x + ptrdiff_t(i) * d_, mean, root, out + i * stride, stride);
    for (; i < n; ++i) out[i * stride] = squared_distance(x + ptrdiff_t(i) * d_, mean, root);
  }

  void follow(const T* x, const T* responsibility, int n, T* mean, T* root, T total, T epsilon,
              T least, T most) const {
    const int rows = Number == any_number ? n : Number;
    const auto s = S::splat(epsilon), h = S::splat(epsilon * total), low = S::splat(least),
               high = S::splat(most);
    int j = 0;
    for (; j + S::lanes <= d_; j += S::lanes) {
      const auto m = S::load(mean + j), r = S::load(root + j);
      auto first = S::zero(), second = S::zero();
      for (int i = 0; i < rows; ++i) {
        if (Number == any_number && responsibility[i] == 0) continue;
        const auto e = S::load(x + ptrdiff_t(i) * d_ + j) - m, se = S::splat(responsibility[i]) * e;
        first += se;
        second += se * e;
      }
      const auto rose = r + (h * S::reciprocal(r) - r * (s * second));
      S::store(mean + j, m + (s * first) * (r * r));
      S::store(root + j, S::zero() - S::max(S::zero() - S::max(rose, low), S::zero() - high));
    }
    for (; j < d_; ++j) {
      const T m = mean[j], r = root[j];
      T first = 0, second = 0;
      for (int i = 0; i < rows; ++i) {
        const T e = x[ptrdiff_t(i) * d_ + j] - m, se = responsibility[i] * e;
        first += se;
        second += se * e;
      }
      mean[j] += epsilon * first * (r * r);
      root[j] = within(r + (epsilon * total / r - r * (epsilon * second)), least, most);
    }
  }

 private:
  double squared_distance(const T* x, const T* mean, const T* root) const {
    constexpr int chains = 4;
    auto a = S::zero(), b = S::zero(), c = S::zero(), e = S::zero();
    int j = 0;
    const auto term = [&](int at) {
      const auto y = (S::load(x + at) - S::load(mean + at)) * S::load(root + at);
      return y * y;
    };
    for (; j + chains * S::lanes <= d_; j += chains * S::lanes) {
      a += term(j);
      b += term(j + S::lanes);
      c += term(j + 2 * S::lanes);
      e += term(j + 3 * S::lanes);
    }
    for (; j + S::lanes <= d_; j += S::lanes) a += term(j);
    return double(S::sum((a + b) + (c + e))) + rest_of_distance(x, mean, root, j);
  }

  double rest_of_distance(const T* x, const T* mean, const T* root, int from) const {
    double sum = 0;
    for (int j = from; j < d_; ++j) {
      const double y = double(x[j] - mean[j]) * double(root[j]);
      sum += y * y;
    }
    return sum;
  }

  // Of several rows at once: means and roots are read once for all.
  template <int Rows>
  void squared_distances_of(const T* x, const T* mean, const T* root, double* out,
                            ptrdiff_t stride) const {
    typename S::Real sums[Rows];
    for (auto& sum : sums) sum = S::zero();
    int j = 0;
    for (; j + S::lanes <= d_; j += S::lanes) {
      const auto m = S::load(mean + j), r = S::load(root + j);
      MIXFOLD_UNROLL for (int i = 0; i < Rows; ++i) {
        const auto y = (S::load(x + ptrdiff_t(i) * d_ + j) - m) * r;
        sums[i] += y * y;
      }
    }
    for (int i = 0; i < Rows; ++i)
      out[i * stride] =
          double(S::sum(sums[i])) + rest_of_distance(x + ptrdiff_t(i) * d_, mean, root, j);
  }

  const int d_;
};

// D is upper triangular, in rows of d numbers. Steps of the mean and of D are shortened by what
// they would overshoot by, so that no eigenvalue of the precision needs a bound.
template <class T> class TriangularRoots {
  using S = Simd<T>;

 public:
  TriangularRoots(int d, int batch_size)
      : d_(d),
        away_(scratch_of<T>(Slot::centred, size_t(batch_size) * d)),
        push_(scratch_of<T>(Slot::moments, batch_size)),
        pull_(scratch_of<T>(Slot::origin, d)),
        gradient_(scratch_of<T>(Slot::whitened, d)),
        diagonal_(scratch_of<T>(Slot::interleaved, d)) {}

  ptrdiff_t size() const { return ptrdiff_t(d_) * d_; }

  double log_determinant(const T* root) const {
    for (int j = 0; j < d_; ++j) diagonal_[j] = root[j * ptrdiff_t(d_ + 1)];
    return sum_of_logs<S>(diagonal_, d_);
  }

  void squared_distances(const T* x, int n, const T* mean, const T* root, double* out,
                         ptrdiff_t stride) const {
    center(x, n, mean);
    for (int i = 0; i < n; ++i) out[i * stride] = 0;
    for (int j = 0; j < d_; ++j)
      for (int i = 0; i < n; ++i) {
        const double y = double(whitened(root, j, away(i)));
        out[i * stride] += y * y;
      }
  }

  void follow(const T* x, const T* responsibility, int n, T* mean, T* root, T total, T epsilon,
              T least, T most) const {
    center(x, n, mean);
    follow_mean(responsibility, n, mean, root, double(total), double(epsilon));
    double spread = 0;
    for (int i = 0; i < n; ++i)
      if (responsibility[i] != 0)
        spread += double(responsibility[i]) * double(dot<S>(away(i), away(i), d_));
    const T step = T(double(epsilon) / (1 + double(epsilon) * spread));
    for (int j = 0; j < d_; ++j) {
      for (int i = 0; i < n; ++i)
        push_[i] =
            responsibility[i] == 0 ? T(0) : -step * responsibility[i] * whitened(root, j, away(i));
      T* const row = root + j * ptrdiff_t(d_ + 1);
      const T rise = step * total / row[0];
      for (int i = 0; i < n; ++i)
        if (responsibility[i] != 0) add<S>(push_[i], away(i) + j, row, d_ - j);
      row[0] = within(row[0] + rise, least, most);
    }
  }

 private:
  T* away(int i) const { return away_ + ptrdiff_t(i) * d_; }

  void center(const T* x, int n, const T* mean) const {
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < d_; ++j) away(i)[j] = x[ptrdiff_t(i) * d_ + j] - mean[j];
  }

  // Coordinate j of D v.
  T whitened(const T* root, int j, const T* v) const {
    return dot<S>(root + j * ptrdiff_t(d_ + 1), v + j, d_ - j);
  }

  // mean += t P u with u the pull of all rows; t is shortened by the curvature along P u.
  void follow_mean(const T* responsibility, int n, T* mean, const T* root, double total,
                   double epsilon) const {
    for (int j = 0; j < d_; ++j) pull_[j] = gradient_[j] = 0;
    for (int i = 0; i < n; ++i)
      if (responsibility[i] != 0) add<S>(responsibility[i], away(i), pull_, d_);
    for (int j = 0; j < d_; ++j)
      add<S>(whitened(root, j, pull_), root + j * ptrdiff_t(d_ + 1), gradient_ + j, d_ - j);
    const double square = double(dot<S>(gradient_, gradient_, d_));
    if (!(square > 0)) return;
    double bent = 0;
    for (int j = 0; j < d_; ++j) {
      const double y = double(whitened(root, j, gradient_));
      bent += y * y;
    }
    add<S>(T(epsilon / (1 + epsilon * total * bent / square)), gradient_, mean, d_);
  }

  const int d_;
  T *away_, *push_, *pull_, *gradient_, *diagonal_;
};

}  // namespace mixfold::MIXFOLD_ISA
