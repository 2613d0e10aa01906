// Online EM, one row per update, compiled once per instruction set.
//
// A family offers: dimension(s); derive(s, k), the coefficients of its log density;
// log_joint(s, k); scatter(s, k, a, delta) and mix_scatter(s, k, t, delta), its second moments;
// maximize(s) and maximize_trial(s, trial, g), the parameters; log_base_measure(s); has_scatter and, where
// that is true, variance_index(j). Every step is written at one place of the loop over rows, so
// that a row meets the same instructions, hence the same rounding, however the rows were cut into
// calls.
#include <math.h>

#include "kernels.hpp"
#include "noise.hpp"
#include "online_gaussian.hpp"
#include "online_linear.hpp"
#include "read_row.hpp"
#include "softmax.hpp"

namespace mixfold::MIXFOLD_ISA {
namespace {

constexpr double least_weight = 1e-300;

struct Response {
  double log_density, total, peak;
};

// Leaves in s.mass the log joint densities and in s.joint what responsibilities are proportional
// to; returns the log density of the row, the sum of the latter and the largest of the former.
template <class S, class Family> MIXFOLD_INLINE Response respond_to_row(const OnlineState& s) {
  auto peaks = S::splat(Extremes<double>::least);
  for (int k = 0; k < s.components; k += S::lanes) {
    // Lanes past the last component start from minus infinity.
    const auto log_joint = Family::log_joint(s, k) + S::load(s.joint_mask + k);
    S::store(s.mass + k, log_joint);
    peaks = S::max(log_joint, peaks);
  }
  const double peak = S::largest(peaks);
  auto totals = S::zero();
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto e = exp_nonpositive<S>(S::load(s.mass + k) - S::splat(peak),
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
  return {peak + log_total + Family::log_base_measure(s), total, peak};
}

// (1 - decay) statistics + s.mass of the row. A mass may be negative; a weight may not. With
// `recursive` the step is taken in the mean parameters themselves, as if the weight had not changed
// yet; where it would pass the border of their domain, half the way to it. Returns how often.
template <class S, class Family, int D>
MIXFOLD_INLINE int move(const OnlineState& s, double decay, bool recursive) {
  const int d = Family::dimension(s);
  int cut = 0;
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto mass = S::load(s.mass + k), old = S::load(s.s_weight + k);
    const auto weight = S::max(old + (mass - S::splat(decay) * old), S::zero());
    const auto useful = (weight > S::zero()) & ((mass > S::zero()) | (S::zero() > mass));
    auto a = S::select(useful, mass / (recursive ? old : weight), S::zero());
    if (recursive) {
      const auto far = (a > S::splat(1 - 1e-12)) & (S::splat(1.0) > old) & useful;
      cut += count_components<S>(s.components, k, far);
      a = S::select(far, S::splat(0.5), a);
    }
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
  return cut;
}

// Move the statistics a step g towards the reference.
template <class S, class Family, int D>
MIXFOLD_INLINE void move_to_reference(const OnlineState& s, double g) {
  const int d = Family::dimension(s);
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto old = S::load(s.s_weight + k), other = S::load(s.c_weight + k);
    const auto weight = old + S::splat(g) * (other - old);
    const auto t = S::select(weight > S::zero(), S::splat(g) * other / weight, S::zero());
    S::store(s.s_weight + k, weight);
    Registers<S, D> delta(s.column, S::lanes);
    for (int j = 0; j < d; ++j) {
      double* const mean = s.s_mean + j * s.padded + k;
      delta.set(j, S::load(s.c_mean + j * s.padded + k) - S::load(mean));
      S::store(mean, S::load(mean) + t * delta.get(j));
    }
    Family::mix_scatter(s, k, t, delta);
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
      const double rounding = s.rounding * mean;
      s.floors[j] = larger(larger(s.floor * variance, rounding * rounding), s.lowest[j]);
    } else {
      s.floors[j] = larger(s.floor * mean, s.lowest[j]);
    }
  }
}

template <class S, class Family> MIXFOLD_INLINE int maximize(const OnlineState& s) {
  if (!s.keep_weights) maximize_weights<S>(s);
  set_floors<S, Family>(s);
  if constexpr (Family::has_scatter)
    for (int j = 0; j < Family::dimension(s); ++j)
      for (int k = 0; k < s.components; k += S::lanes)
        S::store(s.t_mean + j * s.padded + k, S::load(s.s_mean + j * s.padded + k));
  return Family::has_scatter && s.keep_scales ? 0 : Family::maximize(s);
}

template <class S> MIXFOLD_INLINE void normalize(const OnlineState& s, double total) {
  const auto scale = S::splat(1 / total);
  for (int k = 0; k < s.components; k += S::lanes)
    S::store(s.joint + k, S::load(s.joint + k) * scale);
}

// Where an assignment goes and what all of a row counts: into s.mass for a plain step at once.
struct Target {
  double *to, all;
};

template <class S>
MIXFOLD_INLINE void give_all_to(const OnlineState& s, double chosen, const Target& target) {
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto number = S::load(s.number + k);
    const auto is = (number > S::splat(chosen - 0.5)) & (S::splat(chosen + 0.5) > number);
    S::store(target.to + k, S::select(is, S::splat(target.all), S::zero()));
  }
}

