// Bayesian moment matching, one row per update, compiled once per instruction set.
//
// A kind of posterior has: constant(b, k, weight), what does not depend on the row in the log
// density of a component; log_density(b, k, weight), what does; match(b, k, weight), which returns
// how many components are degenerate: their degrees of freedom are raised to the smallest.
#include <math.h>

#include "posterior.hpp"
#include "count_components.hpp"
#include "kernels.hpp"
#include "log_factorial.hpp"
#include "log_gamma.hpp"
#include "read_row.hpp"
#include "simd_math.hpp"

namespace mixfold::MIXFOLD_ISA {
namespace {

constexpr double reach = 1e-20, least_spare = 1.5, least_alpha = 1e-60;
constexpr double half_log_pi = 0.57236494292470008707;

template <class S> MIXFOLD_INLINE typename S::Real log_of_one_plus(const typename S::Real& x) {
  const auto one = S::splat(1.0), rounded = one + x, kept = rounded - one;
  const auto exact = log_normal<S, double>(rounded) * (x / S::max(kept, S::splat(1e-300)));
  return S::select(kept > S::zero(), exact, x);
}

// The effect of a row on the posterior: mean + shift e, V = scale (V + spread ee').
template <class S> struct Matched {
  typename S::Real shift, scale, spread, kappa, nu;
  typename S::Integers near, floored;
};

// The normal-Wishart with the moments of c NW' + (1 - c) NW, as the families in Python have
// it; q is the squared distance e' W e.
template <class S>
MIXFOLD_INLINE Matched<S> matched(double dimension, const typename S::Real& kappa,
                                  const typename S::Real& nu, const typename S::Real& q,
                                  const typename S::Real& c, double row_weight) {
  using Real = typename S::Real;
  const Real one = S::splat(1.0), d = S::splat(dimension), weight = S::splat(row_weight);
  const Real rest = one - c, more = nu + weight, share = weight / (kappa + weight);
  const Real beta = kappa * share, bq = beta * q, lost = bq / (one + bq);
  // Not as differences: of a row that is far away nothing would be left of them.
  const Real kept = one / (one + bq), left = rest * nu + c * more * kept;
  const Real a = nu + c * weight, b = c * more * lost;
  const Real gap = weight - more * lost, trace = d - lost;
  const Real apart = weight * weight * (d - one) + gap * gap;
  const Real after = more * (d - one + kept * kept + trace * trace);
  const Real variance = c * rest * apart + c * after + rest * nu * (d + d * d);
  const Real total = a * d - b;
  const Real found = (a * a * (d - one) + left * left + total * total) / variance;
  const Real least = S::splat(dimension + least_spare);
  Matched<S> to;
  to.near = S::splat_integer(-1) - (S::splat(reach) > c);
  to.floored = least > found;
  to.nu = S::max(found, least);
  to.scale = to.nu / a;
  to.spread = c * more * beta / (left * (one + bq));
  const Real about = c * rest * share * share * q +
                     c * (d + bq) / ((kappa + weight) * (more - d - one)) +
                     rest * d / (kappa * (nu - d - one));
  to.kappa = to.scale * (d + b / left) / ((to.nu - d - one) * about);
  to.shift = c * share;
  // Components out of reach stay as they are, to the bit.
  to.shift = S::select(to.near, to.shift, S::zero());
  to.scale = S::select(to.near, to.scale, one);
  to.spread = S::select(to.near, to.spread, S::zero());
  to.kappa = S::select(to.near, to.kappa, kappa);
  to.nu = S::select(to.near, to.nu, nu);
  to.floored = to.floored & to.near;
  return to;
}

template <class S> struct Full {
  using Real = typename S::Real;
  static double* scale_at(const ConjugatePosterior& b, int i, int j) {
    return b.scale + (i * (i + 1) / 2 + j) * b.padded;
  }

  static double constant(const ConjugatePosterior& b, int k, double weight) {
    double log_root = 0;
    for (int j = 0; j < b.d; ++j) log_root += log(scale_at(b, j, j)[k]);
    return 0.5 * b.d * log(b.kappa[k] / (b.kappa[k] + weight)) +
           log_gamma_ratio(b.d, b.nu[k], weight) - weight * (b.d * half_log_pi + log_root);
  }

  static MIXFOLD_INLINE Real log_density(const ConjugatePosterior& b, int k, double row_weight) {
    Real square = S::zero();
    for (int i = 0; i < b.d; ++i) {
      Real u = S::splat(b.row[i]) - S::load(b.mean + i * b.padded + k);
      for (int j = 0; j < i; ++j)
        u -= S::load(scale_at(b, i, j) + k) * S::load(b.column + j * S::lanes);
      u = u / S::load(scale_at(b, i, i) + k);
      S::store(b.column + i * S::lanes, u);
      square += u * u;
    }
    S::store(b.square + k, square);
    const Real weight = S::splat(row_weight), kappa = S::load(b.kappa + k);
    const Real beta = kappa * weight / (kappa + weight);
    return S::splat(-0.5) * (S::load(b.nu + k) + weight) * log_of_one_plus<S>(beta * square);
  }

  static MIXFOLD_INLINE int match(const ConjugatePosterior& b, int k, double weight) {
    const auto to = matched<S>(b.d, S::load(b.kappa + k), S::load(b.nu + k),
                               S::load(b.square + k), S::load(b.responsibility + k), weight);
    S::store(b.kappa + k, to.kappa);
    S::store(b.nu + k, to.nu);
    const Real root = S::sqrt(to.spread), scale = S::sqrt(to.scale);
    for (int i = 0; i < b.d; ++i) {
      double* const mean = b.mean + i * b.padded + k;
      const Real e = S::splat(b.row[i]) - S::load(mean);
      S::store(b.column + i * S::lanes, root * e);
      S::store(mean, S::load(mean) + to.shift * e);
    }
    for (int j = 0; j < b.d; ++j) rotate(b, k, j, scale);
    return count_components<S>(b.components, k, to.floored);
  }

 private:
  // Column j of the rank-one update of a Cholesky factor by what is left in the column of memory.
  static MIXFOLD_INLINE void rotate(const ConjugatePosterior& b, int k, int j, const Real& scale) {
    const Real pivot = S::load(scale_at(b, j, j) + k), v = S::load(b.column + j * S::lanes);
    const Real length = S::sqrt(pivot * pivot + v * v);
    const Real cosine = length / pivot, sine = v / pivot, back = S::splat(1.0) / cosine;
    S::store(scale_at(b, j, j) + k, scale * length);
    for (int i = j + 1; i < b.d; ++i) {
      double *const entry = scale_at(b, i, j) + k, *const rest = b.column + i * S::lanes;
      const Real fresh = (S::load(entry) + sine * S::load(rest)) * back;
      S::store(rest, cosine * S::load(rest) - sine * fresh);
      S::store(entry, scale * fresh);
    }
  }
};

template <class S> struct Diagonal {
  using Real = typename S::Real;

  static double constant(const ConjugatePosterior& b, int k, double weight) {
    double sum = 0;
    for (ptrdiff_t e = k; e < b.d * b.padded; e += b.padded)
      sum += 0.5 * log(b.kappa[e] / (b.kappa[e] + weight)) + log_gamma_ratio(1, b.nu[e], weight) -
             weight * (half_log_pi + log(b.scale[e]));
    return sum;
  }

  static MIXFOLD_INLINE Real log_density(const ConjugatePosterior& b, int k, double row_weight) {
    const Real weight = S::splat(row_weight);
    Real sum = S::zero();
    for (int j = 0; j < b.d; ++j) {
      const ptrdiff_t e = j * b.padded + k;
      const Real u = (S::splat(b.row[j]) - S::load(b.mean + e)) / S::load(b.scale + e);
      const Real square = u * u, kappa = S::load(b.kappa + e);
      S::store(b.square + e, square);
      const Real beta = kappa * weight / (kappa + weight);
      sum += (S::load(b.nu + e) + weight) * log_of_one_plus<S>(beta * square);
    }
    return S::splat(-0.5) * sum;
  }

  static MIXFOLD_INLINE int match(const ConjugatePosterior& b, int k, double weight) {
    auto floored = S::splat_integer(0);
    for (int j = 0; j < b.d; ++j) {
      const ptrdiff_t n = j * b.padded + k;
      const auto to = matched<S>(1, S::load(b.kappa + n), S::load(b.nu + n),
                                 S::load(b.square + n), S::load(b.responsibility + k), weight);
      const Real mean = S::load(b.mean + n), e = S::splat(b.row[j]) - mean;
      const Real old = S::load(b.scale + n);
      const Real fresh = S::sqrt(to.scale * (old * old + to.spread * e * e));
      S::store(b.scale + n, S::select(to.near, fresh, old));
      S::store(b.mean + n, mean + to.shift * e);
      S::store(b.kappa + n, to.kappa);
      S::store(b.nu + n, to.nu);
      floored = floored | to.floored;
    }
    return count_components<S>(b.components, k, floored);
  }
};

// A row adds its values to shapes and its weight to rates, or the other way round.
template <class S, bool Counts> struct Rates {
  static double shape_gain(const ConjugatePosterior& b, int j, double weight) {
    return Counts ? weight * b.row[j] : weight;
  }
  static double rate_gain(const ConjugatePosterior& b, int j, double weight) {
    return Counts ? weight : weight * b.row[j];
  }

  static double constant(const ConjugatePosterior& b, int k, double) {
    double sum = 0;
    for (ptrdiff_t e = k; e < b.d * b.padded; e += b.padded) sum += b.shape[e] * log(b.rate[e]);
    return sum;
  }

  static typename S::Real log_density(const ConjugatePosterior& b, int k, double weight) {
    double lane[S::lanes] = {};
    for (int j = 0; j < b.d; ++j) {
      const double more = shape_gain(b, j, weight), longer = rate_gain(b, j, weight);
      const double base = Counts ? weight * log_factorial(b.row[j]) : 0;
      for (int i = 0; i < S::lanes && k + i < b.components; ++i) {
        const ptrdiff_t e = j * b.padded + k + i;
        lane[i] += log_gamma_difference(b.shape[e], more) -
                   (b.shape[e] + more) * log(b.rate[e] + longer) - base;
      }
    }
    return S::load(lane);
  }

  static int match(const ConjugatePosterior& b, int k, double weight) {
    for (int j = 0; j < b.d; ++j)
      for (int i = 0; i < S::lanes && k + i < b.components; ++i) {
        const ptrdiff_t e = j * b.padded + k + i;
        const double c = b.responsibility[k + i];
        if (c < reach) continue;
        // in units of the mean, which may be very small or large
        const double shape = b.shape[e], more = shape + shape_gain(b, j, weight);
        const double after = more / shape * (b.rate[e] / (b.rate[e] + rate_gain(b, j, weight)));
        const double mean = c * after + (1 - c), gap = after - 1;
        const double spread = c * after * after / more + (1 - c) / shape;
        const double found = mean * mean / (spread + c * (1 - c) * gap * gap);
        b.shape[e] = found;
        b.rate[e] = found / mean * (b.rate[e] / shape);
      }
    return 0;
  }
};

// Log of the prior predictive probability that a row of this weight belongs to component k.
MIXFOLD_INLINE double log_prior_weight(const ConjugatePosterior& b, int k, double total,
                                       double weight) {
  if (weight == 1) return log(b.alpha[k] / total);
  return lgamma(b.alpha[k] + weight) - lgamma(b.alpha[k]) - lgamma(total + weight) + lgamma(total);
}

// The Dirichlet with the mean and the total variance of sum_k c_k Dir(alpha + weight e_k).
MIXFOLD_INLINE void match_weights(const ConjugatePosterior& b, double before, double weight) {
  const double total = before + weight, share = weight / total, rest = before / total;
  double within = 0, among = 0, old = 0, apart = 0;
  for (int k = 0; k < b.components; ++k) {
    const double c = b.responsibility[k], mean = (b.alpha[k] + weight * c) / total;
    const double other = 1 - b.alpha[k] / before;
    within += mean * (1 - mean);
    among += share * share * c * (1 - c);
    old += b.alpha[k] / before * other;
    apart += c * other;
  }
  if (!(within > 0)) {
    for (int k = 0; k < b.components; ++k) b.alpha[k] += weight * b.responsibility[k];
    return;
  }
  // within - among, which cancel where the row is heavy
  const double gap = rest * (rest * old + 2 * share * apart);
  const double scale = gap / (within + among * total);
  for (int k = 0; k < b.components; ++k) {
    const double alpha = (b.alpha[k] + weight * b.responsibility[k]) * scale;
    b.alpha[k] = alpha > least_alpha ? alpha : least_alpha;
  }
}

// Leaves the responsibilities in b.responsibility; returns the log density of the row.
template <class S, class Kind>
MIXFOLD_INLINE double predict(const ConjugatePosterior& b, double total, double weight) {
  auto peaks = S::splat(-1e300);
  for (int k = 0; k < b.components; k += S::lanes) {
    double known[S::lanes];
    for (int i = 0; i < S::lanes; ++i) {
      known[i] = b.mask[k + i];
      if (k + i < b.components)
        known[i] = log_prior_weight(b, k + i, total, weight) +
                   (weight == 1 ? b.constant[k + i] : Kind::constant(b, k + i, weight));
    }
    const auto log_joint = Kind::log_density(b, k, weight) + S::load(known);
    S::store(b.log_joint + k, log_joint);
    peaks = S::max(log_joint, peaks);
  }
  const double peak = S::largest(peaks);
  auto sums = S::zero();
  for (int k = 0; k < b.components; k += S::lanes) {
    const auto e = exp_nonpositive<S>(S::load(b.log_joint + k) - S::splat(peak), -708.0);
    S::store(b.responsibility + k, e);
    sums += e;
  }
  const double sum = S::sum(sums);
  for (int k = 0; k < b.components; k += S::lanes)
    S::store(b.responsibility + k, S::load(b.responsibility + k) / S::splat(sum));
  return peak + log(sum);
}

template <class S, class Kind>
long long match_rows(const ConjugatePosterior& b, const Rows& rows, const double* weights,
                     double& log_density) {
  long long n_degenerate = 0;
  for (int k = 0; k < b.components; ++k) b.constant[k] = Kind::constant(b, k, 1);
  for (int i = 0; i < rows.n; ++i) {
    const double weight = weights ? weights[i] : 1;
    if (weight == 0) continue;
    read_row(rows, i, b.row);
    double total = 0;
    for (int k = 0; k < b.components; ++k) total += b.alpha[k];
    log_density += predict<S, Kind>(b, total, weight);
    for (int k = 0; k < b.components; k += S::lanes) {
      if (!S::any(S::load(b.responsibility + k) > S::splat(0.5 * reach))) continue;
      n_degenerate += Kind::match(b, k, weight);
    }
    for (int k = 0; k < b.components; ++k)
      if (b.responsibility[k] >= reach) b.constant[k] = Kind::constant(b, k, 1);
    match_weights(b, total, weight);
  }
  return n_degenerate;
}

template <class S>
long long match_kind(const ConjugatePosterior& b, const Rows& rows, const double* weights,
                     double& log_density) {
  switch (b.kind) {
    case PosteriorKind::full: return match_rows<S, Full<S>>(b, rows, weights, log_density);
    case PosteriorKind::diagonal: return match_rows<S, Diagonal<S>>(b, rows, weights, log_density);
    case PosteriorKind::poisson:
      return match_rows<S, Rates<S, true>>(b, rows, weights, log_density);
    case PosteriorKind::exponential:
      return match_rows<S, Rates<S, false>>(b, rows, weights, log_density);
  }
  return 0;
}

}  // namespace

long long match(const ConjugatePosterior& b, const Rows& rows, const double* weights,
                double& log_density) {
  constexpr int widest = vector_bytes == 64 ? 8 : 4;
  return b.components <= 4 ? match_kind<Simd<double, 4>>(b, rows, weights, log_density)
                           : match_kind<Simd<double, widest>>(b, rows, weights, log_density);
}

}  // namespace mixfold::MIXFOLD_ISA
