#include "rotations.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace mixfold {
namespace {

constexpr double smallest = 1e-300;

// Covariances in the coordinates of the axes, which are rotated together with them.
class Rotated {
 public:
  explicit Rotated(const CommonAxes& axes)
      : axes_(axes), k_(size_t(axes.k)), d_(size_t(axes.d)), inner_(k_ * d_ * d_),
        log_sum_(k_), volume_(k_) {
    std::vector<double> half(d_ * d_);
    for (size_t k = 0; k < k_; ++k) {
      multiply(axes.covariance + k * d_ * d_, axes.vectors, half.data(), false);
      multiply(axes.vectors, half.data(), &inner_[k * d_ * d_], true);
    }
    for (size_t k = 0; k < k_; ++k) total_ += axes.weight[k];
  }

  // Rotates every pair of axes once; returns minus twice the log-likelihood after that.
  double sweep() {
    if (axes_.one_volume) sum_logs();
    for (size_t i = 0; i < d_; ++i)
      for (size_t j = i + 1; j < d_; ++j) turn(i, j);
    return loss();
  }

  double total() const { return total_; }

 private:
  double* row(size_t k, size_t i) { return &inner_[(k * d_ + i) * d_]; }
  double own(size_t k, size_t i) { return row(k, i)[i]; }

  // out = a b, or a' b
  void multiply(const double* a, const double* b, double* out, bool transposed) const {
    for (size_t i = 0; i < d_; ++i)
      for (size_t j = 0; j < d_; ++j) {
        double sum = 0;
        for (size_t l = 0; l < d_; ++l)
          sum += (transposed ? a[l * d_ + i] : a[i * d_ + l]) * b[l * d_ + j];
        out[i * d_ + j] = sum;
      }
  }

  static double log_of(double variance) { return std::log(std::fmax(variance, smallest)); }

  void sum_logs() {
    for (size_t k = 0; k < k_; ++k) {
      log_sum_[k] = 0;
      for (size_t i = 0; i < d_; ++i) log_sum_[k] += log_of(own(k, i));
    }
  }

  // By what the variances of each component are multiplied to have the common volume.
  void find_volumes() {
    double common = 0;
    for (size_t k = 0; k < k_; ++k) {
      volume_[k] = std::exp(log_sum_[k] / double(d_));
      common += axes_.weight[k] / total_ * volume_[k];
    }
    for (size_t k = 0; k < k_; ++k) volume_[k] = common / volume_[k];
  }

  double fitted(size_t k, size_t i) {
    return std::fmax(axes_.one_volume ? own(k, i) * volume_[k] : own(k, i), smallest);
  }

  // Rotates axes i and j as fits the present variances best.
  void turn(size_t i, size_t j) {
    if (axes_.one_volume) find_volumes();
    double first = 0, both = 0, last = 0;
    for (size_t k = 0; k < k_; ++k) {
      const double precision = axes_.weight[k] * (1 / fitted(k, i) - 1 / fitted(k, j));
      first += precision * row(k, i)[i];
      both += precision * row(k, i)[j];
      last += precision * row(k, j)[j];
    }
    // the first axis has the smaller of both eigenvalues of the sum
    const double angle = 0.5 * std::atan2(-2 * both, last - first);
    const double cosine = std::cos(angle), sine = std::sin(angle);
    for (size_t k = 0; k < k_; ++k) {
      const double before = axes_.one_volume ? log_of(own(k, i)) + log_of(own(k, j)) : 0;
      rotate(row(k, i), row(k, j), 1, d_, cosine, sine);
      rotate(row(k, 0) + i, row(k, 0) + j, d_, d_, cosine, sine);
      if (axes_.one_volume) log_sum_[k] += log_of(own(k, i)) + log_of(own(k, j)) - before;
    }
    rotate(axes_.vectors + i, axes_.vectors + j, d_, d_, cosine, sine);
  }

  static void rotate(double* a, double* b, size_t step, size_t n, double cosine, double sine) {
    for (size_t l = 0; l < n; ++l) {
      const double x = a[l * step], y = b[l * step];
      a[l * step] = cosine * x + sine * y;
      b[l * step] = cosine * y - sine * x;
    }
  }

  double loss() {
    if (axes_.one_volume) find_volumes();
    double sum = 0;
    for (size_t k = 0; k < k_; ++k)
      for (size_t i = 0; i < d_; ++i)
        sum += axes_.weight[k] * (std::log(fitted(k, i)) + own(k, i) / fitted(k, i));
    return sum;
  }

  CommonAxes axes_;
  size_t k_, d_;
  std::vector<double> inner_, log_sum_, volume_;
  double total_ = 0;
};

}  // namespace

double rotate_axes(const CommonAxes& axes, int most_sweeps, double enough) {
  Rotated rotated(axes);
  double loss = std::numeric_limits<double>::infinity();
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    const double before = loss;
    loss = rotated.sweep();
    if (before - loss <= enough * (std::fabs(loss) + rotated.total())) break;
  }
  return loss;
}

}  // namespace mixfold
