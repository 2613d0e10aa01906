// The Python module mixfold._native.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "annealing.hpp"
#include "arguments.hpp"
#include "belief_arrays.hpp"
#include "online_mixture.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;
using Both = std::pair<Result, std::optional<Result>>;

template <class Whiten>
Gaussians gaussians(const Rows& rows, const Parameter<1>& origin, const Parameter<2>& means,
                    const Whiten& whiten, const Parameter<1>& log_scale) {
  const int components = int(means.shape(0)), d = rows.d;
  require(components > 0 && d > 0, "there must be a component and a coordinate");
  require(has_shape(means, components, d), "means must be components x coordinates");
  require(has_shape(origin, d), "origin must have one entry per coordinate");
  if constexpr (std::is_same_v<Whiten, Parameter<3>>)
    require(has_shape(whiten, components, d, d), "whiten must hold one matrix per component");
  else
    require(has_shape(whiten, components, d), "whiten must be components x coordinates");
  require(has_shape(log_scale, components), "log_scale must have one entry per component");
  return {components, d, origin.data(), means.data(), whiten.data(), log_scale.data()};
}

LinearFamily linear_family(const Rows& rows, const Parameter<2>& eta, const Parameter<1>& offset,
                           bool poisson) {
  const int components = int(eta.shape(0)), d = rows.d;
  require(components > 0 && d > 0, "there must be a component and a coordinate");
  require(has_shape(eta, components, d), "eta must be components x coordinates");
  require(has_shape(offset, components), "offset must have one entry per component");
  return {components, d, eta.data(), offset.data(), poisson};
}

template <class Parameters, class Kernel>
Result expect(const Rows& rows, const Weights& weights, const Parameters& parameters,
              size_t per_component, Kernel kernel) {
  const double* const w = view_weights(weights, rows);
  NewArray result = new_array({1 + size_t(parameters.components) * per_component});
  nb::gil_scoped_release unlocked;
  kernel(rows, w, parameters, result.data);
  return result.array;
}

Result expect_triangular(const RowsArray& array, const Weights& weights,
                         const Parameter<1>& origin, const Parameter<2>& means,
                         const Parameter<3>& whiten, const Parameter<1>& log_scale) {
  const Rows rows = view_rows(array);
  const size_t d = size_t(rows.d);
  return expect(rows, weights, gaussians(rows, origin, means, whiten, log_scale),
                1 + d + d * (d + 1) / 2, kernels().expect_triangular);
}

Result expect_diagonal(const RowsArray& array, const Weights& weights, const Parameter<1>& origin,
                       const Parameter<2>& means, const Parameter<2>& whiten,
                       const Parameter<1>& log_scale) {
  const Rows rows = view_rows(array);
  return expect(rows, weights, gaussians(rows, origin, means, whiten, log_scale),
                1 + 2 * size_t(rows.d), kernels().expect_diagonal);
}

Result expect_linear(const RowsArray& array, const Weights& weights, const Parameter<2>& eta,
                     const Parameter<1>& offset, bool poisson) {
  const Rows rows = view_rows(array);
  return expect(rows, weights, linear_family(rows, eta, offset, poisson), 1 + size_t(rows.d),
                kernels().expect_linear);
}

template <class Parameters, class Kernel>
Both posterior(const Rows& rows, const Parameters& parameters, bool responsibilities,
               Kernel kernel) {
  const size_t n = size_t(rows.n);
  NewArray log_density = new_array({n});
  std::optional<NewArray> shares;
  if (responsibilities) shares = new_array({n, size_t(parameters.components)});
  {
    nb::gil_scoped_release unlocked;
    kernel(rows, parameters, Posterior{log_density.data, shares ? shares->data : nullptr});
  }
  if (!shares) return {log_density.array, std::nullopt};
  return {log_density.array, shares->array};
}

Both posterior_triangular(const RowsArray& array, const Parameter<1>& origin,
                          const Parameter<2>& means, const Parameter<3>& whiten,
                          const Parameter<1>& log_scale, bool responsibilities) {
  const Rows rows = view_rows(array);
  return posterior(rows, gaussians(rows, origin, means, whiten, log_scale), responsibilities,
                   kernels().posterior_triangular);
}

