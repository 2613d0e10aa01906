// Online EM, one row per update, compiled once per instruction set.
//
// A family offers: dimension(s); derive(s, k), the coefficients of its log density;
// log_joint(s, k); scatter(s, k, a, delta), its second moments; maximize(s), the parameters;
// log_base(s); has_scatter and, where that is true, variance_index(j).
// Every step is written at one place of the loop over rows, so that a row meets the same
// instructions, hence the same rounding, however the rows were cut into calls.
#include <math.h>

#include "kernels.hpp"
#include "online_gaussian.hpp"
#include "online_linear.hpp"
#include "softmax.hpp"

namespace mixfold::MIXFOLD_ISA {
namespace {

constexpr double least_weight = 1e-300, least_floor = 1e-300, epsilon = 0x1p-52;

// Leaves responsibilities in s.joint; returns the log density of the row.
template <class S, class Family> MIXFOLD_INLINE double respond_to_row(const OnlineState& s) {
  auto peaks = S::splat(Extremes<double>::least);
  for (int k = 0; k < s.components; k += S::lanes) {
    // Lanes past the last component start from minus infinity.
    const auto log_joint = Family::log_joint(s, k) + S::load(s.joint_mask + k);
    S::store(s.joint + k, log_joint);
    peaks = S::max(log_joint, peaks);
  }
  const double peak = S::largest(peaks);
  auto totals = S::zero();
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto e = exp_nonpositive<S>(S::load(s.joint + k) - S::splat(peak),
                                      Extremes<double>::smallest);
    S::store(s.joint + k, e);
    totals += e;
  }
  double total = S::sum(totals);
  double log_total = 0;
  if (total > 0) {
    log_total = log_normal<S, double>(S::splat(total))[0];
  } else {
    for (int k = 0; k < s.components; ++k) s.joint[k] = 1;
    total = s.components;
  }
  const auto scale = S::splat(1 / total);
  for (int k = 0; k < s.components; k += S::lanes)
    S::store(s.joint + k, S::load(s.joint + k) * scale);
  return peak + log_total + Family::log_base(s);
}

// Moves the statistics a step g towards the row.
template <class S, class Family, int D>
MIXFOLD_INLINE void move_towards(const OnlineState& s, double g) {
  const int d = Family::dimension(s);
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto r = S::load(s.joint + k), old_weight = S::load(s.s_weight + k);
    const auto weight = old_weight + S::splat(g) * (r - old_weight);
    const auto useful = (weight > S::zero()) & (r > S::zero());
    const auto a = S::select(useful, S::splat(g) * r / weight, S::zero());
    S::store(s.s_weight + k, weight);
    Registers<S, D> delta(s.column, S::lanes);
    MIXFOLD_UNROLL
    for (int j = 0; j < d; ++j) {
      double* const mean = s.s_mean + j * s.padded + k;
      delta.set(j, S::splat(s.row[j]) - S::load(mean));
      S::store(mean, S::load(mean) + a * delta.get(j));
    }
    Family::scatter(s, k, a, delta);
  }
}

template <class S> MIXFOLD_INLINE void maximize_weights(const OnlineState& s) {
  auto sums = S::zero();
  for (int k = 0; k < s.components; k += S::lanes)
    sums += S::max(S::load(s.s_weight + k), S::splat(least_weight));
  const auto total = S::splat(S::sum(sums));
  for (int k = 0; k < s.components; k += S::lanes)
    S::store(s.t_weight + k, S::max(S::load(s.s_weight + k), S::splat(least_weight)) / total);
}

template <class S> MIXFOLD_INLINE double overall_mean(const OnlineState& s, int j) {
  auto sums = S::zero();
  for (int k = 0; k < s.components; k += S::lanes)
    sums += S::load(s.t_weight + k) * S::load(s.s_mean + j * s.padded + k);
  return S::sum(sums);
}

template <class S, class Family>
MIXFOLD_INLINE double overall_variance(const OnlineState& s, int j, double mean) {
  auto sums = S::zero();
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto offset = S::load(s.s_mean + j * s.padded + k) - S::splat(mean);
    const auto within = S::load(s.s_scatter + Family::variance_index(j) * s.padded + k);
    sums += S::load(s.t_weight + k) * (within + offset * offset);
  }
  return S::sum(sums);
}