// The number of the first component whose log joint density in s.mass is the largest.
template <class S> MIXFOLD_INLINE double first_largest(const OnlineState& s, double peak) {
  auto last = S::splat(-1e300);
  for (int k = 0; k < s.components; k += S::lanes) {
    const auto below = S::splat(peak) > S::load(s.mass + k);
    last = S::max(S::select(below, S::splat(-1e300), S::zero() - S::load(s.number + k)), last);
  }
  return -S::largest(last);
}

// As below, for components of one vector: lane k is chosen if its running sum has passed the limit,
// or it is the last, and that before it has not. Sums of up to four lanes are rounded so that none
// but the fourth can be below that before it, so one lane is chosen.
template <class S>
MIXFOLD_INLINE void give_all_to_drawn_of_four(const OnlineState& s, double limit_sum,
                                              const Target& target) {
  static_assert(S::lanes <= 4);
  const auto reached = S::running_sum(S::load(s.joint)), limit = S::splat(limit_sum);
  const auto first = S::select(S::move_up(reached) > limit, S::zero(), S::splat(target.all));
  const auto passed = S::max(reached, S::load(s.end)) > limit;
  S::store(target.to, S::select(passed, first, S::zero()));
}

// Gives all to the component in which the running sum of s.joint passes u times its total.
template <class S>
MIXFOLD_INLINE void give_all_to_drawn(const OnlineState& s, double u, const Target& target) {
  auto reached = S::zero();
  for (int k = 0; k < s.components; k += S::lanes) {
    reached = S::running_sum(S::load(s.joint + k)) + S::splat(reached[S::lanes - 1]);
    S::store(s.mass + k, reached);
  }
  const auto limit = S::splat(u * reached[S::lanes - 1]);
  int below = 0;
  for (int k = 0; k < s.components; k += S::lanes)
    below += S::lanes - S::count(S::load(s.mass + k) > limit);
  // sums of lanes may differ by their rounding from those of the lanes before
  give_all_to<S>(s, below < s.components ? below : s.components - 1, target);
}

