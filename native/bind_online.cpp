// Online EM, one row per update.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "arguments.hpp"
#include "bindings.hpp"
#include "online_mixture.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;

void construct_online(OnlineMixture* self, const std::string& name, const Parameter<1>& s_weight,
                      const Parameter<2>& s_mean, const Parameter<2>& s_scatter,
                      const Parameter<1>& t_weight, const Parameter<2>& t_mean,
                      const AnyParameter& t_scale, double floor, double reg, double least,
                      double rounding, const Parameter<1>& lowest, bool keep_weights,
                      bool keep_scales) {
  const OnlineKind kind = online_kind(name);
  const int components = checked_components(s_mean.shape(0));
  const int d = checked_coordinates(s_mean.shape(1), triangular(kind));
  const size_t entries = triangular(kind) ? size_t(d) * d : size_t(scale_size(kind, d));
  require_shape("s_weight", s_weight, components);
  require_shape("s_scatter", s_scatter, components, scatter_size(kind, d));
  require_shape("t_weight", t_weight, components);
  require_shape("t_mean", t_mean, components, d);
  require_size("t_scale", t_scale.size(), size_t(matrices(kind, components)) * entries);
  require_shape("lowest", lowest, d);
  require(least == 0 || !triangular(kind), "least must be 0 where covariances are matrices");
  auto* const mixture =
      new (self) OnlineMixture(kind, components, d, floor, reg, least, rounding, lowest.data());
  mixture->state().keep_weights = keep_weights;
  mixture->state().keep_scales = keep_scales;
  const OnlineState& s = mixture->state();
  const ComponentLanes& lanes = mixture->lanes();
  lanes.import_array(s.s_weight, s_weight.data(), 1);
  lanes.import_array(s.s_mean, s_mean.data(), d);
  lanes.import_array(s.s_scatter, s_scatter.data(), s.scatter_size);
  lanes.import_array(s.t_weight, t_weight.data(), 1);
  lanes.import_array(s.t_mean, t_mean.data(), d);
  mixture->import_scale(t_scale.data());
}

void set_reference(OnlineMixture& mixture, const Parameter<1>& weight, const Parameter<2>& mean,
                   const Parameter<2>& scatter) {
  const OnlineState& s = mixture.state();
  require_shape("weight", weight, s.components);
  require_shape("mean", mean, s.components, s.d);
  require_shape("scatter", scatter, s.components, s.scatter_size);
  const ComponentLanes& lanes = mixture.lanes();
  lanes.import_array(s.c_weight, weight.data(), 1);
  lanes.import_array(s.c_mean, mean.data(), s.d);
  lanes.import_array(s.c_scatter, scatter.data(), s.scatter_size);
}

void set_noise(OnlineMixture& mixture, const std::array<uint64_t, 4>& words) {
  std::copy(words.begin(), words.end(), mixture.state().noise);
}

std::tuple<double, long long, std::optional<Result>> fold(
    OnlineMixture& mixture, const RowsArray& array, const Weights& weights,
    const Parameter<1>& gamma, int hold, Assign assign, Control control, bool recursive,
    bool narrow, double per_weight, const std::optional<Parameter<2>>& old, double log_likelihood) {
  const Rows rows = view_rows(array);
  OnlineState& s = mixture.state();
  const double* const w = view_weights(weights, rows);
  require_shape("rows", array, rows.n, s.d);
  require_shape("gamma", gamma, rows.n);
  std::optional<NewArray> fresh;
  if (control != Control::none) {
    require(old.has_value(), "old must be given unless control is none");
    require_shape("old", *old, rows.n, s.components);
    fresh = new_array({size_t(rows.n), size_t(s.components)});
  }
  const RowOptions options{assign,
                     control,
                     recursive,
                     narrow,
                     per_weight,
                     old ? old->data() : nullptr,
                     fresh ? fresh->data : nullptr};
  {
    nb::gil_scoped_release unlocked;
    s.n_degenerate = 0;
    kernels().fold(s, mixture.trial(), options, rows, w, gamma.data(), hold, log_likelihood);
    mixture.rows += rows.n;
    mixture.n_degenerate += s.n_degenerate;
  }
  if (!fresh) return {log_likelihood, s.n_degenerate, std::nullopt};
  return {log_likelihood, s.n_degenerate, fresh->array};
}

// The log density of every row under the parameters as they are, and its responsibilities.
std::pair<Result, std::optional<Result>> evaluate(const OnlineMixture& mixture,
                                                  const RowsArray& array, bool responsibilities) {
  const Rows rows = view_rows(array);
  const OnlineState& s = mixture.state();
  require_shape("rows", array, rows.n, s.d);
  NewArray log_density = new_array({size_t(rows.n)});
  std::optional<NewArray> found;
  if (responsibilities) found = new_array({size_t(rows.n), size_t(s.components)});
  {
    nb::gil_scoped_release unlocked;
    kernels().evaluate(s, rows, Posterior{log_density.data, found ? found->data : nullptr});
  }
  if (!found) return {log_density.array, std::nullopt};
  return {log_density.array, found->array};
}

std::tuple<Result, Result, Result, Result, Result, Result> state(const OnlineMixture& mixture) {
  const OnlineState& s = mixture.state();
  const ComponentLanes& lanes = mixture.lanes();
  const size_t components = size_t(s.components), d = size_t(s.d);
  NewArray scale = triangular(s.kind)
                        ? new_array({size_t(matrices(s.kind, s.components)), d, d})
                        : new_array({components, size_t(s.scale_size)});
  mixture.export_scale(scale.data);
  return {exported(lanes, s.s_weight, new_array({components})),
          exported(lanes, s.s_mean, new_array({components, d})),
          exported(lanes, s.s_scatter, new_array({components, size_t(s.scatter_size)})),
          exported(lanes, s.t_weight, new_array({components})),
          exported(lanes, s.t_mean, new_array({components, d})),
          scale.array};
}

}  // namespace

void bind_online(nb::module_& m) {
  nb::enum_<Assign>(m, "Assign")
      .value("expected", Assign::expected)
      .value("mode", Assign::mode)
      .value("lookahead", Assign::lookahead)
      .value("draw", Assign::draw);
  nb::enum_<Control>(m, "Control")
      .value("none", Control::none)
      .value("incremental", Control::incremental)
      .value("anchored", Control::anchored);
  nb::class_<OnlineMixture>(m, "OnlineMixture")
      .def("__init__", &construct_online, "kind"_a, "s_weight"_a, "s_mean"_a, "s_scatter"_a,
           "t_weight"_a, "t_mean"_a, "t_scale"_a, "floor"_a, "reg"_a, "least"_a,
           "rounding"_a, "lowest"_a, "keep_weights"_a, "keep_scales"_a)
      .def("fold", &fold, "rows"_a, "weights"_a.none(), "gamma"_a, "hold"_a, "assign"_a,
           "control"_a, "recursive"_a, "narrow"_a, "per_weight"_a, "old"_a.none(),
           "log_likelihood"_a)
      .def("evaluate", &evaluate, "rows"_a, "responsibilities"_a)
      .def("state", &state)
      .def_ro("rows", &OnlineMixture::rows)
      .def_ro("n_degenerate", &OnlineMixture::n_degenerate)
      .def("set_noise", &set_noise, "words"_a)
      .def("set_reference", &set_reference, "weight"_a, "mean"_a, "scatter"_a);
}

}  // namespace mixfold
