// Online EM's families whose parameter is the mean. See online.cpp for what a family offers.
#pragma once

#include "log_factorial.hpp"
#include "online_lanes.hpp"
#include "simd_math.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class S, int D> struct OnlineMean {
  using Real = typename S::Real;
  static constexpr bool has_scatter = false;
  static MIXFOLD_INLINE int dimension(const OnlineState& s) { return D ? D : s.d; }

  static MIXFOLD_INLINE Real log_joint(const OnlineState& s, int k) {
    Real sum = S::load(s.log_scale + k);
    for (int j = 0; j < dimension(s); ++j)
      sum += S::splat(s.row[j]) * S::load(s.coefficients + j * s.padded + k);
    return sum;
  }

  static MIXFOLD_INLINE void scatter(const OnlineState&, double*, int, const Real&,
                                     const Registers<S, D>&) {}
  static MIXFOLD_INLINE void mix_scatter(const OnlineState&, int, const Real&,
                                         const Registers<S, D>&) {}

  static MIXFOLD_INLINE void prepare_trial(const OnlineState&) {}
  static MIXFOLD_INLINE void maximize_trial(const OnlineState&, const OnlineState& trial, double) {
    maximize(trial);
  }

  static MIXFOLD_INLINE int maximize(const OnlineState& s) {
    int floored = 0;
    for (int k = 0; k < s.components; k += S::lanes) {
      auto healthy_all = S::splat_integer(-1);
      for (int j = 0; j < dimension(s); ++j) {
        const Real mean = S::load(s.s_mean + j * s.padded + k), least = S::splat(s.floors[j]);
        healthy_all = healthy_all & (mean > least);
        S::store(s.t_mean + j * s.padded + k, S::max(mean, least));
      }
      floored += count_components<S>(s, k, S::splat_integer(-1) - healthy_all);
    }
    return floored;
  }
};

template <class S, int D> struct OnlinePoisson : OnlineMean<S, D> {
  using Real = typename S::Real;
  using OnlineMean<S, D>::dimension;

  static MIXFOLD_INLINE void derive(const OnlineState& s, int k) {
    Real scale = log_normal<S, double>(S::load(s.t_weight + k));
    for (int j = 0; j < dimension(s); ++j) {
      const Real mean = S::load(s.t_mean + j * s.padded + k);
      S::store(s.coefficients + j * s.padded + k, log_normal<S, double>(mean));
      scale -= mean;
    }
    S::store(s.log_scale + k, scale);
  }

  static MIXFOLD_INLINE double log_base(const OnlineState& s) {
    double sum = 0;
    for (int j = 0; j < dimension(s); ++j) sum -= log_factorial(s.row[j]);
    return sum;
  }
};

template <class S, int D> struct OnlineExponential : OnlineMean<S, D> {
  using Real = typename S::Real;
  using OnlineMean<S, D>::dimension;

  static MIXFOLD_INLINE void derive(const OnlineState& s, int k) {
    Real scale = log_normal<S, double>(S::load(s.t_weight + k));
    for (int j = 0; j < dimension(s); ++j) {
      const Real mean = S::load(s.t_mean + j * s.padded + k);
      S::store(s.coefficients + j * s.padded + k, S::splat(-1.0) / mean);
      scale -= log_normal<S, double>(mean);
    }
    S::store(s.log_scale + k, scale);
  }

  static MIXFOLD_INLINE double log_base(const OnlineState&) { return 0; }
};

}  // namespace mixfold::MIXFOLD_ISA