Both posterior_diagonal(const RowsArray& array, const Parameter<1>& origin,
                        const Parameter<2>& means, const Parameter<2>& whiten,
                        const Parameter<1>& log_scale, bool responsibilities) {
  const Rows rows = view_rows(array);
  return posterior(rows, gaussians(rows, origin, means, whiten, log_scale), responsibilities,
                   kernels().posterior_diagonal);
}

Both posterior_linear(const RowsArray& array, const Parameter<2>& eta, const Parameter<1>& offset,
                      bool poisson, bool responsibilities) {
  const Rows rows = view_rows(array);
  return posterior(rows, linear_family(rows, eta, offset, poisson), responsibilities,
                   kernels().posterior_linear);
}

using Given = Parameter<2>;

template <class Parameters, class Kernel>
Result moments(const Rows& rows, const Weights& weights, const Given& responsibilities,
               const Parameters& parameters, size_t per_component, Kernel kernel) {
  const double* const w = view_weights(weights, rows);
  require(has_shape(responsibilities, rows.n, parameters.components),
          "responsibilities must be rows x components");
  NewArray result = new_array({1 + size_t(parameters.components) * per_component});
  nb::gil_scoped_release unlocked;
  kernel(rows, w, responsibilities.data(), parameters, result.data);
  return result.array;
}

Result moments_triangular(const RowsArray& array, const Weights& weights, const Given& given,
                          const Parameter<1>& origin, const Parameter<2>& means,
                          const Parameter<3>& whiten, const Parameter<1>& log_scale) {
  const Rows rows = view_rows(array);
  const size_t d = size_t(rows.d);
  return moments(rows, weights, given, gaussians(rows, origin, means, whiten, log_scale),
                 1 + d + d * (d + 1) / 2, kernels().moments_triangular);
}

Result moments_diagonal(const RowsArray& array, const Weights& weights, const Given& given,
                        const Parameter<1>& origin, const Parameter<2>& means,
                        const Parameter<2>& whiten, const Parameter<1>& log_scale) {
  const Rows rows = view_rows(array);
  return moments(rows, weights, given, gaussians(rows, origin, means, whiten, log_scale),
                 1 + 2 * size_t(rows.d), kernels().moments_diagonal);
}

Result moments_linear(const RowsArray& array, const Weights& weights, const Given& given,
                      const Parameter<2>& eta, const Parameter<1>& offset, bool poisson) {
  const Rows rows = view_rows(array);
  return moments(rows, weights, given, linear_family(rows, eta, offset, poisson),
                 1 + size_t(rows.d), kernels().moments_linear);
}

using AnyFactor = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

void construct_online(OnlineMixture* self, const std::string& name, const Parameter<1>& s_weight,
                      const Parameter<2>& s_mean, const Parameter<2>& s_scatter,
                      const Parameter<1>& t_weight, const Parameter<2>& t_mean,
                      const AnyFactor& t_factor, double floor, double reg, bool keep_weights,
                      bool keep_factors) {
  const OnlineKind kind = online_kind(name);
  const int components = int(s_mean.shape(0)), d = int(s_mean.shape(1));
  require(components > 0 && d > 0, "there must be a component and a coordinate");
  const bool square = kind == OnlineKind::full || kind == OnlineKind::tied;
  const size_t matrices = kind == OnlineKind::tied ? 1 : size_t(components);
  require(has_shape(s_weight, components) && has_shape(t_weight, components) &&
              has_shape(t_mean, components, d) &&
              has_shape(s_scatter, components, scatter_size(kind, d)),
          "the statistics and parameters disagree about components or coordinates");
  require(t_factor.size() == matrices * (square ? size_t(d) * d : size_t(factor_size(kind, d))),
          "t_factor has the wrong size");
  auto* const mixture = new (self) OnlineMixture(kind, components, d, floor, reg);
  mixture->state().keep_weights = keep_weights;
  mixture->state().keep_factors = keep_factors;
  const OnlineState& s = mixture->state();
  mixture->import_array(s.s_weight, s_weight.data(), 1);
  mixture->import_array(s.s_mean, s_mean.data(), d);
  mixture->import_array(s.s_scatter, s_scatter.data(), s.scatter_size);
  mixture->import_array(s.t_weight, t_weight.data(), 1);
  mixture->import_array(s.t_mean, t_mean.data(), d);
  mixture->import_factor(t_factor.data());
}

