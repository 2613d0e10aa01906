// Annealed stochastic gradients, one row per step, compiled once per instruction set. Here the
// coordinates lie along the lanes: such data have many.
#include "annealing.hpp"

#include <math.h>

#include "block.hpp"
#include "kernels.hpp"
#include "read_row.hpp"
#include "simd_math.hpp"

namespace mixfold::MIXFOLD_ISA {
namespace {

// Means of coordinates that never vary fall towards them for ever. Numbers too small to be normal are
// a hundred times slower than zero, so here they are zero.
class NoSubnormals {
#if defined(__SSE2__)
 public:
  NoSubnormals() { _mm_setcsr(before_ | 0x8040); }
  ~NoSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_ = _mm_getcsr();
#endif
};

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

template <class S, class T> double squared_distance(const T* x, const T* mean, const T* root, int d) {
  constexpr int chains = 4;
  auto a = S::zero(), b = S::zero(), c = S::zero(), e = S::zero();
  int j = 0;
  const auto term = [&](int at) {
    const auto y = (S::load(x + at) - S::load(mean + at)) * S::load(root + at);
    return y * y;
  };
  for (; j + chains * S::lanes <= d; j += chains * S::lanes) {
    a += term(j);
    b += term(j + S::lanes);
    c += term(j + 2 * S::lanes);
    e += term(j + 3 * S::lanes);
  }
  for (; j + S::lanes <= d; j += S::lanes) a += term(j);
  double sum = double(S::sum((a + b) + (c + e)));
  for (; j < d; ++j) {
    const double y = double(x[j] - mean[j]) * double(root[j]);
    sum += y * y;
  }
  return sum;
}

template <class T> T within(T x, T low, T high) { return x < low ? low : x > high ? high : x; }

// A step of the mean and the precision roots of one component.
template <class S, class T>
void follow(const T* x, T* mean, T* root, int d, T step, T least, T most) {
  const auto s = S::splat(step), low = S::splat(least), high = S::splat(most);
  int j = 0;
  for (; j + S::lanes <= d; j += S::lanes) {
    const auto m = S::load(mean + j), r = S::load(root + j), e = S::load(x + j) - m, se = s * e;
    const auto rose = r + (s * S::reciprocal(r) - r * (se * e));
    S::store(mean + j, m + se * (r * r));
    S::store(root + j, S::zero() - S::max(S::zero() - S::max(rose, low), S::zero() - high));
  }
  for (; j < d; ++j) {
    const T e = x[j] - mean[j], r = root[j];
    mean[j] += step * e * (r * r);
    root[j] = within(r + (step / r - r * (step * e * e)), least, most);
  }
}

// softmax of the logits; returns the logarithm of what they are divided by.
double shares(const double* logits, int k, double* share) {
  double peak = logits[0], total = 0;
  for (int i = 1; i < k; ++i) peak = logits[i] > peak ? logits[i] : peak;
  for (int i = 0; i < k; ++i) total += share[i] = exp(logits[i] - peak);
  for (int i = 0; i < k; ++i) share[i] /= total;
  return peak + log(total);
}

template <class S> double dot(const double* a, const double* b, int n) {
  auto sums = S::zero();
  int i = 0;
  for (; i + S::lanes <= n; i += S::lanes) sums += S::load(a + i) * S::load(b + i);
  double sum = S::sum(sums);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
void anneal_rows(AnnealedMixture<T>& m, const Rows& rows, const double* weights) {
  using S = Simd<T>;
  const NoSubnormals flushing;
  constexpr double log_2pi = 1.83787706640934548356;
  const int k = m.components, d = m.d;
  T* const x = scratch_of<T>(Slot::rows, d);
  double* const log_roots = scratch_of<double>(Slot::totals, k);
  double* const joint = scratch_of<double>(Slot::joint, k);
  double* const share = scratch_of<double>(Slot::weights, k);
  for (int i = 0; i < k; ++i) log_roots[i] = sum_of_logs<S>(m.roots + ptrdiff_t(i) * d, d);
  for (int n = 0; n < rows.n; ++n) {
    const double weight = weights ? weights[n] : 1;
    if (weight == 0) continue;
    read_row(rows, n, x);
    const double normalizer = shares(m.logits, k, share);
    for (int i = 0; i < k; ++i) {
      const ptrdiff_t at = ptrdiff_t(i) * d;
      const double square = squared_distance<S>(x, m.means + at, m.roots + at, d);
      joint[i] = m.logits[i] - normalizer + log_roots[i] - 0.5 * (square + d * log_2pi);
    }
    int best = 0;
    double loss = 0;
    for (int i = 0; i < k; ++i) {
      const double smooth = dot<Simd<double>>(m.bumps + ptrdiff_t(i) * k, joint, k);
      if (i == 0 || smooth > loss) best = i, loss = smooth;
    }
    if (isinf(m.first)) m.first = m.loss = loss;
    m.loss = (1 - m.epsilon) * m.loss + m.epsilon * loss;
    m.total += weight * loss;
    const double* const bump = m.bumps + ptrdiff_t(best) * k;
    const double step = m.epsilon * weight;
    for (int i = 0; i < k; ++i) {
      m.logits[i] += step * (bump[i] - share[i]);
      if (bump[i] == 0) continue;
      const ptrdiff_t at = ptrdiff_t(i) * d;
      follow<S>(x, m.means + at, m.roots + at, d, T(step * bump[i]), T(m.least_root),
                T(m.most_root));
      log_roots[i] = sum_of_logs<S>(m.roots + at, d);
    }
  }
}

}  // namespace

void anneal_single(AnnealedMixture<float>& m, const Rows& rows, const double* weights) {
  anneal_rows(m, rows, weights);
}

void anneal_double(AnnealedMixture<double>& m, const Rows& rows, const double* weights) {
  anneal_rows(m, rows, weights);
}

}  // namespace mixfold::MIXFOLD_ISA
