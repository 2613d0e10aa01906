// Online EM's Gaussian families. See online.cpp for what a family offers.
#pragma once

#include "online_lanes.hpp"
#include "simd_math.hpp"

namespace mixfold::MIXFOLD_ISA {

MIXFOLD_INLINE int packed(int i, int j) { return i * (i + 1) / 2 + j; }

// log_scale = log weight - sum of logs of the diagonal of the scale - d/2 log 2 pi. Diagonal
// entries lie within 1e-150 .. 1e150, so that the product of two has a logarithm: half as many to
// take.
template <class S, class Diagonal>
MIXFOLD_INLINE typename S::Real log_determinant(int d, Diagonal diagonal) {
  auto sum = S::zero();
  int j = 0;
  for (; j + 1 < d; j += 2) sum += log_normal<S, double>(diagonal(j) * diagonal(j + 1));
  if (j < d) sum += log_normal<S, double>(diagonal(j));
  return sum;
}

template <class S, class Diagonal>
MIXFOLD_INLINE void derive_scale(const OnlineState& s, int d, int k, Diagonal diagonal) {
  constexpr double half_log_2pi = 0.91893853320467274178;
  const auto log_weight = log_normal<S, double>(S::load(s.t_weight + k));
  S::store(s.log_scale + k,
           log_weight - log_determinant<S>(d, diagonal) - S::splat(d * half_log_2pi));
}

// Scales that are triangular: one per component, or one for all.
template <class S, int D, bool Tied> struct OnlineTriangular {
  using Real = typename S::Real;
  static constexpr int P = D * (D + 1) / 2;
  static MIXFOLD_INLINE int dimension(const OnlineState& s) { return D ? D : s.d; }
  static constexpr bool has_scatter = true;
  static MIXFOLD_INLINE double log_base_measure(const OnlineState&) { return 0; }
  static MIXFOLD_INLINE int variance_index(int j) { return packed(j, j); }

  static MIXFOLD_INLINE void derive(const OnlineState& s, int k) {
    const int d = dimension(s);
    const auto diagonal = [&](int j) { return S::load(s.t_scale + packed(j, j) * s.padded + k); };
    for (int j = 0; j < d; ++j)
      S::store(s.coefficients + j * s.padded + k, S::splat(1.0) / diagonal(j));
    derive_scale<S>(s, d, k, diagonal);
  }

  static MIXFOLD_INLINE Real log_joint(const OnlineState& s, int k) {
    const int d = dimension(s);
    Registers<S, D> y(s.column, S::lanes);
    Real square = S::zero();
    MIXFOLD_UNROLL
    for (int i = 0; i < d; ++i) {
      Real yi = S::splat(s.row[i]) - S::load(s.t_mean + i * s.padded + k);
      MIXFOLD_UNROLL
      for (int j = 0; j < i; ++j)
        yi -= S::load(s.t_scale + packed(i, j) * s.padded + k) * y.get(j);
      yi *= S::load(s.coefficients + i * s.padded + k);
      y.set(i, yi);
      square += yi * yi;
    }
    return S::load(s.log_scale + k) - S::splat(0.5) * square;
  }

  static MIXFOLD_INLINE void scatter(const OnlineState& s, int k, const Real& a,
                                     const Registers<S, D>& delta) {
    const int d = dimension(s);
    const Real keep = S::splat(1.0) - a;
    MIXFOLD_UNROLL
    for (int i = 0; i < d; ++i) {
      const Real step = a * delta.get(i);
      MIXFOLD_UNROLL
      for (int j = 0; j <= i; ++j) {
        double* const c = s.s_scatter + packed(i, j) * s.padded + k;
        S::store(c, keep * (S::load(c) + step * delta.get(j)));
      }
    }
  }

  // Adds t (1 - t) delta delta' of two sets of statistics that are mixed.
  static MIXFOLD_INLINE void mix_scatter(const OnlineState& s, int k, const Real& t,
                                         const Registers<S, D>& delta) {
    const int d = dimension(s);
    for (int i = 0; i < d; ++i)
      for (int j = 0; j <= i; ++j)
        mix_entry<S>(s, packed(i, j), k, t, delta.get(i) * delta.get(j));
  }

  static MIXFOLD_INLINE void prepare_trial(const OnlineState& trial) {
    if constexpr (Tied) pool(trial);
  }

  // The parameters of `trial`, in which every component has taken the row for itself alone: a
  // covariance that is shared changes in as many ways as there are components.
  static MIXFOLD_INLINE void maximize_trial(const OnlineState& s, const OnlineState& trial,
                                            double g) {
    for (int k = 0; k < s.components; k += S::lanes) {
      if constexpr (Tied) {
        const Real keep = S::splat(1 - g), after = S::load(trial.s_weight + k);
        for (int e = 0; e < packed(dimension(s), 0); ++e) {
          double* const c = trial.s_scatter + e * s.padded + k;
          const Real before = S::load(s.s_weight + k) * S::load(s.s_scatter + e * s.padded + k);
          const Real others = S::load(trial.pooled + e * S::lanes) - before;
          S::store(c, keep * others + after * S::load(c));
        }
      }
      factorise(trial, trial.s_scatter + k, s.padded, k);
    }
  }

  // Returns how many components were floored.
  static MIXFOLD_INLINE int maximize(const OnlineState& s) {
    if constexpr (Tied) {
      pool(s);
      const bool floored = S::any(factorise(s, s.pooled, S::lanes, 0));
      for (int e = 0; e < packed(dimension(s), 0); ++e)
        for (int k = S::lanes; k < s.components; k += S::lanes)
          S::store(s.t_scale + e * s.padded + k, S::load(s.t_scale + e * s.padded));
      return floored;
    } else {
      int floored = 0;
      for (int k = 0; k < s.components; k += S::lanes)
        floored += count_components<S>(s.components, k, factorise(s, s.s_scatter + k, s.padded, k));
      return floored;
    }
  }

 private:
  static MIXFOLD_INLINE void pool(const OnlineState& s) {
    for (int e = 0; e < packed(dimension(s), 0); ++e) {
      Real sum = S::zero();
      for (int k = 0; k < s.components; k += S::lanes)
        sum += S::load(s.t_weight + k) * S::load(s.s_scatter + e * s.padded + k);
      S::store(s.pooled + e * S::lanes, S::splat(S::sum(sum)));
    }
  }

  // The Cholesky factor of the covariance plus reg I, where a pivot at or below its floor becomes
  // the floor and its coordinate independent of the later ones. Returns the components floored.
  static MIXFOLD_INLINE typename S::Integers factorise(const OnlineState& s,
                                                       const double* covariance, ptrdiff_t stride,
                                                       int k) {
    const int d = dimension(s);
    Registers<S, P> tril(s.t_scale + k, s.padded);
    auto healthy_all = S::splat_integer(-1);
    MIXFOLD_UNROLL
    for (int j = 0; j < d; ++j) {
      Real pivot = S::load(covariance + packed(j, j) * stride) + S::splat(s.reg);
      MIXFOLD_UNROLL
      for (int c = 0; c < j; ++c) pivot -= tril.get(packed(j, c)) * tril.get(packed(j, c));
      const Real least = S::splat(s.floors[j]);
      const auto healthy = pivot > least;
      healthy_all = healthy_all & healthy;
      const Real root = S::sqrt(S::select(healthy, pivot, least));
      const Real reciprocal = S::splat(1.0) / root;
      tril.set(packed(j, j), root);
      MIXFOLD_UNROLL
      for (int i = j + 1; i < d; ++i) {
        Real rest = S::load(covariance + packed(i, j) * stride);
        MIXFOLD_UNROLL
        for (int c = 0; c < j; ++c) rest -= tril.get(packed(i, c)) * tril.get(packed(j, c));
        tril.set(packed(i, j), S::select(healthy, rest * reciprocal, S::zero()));
      }
    }
    if constexpr (D > 0)
      for (int e = 0; e < P; ++e) S::store(s.t_scale + e * s.padded + k, tril.get(e));
    return S::splat_integer(-1) - healthy_all;
  }
};

// One standard deviation per coordinate.
template <class S, int D> struct OnlineDiag {
  using Real = typename S::Real;
  static MIXFOLD_INLINE int dimension(const OnlineState& s) { return D ? D : s.d; }
  static constexpr bool has_scatter = true;
  static MIXFOLD_INLINE double log_base_measure(const OnlineState&) { return 0; }
  static MIXFOLD_INLINE int variance_index(int j) { return j; }

  static MIXFOLD_INLINE void derive(const OnlineState& s, int k) {
    const auto deviation = [&](int j) { return S::load(s.t_scale + j * s.padded + k); };
    for (int j = 0; j < dimension(s); ++j)
      S::store(s.coefficients + j * s.padded + k, S::splat(1.0) / deviation(j));
    derive_scale<S>(s, dimension(s), k, deviation);
  }

  static MIXFOLD_INLINE Real log_joint(const OnlineState& s, int k) {
    Real square = S::zero();
    for (int j = 0; j < dimension(s); ++j) {
      const Real y = (S::splat(s.row[j]) - S::load(s.t_mean + j * s.padded + k)) *
                     S::load(s.coefficients + j * s.padded + k);
      square += y * y;
    }
    return S::load(s.log_scale + k) - S::splat(0.5) * square;
  }

  static MIXFOLD_INLINE void scatter(const OnlineState& s, int k, const Real& a,
                                     const Registers<S, D>& delta) {
    const Real keep = S::splat(1.0) - a;
    for (int j = 0; j < dimension(s); ++j) {
      double* const c = s.s_scatter + j * s.padded + k;
      S::store(c, keep * (S::load(c) + a * delta.get(j) * delta.get(j)));
    }
  }

  static MIXFOLD_INLINE void mix_scatter(const OnlineState& s, int k, const Real& t,
                                         const Registers<S, D>& delta) {
    for (int j = 0; j < dimension(s); ++j)
      mix_entry<S>(s, j, k, t, delta.get(j) * delta.get(j));
  }

  static MIXFOLD_INLINE void prepare_trial(const OnlineState&) {}
  static MIXFOLD_INLINE void maximize_trial(const OnlineState&, const OnlineState& trial, double) {
    maximize(trial);
  }

  static MIXFOLD_INLINE int maximize(const OnlineState& s) {
    return raise_to_floors<S>(
        s, dimension(s),
        [&](ptrdiff_t e) {
          return S::max(S::load(s.s_scatter + e) + S::splat(s.reg), S::splat(s.least));
        },
        [&](ptrdiff_t e, const Real& variance) { S::store(s.t_scale + e, S::sqrt(variance)); });
  }
};

// One standard deviation per component.
template <class S, int D> struct OnlineSpherical : OnlineDiag<S, D> {
  using Real = typename S::Real;
  using OnlineDiag<S, D>::dimension;

  static MIXFOLD_INLINE void derive(const OnlineState& s, int k) {
    const Real deviation = S::load(s.t_scale + k), reciprocal = S::splat(1.0) / deviation;
    for (int j = 0; j < dimension(s); ++j)
      S::store(s.coefficients + j * s.padded + k, reciprocal);
    derive_scale<S>(s, dimension(s), k, [&](int) { return deviation; });
  }

  static MIXFOLD_INLINE void maximize_trial(const OnlineState&, const OnlineState& trial, double) {
    maximize(trial);
  }

  static MIXFOLD_INLINE int maximize(const OnlineState& s) {
    const int d = dimension(s);
    double floor_sum = 0;
    for (int j = 0; j < d; ++j) floor_sum += s.floors[j];
    const Real least = S::splat(floor_sum / d);
    int floored = 0;
    for (int k = 0; k < s.components; k += S::lanes) {
      Real sum = S::zero();
      for (int j = 0; j < d; ++j) sum += S::load(s.s_scatter + j * s.padded + k);
      const Real variance =
          S::max(sum / S::splat(double(d)) + S::splat(s.reg), S::splat(s.least));
      S::store(s.t_scale + k, S::sqrt(S::max(variance, least)));
      floored += count_components<S>(s.components, k, S::splat_integer(-1) - (variance > least));
    }
    return floored;
  }
};

}  // namespace mixfold::MIXFOLD_ISA