void set_reference(OnlineMixture& mixture, const Parameter<1>& weight, const Parameter<2>& mean,
                   const Parameter<2>& scatter) {
  const OnlineState& s = mixture.state();
  require(has_shape(weight, s.components) && has_shape(mean, s.components, s.d) &&
              has_shape(scatter, s.components, s.scatter_size),
          "the reference disagrees about components or coordinates");
  mixture.import_array(s.c_weight, weight.data(), 1);
  mixture.import_array(s.c_mean, mean.data(), s.d);
  mixture.import_array(s.c_scatter, scatter.data(), s.scatter_size);
}

void set_noise(OnlineMixture& mixture, const std::array<uint64_t, 4>& words) {
  std::copy(words.begin(), words.end(), mixture.state().noise);
}

std::tuple<double, long long, std::optional<Result>> fold(
    OnlineMixture& mixture, const RowsArray& array, const Weights& weights,
    const Parameter<1>& gamma, int hold, int assign, int control, bool recursive, bool narrow,
    double share, const std::optional<Given>& old,
    double log_likelihood) {
  const Rows rows = view_rows(array);
  OnlineState& s = mixture.state();
  const double* const w = view_weights(weights, rows);
  require(rows.d == s.d, "rows have the wrong number of coordinates");
  require(has_shape(gamma, rows.n), "gamma must have one entry per row");
  require(Control(control) == Control::none || (old && has_shape(*old, rows.n, s.components)),
          "old must be rows x components");
  std::optional<NewArray> fresh;
  if (Control(control) != Control::none)
    fresh = new_array({size_t(rows.n), size_t(s.components)});
  const RowRule rule{Assign(assign),
                     Control(control),
                     recursive,
                     narrow,
                     share,
                     old ? old->data() : nullptr,
                     fresh ? fresh->data : nullptr};
  {
    nb::gil_scoped_release unlocked;
    s.degeneracies = 0;
    kernels().fold(s, mixture.trial(), rule, rows, w, gamma.data(), hold, log_likelihood);
  }
  if (!fresh) return {log_likelihood, s.degeneracies, std::nullopt};
  return {log_likelihood, s.degeneracies, fresh->array};
}

Result copied(const OnlineMixture& mixture, const double* from,
              std::initializer_list<size_t> shape, int entries) {
  NewArray copy = new_array(shape);
  mixture.export_array(from, copy.data, entries);
  return copy.array;
}

std::tuple<Result, Result, Result, Result, Result, Result> state(const OnlineMixture& mixture) {
  const OnlineState& s = mixture.state();
  const size_t components = size_t(s.components), d = size_t(s.d);
  const bool square = s.kind == OnlineKind::full || s.kind == OnlineKind::tied;
  NewArray factor = square ? new_array({s.kind == OnlineKind::tied ? 1 : components, d, d})
                           : new_array({components, size_t(s.factor_size)});
  mixture.export_factor(factor.data);
  return {copied(mixture, s.s_weight, {components}, 1),
          copied(mixture, s.s_mean, {components, d}, s.d),
          copied(mixture, s.s_scatter, {components, size_t(s.scatter_size)}, s.scatter_size),
          copied(mixture, s.t_weight, {components}, 1),
          copied(mixture, s.t_mean, {components, d}, s.d),
          factor.array};
}

Result taken(const BeliefArrays& beliefs, const double* from, NewArray to) {
  beliefs.get(from, to.data, int(to.array.size() / beliefs.view().components));
  return to.array;
}

