// Online EM's families whose parameter is the mean. See online.cpp for what a family offers.
#pragma once

#include "log_factorial.hpp"
#include "online_lanes.hpp"
#include "simd_math.hpp"

namespace mixfold::MIXFOLD_ISA {

// Of a mean: the natural parameter and the log normaliser; of a row: its log base measure.
template <class S> struct PoissonForm {
  using Real = typename S::Real;
  static MIXFOLD_INLINE Real natural(const Real& mean) { return log_normal<S, double>(mean); }
  static MIXFOLD_INLINE Real log_normalizer(const Real& mean) { return mean; }
  static MIXFOLD_INLINE double log_base_measure(const double* row, int d) {
    double sum = 0;
    for (int j = 0; j < d; ++j) sum -= log_factorial(row[j]);
    return sum;
  }
};

template <class S> struct ExponentialForm {
  using Real = typename S::Real;
  static MIXFOLD_INLINE Real natural(const Real& mean) { return S::splat(-1.0) / mean; }
  static MIXFOLD_INLINE Real log_normalizer(const Real& mean) {
    return log_normal<S, double>(mean);
  }
  static MIXFOLD_INLINE double log_base_measure(const double*, int) { return 0; }
};

template <class S, int D, class Form> struct OnlineMean {
  using Real = typename S::Real;
  static constexpr bool has_scatter = false;
  static MIXFOLD_INLINE int dimension(const OnlineState& s) { return D ? D : s.d; }
  static MIXFOLD_INLINE double log_base_measure(const OnlineState& s) {
    return Form::log_base_measure(s.row, dimension(s));
  }

  static MIXFOLD_INLINE void derive(const OnlineState& s, int k) {
    Real scale = log_normal<S, double>(S::load(s.t_weight + k));
    for (int j = 0; j < dimension(s); ++j) {
      const Real mean = S::load(s.t_mean + j * s.padded + k);
      S::store(s.coefficients + j * s.padded + k, Form::natural(mean));
      scale -= Form::log_normalizer(mean);
    }
    S::store(s.log_scale + k, scale);
  }

  static MIXFOLD_INLINE Real log_joint(const OnlineState& s, int k) {
    Real sum = S::load(s.log_scale + k);
    for (int j = 0; j < dimension(s); ++j)
      sum += S::splat(s.row[j]) * S::load(s.coefficients + j * s.padded + k);
    return sum;
  }

  static MIXFOLD_INLINE void scatter(const OnlineState&, int, const Real&,
                                     const Registers<S, D>&) {}
  static MIXFOLD_INLINE void mix_scatter(const OnlineState&, int, const Real&,
                                         const Registers<S, D>&) {}

  static MIXFOLD_INLINE void prepare_trial(const OnlineState&) {}
  static MIXFOLD_INLINE void maximize_trial(const OnlineState&, const OnlineState& trial, double) {
    maximize(trial);
  }

  static MIXFOLD_INLINE int maximize(const OnlineState& s) {
    return raise_to_floors<S>(
        s, dimension(s), [&](ptrdiff_t e) { return S::load(s.s_mean + e); },
        [&](ptrdiff_t e, const Real& mean) { S::store(s.t_mean + e, mean); });
  }
};

template <class S, int D> using OnlinePoisson = OnlineMean<S, D, PoissonForm<S>>;
template <class S, int D> using OnlineExponential = OnlineMean<S, D, ExponentialForm<S>>;

}  // namespace mixfold::MIXFOLD_ISA
