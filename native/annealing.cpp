// Annealed stochastic gradients, compiled once per instruction set. Here the coordinates lie along
// the lanes: such data have many.
#include "annealing.hpp"

#include <math.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "annealing_roots.hpp"
#include "kernels.hpp"
#include "read_row.hpp"

namespace mixfold::MIXFOLD_ISA {
namespace {

// Means of coordinates that never vary fall towards them for ever. Numbers too small to be normal
// are a hundred times slower than zero, so here they are zero.
class NoSubnormals {
#if defined(__SSE2__)
 public:
  NoSubnormals() { _mm_setcsr(before_ | 0x8040); }
  ~NoSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_ = _mm_getcsr();
#endif
};

// softmax of the logits; returns the logarithm of what they are divided by.
double softmax_of(const double* logits, int k, double* weight) {
  double peak = logits[0], total = 0;
  for (int i = 1; i < k; ++i) peak = logits[i] > peak ? logits[i] : peak;
  for (int i = 0; i < k; ++i) total += weight[i] = exp(logits[i] - peak);
  for (int i = 0; i < k; ++i) weight[i] /= total;
  return peak + log(total);
}

double log_sum_exp(const double* x, int n) {
  constexpr double negligible = -69;
  using S = Simd<double>;
  double peak = x[0], total = 0;
  for (int i = 1; i < n; ++i) peak = x[i] > peak ? x[i] : peak;
  auto sums = S::zero();
  int i = 0;
  for (; i + S::lanes <= n; i += S::lanes)
    sums += exp_nonpositive<S>(S::load(x + i) - S::splat(peak), negligible);
  for (; i < n; ++i) total += exp(x[i] - peak);
  return peak + log(total + S::sum(sums));
}

// What a batch holds besides its rows: the weight of each, its log joint densities, and the
// component whose surroundings explain it best. Then the responsibilities of one component for
// every row.
template <class T> struct Batch {
  T* x;
  double *weight, *joint;
  int* best;
  T* responsibility;
  int n = 0;
};

template <class T, class Roots> class Annealing {
 public:
  Annealing(AnnealedMixture<T>& m, int batch_size)
      : m_(m), k_(m.components), d_(m.d), roots_(m.d, batch_size) {
    log_roots_ = scratch_of<double>(Slot::totals, k_);
    weights_ = scratch_of<double>(Slot::weights, k_);
    batch_.x = scratch_of<T>(Slot::rows, size_t(batch_size) * d_);
    batch_.joint = scratch_of<double>(Slot::joint, size_t(batch_size) * k_);
    batch_.weight = scratch_of<double>(Slot::peaks, batch_size);
    batch_.best = scratch_of<int>(Slot::members, batch_size);
    batch_.responsibility = scratch_of<T>(Slot::weighted, batch_size);
    for (int i = 0; i < k_; ++i) log_roots_[i] = roots_.log_determinant(root(i));
  }

  void learn(const Rows& rows, const double* weights, int first, int count) {
    batch_.n = count;
    for (int n = 0; n < count; ++n) {
      read_row(rows, first + n, batch_.x + ptrdiff_t(n) * d_);
      batch_.weight[n] = weights ? weights[first + n] : 1;
    }
    look();
    move();
  }

 private:
  T* mean(int i) { return m_.means + ptrdiff_t(i) * d_; }
  T* root(int i) { return m_.roots + i * roots_.size(); }

  // Log joint densities, the best component of every row, and the loss of all.
  void look() {
    constexpr double log_2pi = 1.83787706640934548356;
    const double normalizer = softmax_of(m_.logits, k_, weights_);
    for (int i = 0; i < k_; ++i) {
      const double constant =
          m_.logits[i] - normalizer + log_roots_[i] - 0.5 * d_ * log_2pi;
      roots_.squared_distances(batch_.x, batch_.n, mean(i), root(i), batch_.joint + i, k_);
      for (int n = 0; n < batch_.n; ++n) {
        double& joint = batch_.joint[ptrdiff_t(n) * k_ + i];
        joint = constant - 0.5 * joint;
      }
    }
    double loss = 0, weight = 0;
    for (int n = 0; n < batch_.n; ++n) {
      const double* const joint = batch_.joint + ptrdiff_t(n) * k_;
      const double risen = batch_.weight[n] * best_of(joint, batch_.best[n]);
      loss += risen;
      weight += batch_.weight[n];
      m_.bound += risen;
      if (batch_.weight[n] != 0) m_.log_density += batch_.weight[n] * log_sum_exp(joint, k_);
    }
    loss /= weight;
    if (isinf(m_.first)) m_.first = m_.loss = loss;
    m_.loss = (1 - m_.epsilon) * m_.loss + m_.epsilon * loss;
  }

  double best_of(const double* joint, int& best) {
    double loss = 0;
    for (int i = 0; i < k_; ++i) {
      const double smooth = dot<Simd<double>>(m_.bumps + ptrdiff_t(i) * k_, joint, k_);
      if (i == 0 || smooth > loss) best = i, loss = smooth;
    }
    return loss;
  }

  // A step of the mean gradient of the batch.
  void move() {
    double weight = 0;
    for (int n = 0; n < batch_.n; ++n) weight += batch_.weight[n];
    weight /= batch_.n;
    const double epsilon = tempered(weight, m_.most_root * m_.most_root);
    const double of_logits = tempered(weight, 1);
    for (int i = 0; i < k_; ++i) {
      const double total = take_responsibilities(i);
      m_.logits[i] += of_logits * (total - weight * weights_[i]);
      if (total == 0) continue;
      roots_.follow(batch_.x, batch_.responsibility, batch_.n, mean(i), root(i), T(total),
                    T(epsilon), T(m_.least_root), T(m_.most_root));
      log_roots_[i] = roots_.log_determinant(root(i));
    }
  }

  // A batch of mean weight v moves what is bent by `bend` no farther than v batches could.
  double tempered(double weight, double bend) const {
    if (weight == 1) return m_.epsilon;
    return -expm1(weight * log1p(-m_.epsilon * bend)) / (bend * weight);
  }

  // The responsibilities of component i for every row; returns their sum.
  double take_responsibilities(int i) {
    double sum = 0;
    for (int n = 0; n < batch_.n; ++n) {
      const double responsibility =
          m_.bumps[ptrdiff_t(batch_.best[n]) * k_ + i] * batch_.weight[n] / batch_.n;
      batch_.responsibility[n] = T(responsibility);
      sum += responsibility;
    }
    return sum;
  }

  AnnealedMixture<T>& m_;
  const int k_, d_;
  Roots roots_;
  Batch<T> batch_;
  double *log_roots_, *weights_;
};

template <class T, class Roots>
void anneal_with(AnnealedMixture<T>& m, const Rows& rows, const double* weights, int batch_size) {
  const NoSubnormals flushing;
  const int most = batch_size < rows.n ? batch_size : rows.n;
  if (rows.n == 0) return;
  Annealing<T, Roots> annealing(m, most);
  for (int first = 0; first < rows.n; first += most)
    annealing.learn(rows, weights, first, rows.n - first < most ? rows.n - first : most);
}

template <class T>
void anneal_rows(AnnealedMixture<T>& m, const Rows& rows, const double* weights, int batch_size) {
  if (m.triangular) anneal_with<T, TriangularRoots<T>>(m, rows, weights, batch_size);
  else if (batch_size == 1) anneal_with<T, DiagonalRoots<T, 1>>(m, rows, weights, batch_size);
  else anneal_with<T, DiagonalRoots<T, any_number>>(m, rows, weights, batch_size);
}

}  // namespace

void anneal_single(AnnealedMixture<float>& m, const Rows& rows, const double* weights,
                   int batch_size) {
  anneal_rows(m, rows, weights, batch_size);
}

void anneal_double(AnnealedMixture<double>& m, const Rows& rows, const double* weights,
                   int batch_size) {
  anneal_rows(m, rows, weights, batch_size);
}

}  // namespace mixfold::MIXFOLD_ISA