// Learns rows; returns their log density as it was foreseen, and repairs.
std::pair<double, long long> learn(const BeliefArrays& beliefs, const Rows& rows,
                                   const Weights& weights) {
  const double* const w = view_weights(weights, rows);
  double log_density = 0;
  nb::gil_scoped_release unlocked;
  const long long repairs = kernels().match(beliefs.view(), rows, w, log_density);
  return {log_density, repairs};
}

using Counts = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

std::tuple<Result, Result, Result, Result, Result, double, long long> match_gaussian(
    const RowsArray& array, const Weights& weights, const Parameter<1>& alpha,
    const Parameter<2>& mean, const Counts& kappa, const Counts& nu, const AnyFactor& factor) {
  const Rows rows = view_rows(array);
  const int components = int(mean.shape(0)), d = rows.d;
  const size_t k = size_t(components), columns = size_t(d);
  const bool diagonal = factor.ndim() == 2;
  require(has_shape(alpha, components) && has_shape(mean, components, d), "beliefs and rows differ");
  require(factor.size() == k * columns * (diagonal ? 1 : columns), "factor has the wrong size");
  require(kappa.size() == (diagonal ? k * columns : k) && nu.size() == kappa.size(),
          "kappa or nu has the wrong size");
  const BeliefArrays beliefs(diagonal ? BeliefKind::diagonal : BeliefKind::full, components, d);
  const Beliefs& b = beliefs.view();
  const int each = diagonal ? d : 1;
  beliefs.put(b.alpha, alpha.data(), 1);
  beliefs.put(b.mean, mean.data(), d);
  beliefs.put(b.kappa, kappa.data(), each);
  beliefs.put(b.nu, nu.data(), each);
  beliefs.put_factor(factor.data());
  const auto [log_density, repairs] = learn(beliefs, rows, weights);
  const auto counts = [&] { return diagonal ? new_array({k, columns}) : new_array({k}); };
  NewArray roots = diagonal ? new_array({k, columns}) : new_array({k, columns, columns});
  beliefs.get_factor(roots.data);
  return {taken(beliefs, b.alpha, new_array({k})),
          taken(beliefs, b.mean, new_array({k, columns})),
          taken(beliefs, b.kappa, counts()),
          taken(beliefs, b.nu, counts()),
          roots.array,
          log_density,
          repairs};
}

std::tuple<Result, Result, Result, double> match_rates(const RowsArray& array,
                                                       const Weights& weights,
                                                       const Parameter<1>& alpha,
                                                       const Parameter<2>& shape,
                                                       const Parameter<2>& rate, bool poisson) {
  const Rows rows = view_rows(array);
  const int components = int(shape.shape(0)), d = rows.d;
  require(has_shape(alpha, components) && has_shape(shape, components, d) &&
              has_shape(rate, components, d),
          "beliefs and rows differ");
  const BeliefArrays beliefs(poisson ? BeliefKind::poisson : BeliefKind::exponential, components,
                             d);
  const Beliefs& b = beliefs.view();
  beliefs.put(b.alpha, alpha.data(), 1);
  beliefs.put(b.shape, shape.data(), d);
  beliefs.put(b.rate, rate.data(), d);
  const double log_density = learn(beliefs, rows, weights).first;
  const size_t k = size_t(components), columns = size_t(d);
  return {taken(beliefs, b.alpha, new_array({k})), taken(beliefs, b.shape, new_array({k, columns})),
          taken(beliefs, b.rate, new_array({k, columns})), log_density};
}

template <class T> using Mutable = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