// Every lane takes the row for itself alone: K M-steps are tried at the price of one.
template <class S, class Family, int D>
MIXFOLD_INLINE double largest_after(const OnlineState& s, const OnlineState& trial, double g) {
  const ptrdiff_t bytes = s.padded * ptrdiff_t(sizeof(double));
  memcpy(trial.s_weight, s.s_weight, bytes);
  memcpy(trial.s_mean, s.s_mean, bytes * s.d);
  memcpy(trial.s_scatter, s.s_scatter, bytes * s.scatter_size);
  memcpy(trial.row, s.row, s.d * sizeof(double));
  for (int k = 0; k < s.padded; ++k) trial.mass[k] = g;
  maximize_weights<S>(trial);
  set_floors<S, Family>(trial);
  Family::prepare_trial(trial);
  move<S, Family, D>(trial, g, false);
  for (int k = 0; k < s.padded; ++k)
    trial.t_weight[k] = trial.s_weight[k] > least_weight ? trial.s_weight[k] : least_weight;
  if constexpr (Family::has_scatter) memcpy(trial.t_mean, trial.s_mean, bytes * s.d);
  Family::maximize_trial(s, trial, g);
  auto peaks = S::splat(Extremes<double>::least);
  for (int k = 0; k < s.components; k += S::lanes) {
    Family::derive(trial, k);
    const auto log_joint = Family::log_joint(trial, k) + S::load(s.joint_mask + k);
    S::store(trial.mass + k, log_joint);
    peaks = S::max(log_joint, peaks);
  }
  return first_largest<S>(trial, S::largest(peaks));
}

// Turns what responsibilities are proportional to into what the row is taken for.
template <class S, class Family, int D>
MIXFOLD_INLINE void assign(const OnlineState& s, const OnlineState& trial,
                           const RowOptions& options, double g, double u,
                           const Response& response) {
  const bool plain = options.control == Control::none;
  const Target target{plain ? s.mass : s.joint, plain ? g : 1};
  switch (options.assign) {
    case Assign::expected: return normalize<S>(s, response.total);
    case Assign::mode: return give_all_to<S>(s, first_largest<S>(s, response.peak), target);
    case Assign::draw:
      if constexpr (S::lanes <= 4)
        if (s.components <= S::lanes)
          return give_all_to_drawn_of_four<S>(s, u * response.total, target);
      return give_all_to_drawn<S>(s, u, target);
    case Assign::lookahead:
      return give_all_to<S>(s, largest_after<S, Family, D>(s, trial, g), target);
  }
}

// Leaves in s.mass the step g of the row's change of responsibilities, and keeps the new ones.
template <class S>
MIXFOLD_INLINE void set_change(const OnlineState& s, const RowOptions& options, int i) {
  const double* const old = options.old + ptrdiff_t(i) * s.components;
  double* const fresh = options.fresh + ptrdiff_t(i) * s.components;
  for (int k = 0; k < s.components; ++k) {
    fresh[k] = options.narrow ? double(float(s.joint[k])) : s.joint[k];
    s.joint[k] = fresh[k] - old[k];
  }
}

template <class S> MIXFOLD_INLINE void set_mass(const OnlineState& s, double factor) {
  for (int k = 0; k < s.components; k += S::lanes)
    S::store(s.mass + k, S::splat(factor) * S::load(s.joint + k));
}

// One step of size g with the row's assignment; returns how often it was cut short.
template <class S, class Family, int D>
MIXFOLD_INLINE int step(const OnlineState& s, const RowOptions& options, int i, double g,
                        double weight) {
  if (options.control == Control::none) {
    if (options.assign == Assign::expected) set_mass<S>(s, g);
    return move<S, Family, D>(s, g, options.recursive);
  }
  set_change<S>(s, options, i);
  const bool incremental = options.control == Control::incremental;
  if (!incremental) move_to_reference<S, Family, D>(s, g);
  set_mass<S>(s, incremental ? weight * options.per_weight : g);
  return move<S, Family, D>(s, 0, false);
}