MIXFOLD_INLINE double larger(double a, double b) { return a > b ? a : b; }

template <class S, class Family> MIXFOLD_INLINE void set_floors(const OnlineState& s) {
  for (int j = 0; j < Family::dimension(s); ++j) {
    const double mean = overall_mean<S>(s, j);
    if constexpr (Family::has_scatter) {
      const double variance = overall_variance<S, Family>(s, j, mean);
      const double rounding = epsilon * mean;
      s.floors[j] = larger(larger(s.floor * variance, rounding * rounding), least_floor);
    } else {
      s.floors[j] = larger(s.floor * mean, least_floor);
    }
  }
}

template <class S, class Family> MIXFOLD_INLINE int maximize(const OnlineState& s) {
  maximize_weights<S>(s);
  set_floors<S, Family>(s);
  if constexpr (Family::has_scatter)
    for (int j = 0; j < Family::dimension(s); ++j)
      for (int k = 0; k < s.components; k += S::lanes)
        S::store(s.t_mean + j * s.padded + k, S::load(s.s_mean + j * s.padded + k));
  return Family::maximize(s);
}

// The step of a row of weight w is that of w rows of weight one.
MIXFOLD_INLINE double weighted_step(double gamma, double weight) {
  return weight == 1 ? gamma : -expm1(weight * log1p(-gamma));
}

template <class In> MIXFOLD_INLINE void read_row(const OnlineState& s, const Rows& rows, int i) {
  const In* const row = static_cast<const In*>(rows.data) + i * rows.row_stride;
  for (int j = 0; j < rows.d; ++j) s.row[j] = double(row[j * rows.column_stride]);
}

template <class S, class Family, int D>
double fold_rows(OnlineState& s, const Rows& rows, const double* weights, const double* gamma,
                 int hold) {
  double log_likelihood = 0;
  for (int i = 0; i < rows.n; ++i) {
    const double weight = weights ? weights[i] : 1.0;
    if (weight == 0) continue;
    if (rows.single_precision) read_row<float>(s, rows, i);
    else read_row<double>(s, rows, i);
    if (s.stale)
      for (int k = 0; k < s.components; k += S::lanes) Family::derive(s, k);
    s.stale = false;
    log_likelihood += weight * respond_to_row<S, Family>(s);
    move_towards<S, Family, D>(s, weighted_step(gamma[i], weight));
    if (i < hold) continue;
    s.degeneracies += maximize<S, Family>(s);
    s.stale = true;
  }
  return log_likelihood;
}

template <class S, int D> using Full = OnlineTriangular<S, D, false>;
template <class S, int D> using Tied = OnlineTriangular<S, D, true>;

using Fold = double (*)(OnlineState&, const Rows&, const double*, const double*, int);

template <class S, template <class, int> class Family> Fold with_dimension(int d) {
  switch (d) {
    case 1: return fold_rows<S, Family<S, 1>, 1>;
    case 2: return fold_rows<S, Family<S, 2>, 2>;
    case 3: return fold_rows<S, Family<S, 3>, 3>;
    case 4: return fold_rows<S, Family<S, 4>, 4>;
    default: return fold_rows<S, Family<S, 0>, 0>;
  }
}

template <class S> Fold with_kind(OnlineKind kind, int d) {
  switch (kind) {
    case OnlineKind::full: return with_dimension<S, Full>(d);
    case OnlineKind::tied: return with_dimension<S, Tied>(d);
    case OnlineKind::diag: return with_dimension<S, OnlineDiag>(d);
    case OnlineKind::spherical: return with_dimension<S, OnlineSpherical>(d);
    case OnlineKind::poisson: return with_dimension<S, OnlinePoisson>(d);
    case OnlineKind::exponential: return with_dimension<S, OnlineExponential>(d);
  }
  return nullptr;
}

}  // namespace

double fold(OnlineState& s, const Rows& rows, const double* weights, const double* gamma,
            int hold) {
  // Four lanes have shorter divisions and square roots than eight.
  constexpr int widest = vector_bytes == 64 ? 8 : 4;
  const Fold f = s.components <= 4 ? with_kind<Simd<double, 4>>(s.kind, s.d)
                                   : with_kind<Simd<double, widest>>(s.kind, s.d);
  return f(s, rows, weights, gamma, hold);
}

}  // namespace mixfold::MIXFOLD_ISA