// Moves logits, means and roots in place; returns the smoothed loss, the first and the sum.
template <class T>
std::tuple<double, double, double> anneal(const RowsArray& array, const Weights& weights,
                                          const Mutable<double>& logits, const Mutable<T>& means,
                                          const Mutable<T>& roots, const Parameter<2>& bumps,
                                          double epsilon, double least_root, double most_root,
                                          double loss, double first) {
  const Rows rows = view_rows(array);
  const int components = int(bumps.shape(0));
  const size_t entries = size_t(components) * size_t(rows.d);
  require(has_shape(bumps, components, components) && logits.size() == size_t(components) &&
              means.size() == entries && roots.size() == entries,
          "the mixture and the rows differ");
  AnnealedMixture<T> m{components,   rows.d,       logits.data(), means.data(),
                       roots.data(), bumps.data(), epsilon,       least_root,
                       most_root,    loss,         first,         0};
  const double* const w = view_weights(weights, rows);
  {
    nb::gil_scoped_release unlocked;
    if constexpr (std::is_same_v<T, float>) kernels().anneal_single(m, rows, w);
    else kernels().anneal_double(m, rows, w);
  }
  return {m.loss, m.first, m.total};
}

}  // namespace
}  // namespace mixfold

NB_MODULE(_native, m) {
  using namespace mixfold;
  m.def("isa", &isa_name);
  m.def("expect_triangular", &expect_triangular, "rows"_a, "weights"_a.none(), "origin"_a,
        "means"_a, "whiten"_a, "log_scale"_a);
  m.def("expect_diagonal", &expect_diagonal, "rows"_a, "weights"_a.none(), "origin"_a, "means"_a,
        "whiten"_a, "log_scale"_a);
  m.def("expect_linear", &expect_linear, "rows"_a, "weights"_a.none(), "eta"_a, "offset"_a,
        "poisson"_a);
  m.def("posterior_triangular", &posterior_triangular, "rows"_a, "origin"_a, "means"_a, "whiten"_a,
        "log_scale"_a, "responsibilities"_a = true);
  m.def("posterior_diagonal", &posterior_diagonal, "rows"_a, "origin"_a, "means"_a, "whiten"_a,
        "log_scale"_a, "responsibilities"_a = true);
  m.def("posterior_linear", &posterior_linear, "rows"_a, "eta"_a, "offset"_a, "poisson"_a,
        "responsibilities"_a = true);
  m.def("moments_triangular", &moments_triangular, "rows"_a, "weights"_a.none(),
        "responsibilities"_a, "origin"_a, "means"_a, "whiten"_a, "log_scale"_a);
  m.def("moments_diagonal", &moments_diagonal, "rows"_a, "weights"_a.none(), "responsibilities"_a,
        "origin"_a, "means"_a, "whiten"_a, "log_scale"_a);
  m.def("moments_linear", &moments_linear, "rows"_a, "weights"_a.none(), "responsibilities"_a,
        "eta"_a, "offset"_a, "poisson"_a);
  m.def("match_gaussian", &match_gaussian, "rows"_a, "weights"_a.none(), "alpha"_a, "mean"_a,
        "kappa"_a, "nu"_a, "factor"_a);
  m.def("match_rates", &match_rates, "rows"_a, "weights"_a.none(), "alpha"_a, "shape"_a, "rate"_a,
        "poisson"_a);
  m.def("anneal_single", &anneal<float>, "rows"_a, "weights"_a.none(), "logits"_a, "means"_a,
        "roots"_a, "bumps"_a, "epsilon"_a, "least_root"_a, "most_root"_a, "loss"_a, "first"_a);
  m.def("anneal_double", &anneal<double>, "rows"_a, "weights"_a.none(), "logits"_a, "means"_a,
        "roots"_a, "bumps"_a, "epsilon"_a, "least_root"_a, "most_root"_a, "loss"_a, "first"_a);
  nb::class_<OnlineMixture>(m, "OnlineMixture")
      .def("__init__", &construct_online, "kind"_a, "s_weight"_a, "s_mean"_a, "s_scatter"_a,
           "t_weight"_a, "t_mean"_a, "t_factor"_a, "floor"_a, "reg"_a, "keep_weights"_a,
           "keep_factors"_a)
      .def("fold", &fold, "rows"_a, "weights"_a.none(), "gamma"_a, "hold"_a, "assign"_a,
           "control"_a, "recursive"_a, "narrow"_a, "share"_a, "old"_a.none(),
           "log_likelihood"_a)
      .def("state", &state)
      .def("set_noise", &set_noise, "words"_a)
      .def("set_reference", &set_reference, "weight"_a, "mean"_a, "scatter"_a);
}