template <class S, class Family, int D>
void fold_rows(OnlineState& s, const OnlineState& trial, const RowOptions& options,
               const Rows& rows, const double* weights, const double* gamma, int hold,
               double& log_likelihood) {
  Noise noise(s.noise);
  int updates = 0;
  for (int i = 0; i < rows.n; ++i) {
    const double weight = weights ? weights[i] : 1.0;
    const double u = options.assign == Assign::draw ? noise.uniform() : 0;
    if (weight == 0) {
      for (int k = 0; k < s.components && options.fresh; ++k)
        options.fresh[ptrdiff_t(i) * s.components + k] =
            options.old[ptrdiff_t(i) * s.components + k];
      continue;
    }
    read_row(rows, i, s.row);
    if (s.stale)
      for (int k = 0; k < s.components; k += S::lanes) Family::derive(s, k);
    s.stale = false;
    const Response response = respond_to_row<S, Family>(s);
    log_likelihood += weight * response.log_density;
    const double g = gamma[updates++];
    assign<S, Family, D>(s, trial, options, g, u, response);
    s.n_degenerate += step<S, Family, D>(s, options, i, g, weight);
    if (i < hold) continue;
    s.n_degenerate += maximize<S, Family>(s);
    s.stale = true;
  }
  noise.save(s.noise);
}

// The coefficients stay as stale as they were, so that rows are learned as if none were evaluated.
template <class S, class Family, int D>
void evaluate_rows(const OnlineState& s, const Rows& rows, const Posterior& out) {
  if (s.stale)
    for (int k = 0; k < s.components; k += S::lanes) Family::derive(s, k);
  for (int i = 0; i < rows.n; ++i) {
    read_row(rows, i, s.row);
    const Response response = respond_to_row<S, Family>(s);
    out.log_density[i] = response.log_density;
    if (!out.responsibilities) continue;
    double* const to = out.responsibilities + ptrdiff_t(i) * s.components;
    for (int k = 0; k < s.components; ++k) to[k] = s.joint[k] / response.total;
  }
}

template <class S, int D> using Full = OnlineTriangular<S, D, false>;
template <class S, int D> using Tied = OnlineTriangular<S, D, true>;

// What is done with rows of a family whose dimension is known, or is not.
struct Functions {
  void (*fold)(OnlineState&, const OnlineState&, const RowOptions&, const Rows&, const double*,
               const double*, int, double&);
  void (*evaluate)(const OnlineState&, const Rows&, const Posterior&);
};

template <class S, class Family, int D> Functions functions_of() {
  return {fold_rows<S, Family, D>, evaluate_rows<S, Family, D>};
}

template <class S, template <class, int> class Family> Functions with_dimension(int d) {
  switch (d) {
    case 1: return functions_of<S, Family<S, 1>, 1>();
    case 2: return functions_of<S, Family<S, 2>, 2>();
    case 3: return functions_of<S, Family<S, 3>, 3>();
    case 4: return functions_of<S, Family<S, 4>, 4>();
    default: return functions_of<S, Family<S, 0>, 0>();
  }
}

template <class S> Functions with_kind(OnlineKind kind, int d) {
  switch (kind) {
    case OnlineKind::full: return with_dimension<S, Full>(d);
    case OnlineKind::tied: return with_dimension<S, Tied>(d);
    case OnlineKind::diag: return with_dimension<S, OnlineDiag>(d);
    case OnlineKind::spherical: return with_dimension<S, OnlineSpherical>(d);
    case OnlineKind::poisson: return with_dimension<S, OnlinePoisson>(d);
    case OnlineKind::exponential: return with_dimension<S, OnlineExponential>(d);
  }
  return {};
}

Functions functions_for(const OnlineState& s) {
  // Four lanes have shorter divisions and square roots than eight.
  constexpr int widest = vector_bytes == 64 ? 8 : 4;
  return s.components <= 4 ? with_kind<Simd<double, 4>>(s.kind, s.d)
                           : with_kind<Simd<double, widest>>(s.kind, s.d);
}

}  // namespace

void evaluate(const OnlineState& s, const Rows& rows, const Posterior& out) {
  functions_for(s).evaluate(s, rows, out);
}

void fold(OnlineState& s, const OnlineState& trial, const RowOptions& options, const Rows& rows,
          const double* weights, const double* gamma, int hold, double& log_likelihood) {
  functions_for(s).fold(s, trial, options, rows, weights, gamma, hold, log_likelihood);
}

}  // namespace mixfold::MIXFOLD_ISA
