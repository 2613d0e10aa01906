// Bayesian moment matching, one row per update.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "arguments.hpp"
#include "posterior_arrays.hpp"
#include "bindings.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;

// Learns rows; returns their predictive log density and the number of degenerate components.
std::pair<double, long long> learn(const PosteriorArrays& posterior, const Rows& rows,
                                   const Weights& weights) {
  const double* const w = view_weights(weights, rows);
  double log_density = 0;
  nb::gil_scoped_release unlocked;
  const long long n_degenerate = kernels().match(posterior.view(), rows, w, log_density);
  return {log_density, n_degenerate};
}

std::tuple<Result, Result, Result, Result, Result, double, long long> match_gaussian(
    const RowsArray& array, const Weights& weights, const Parameter<1>& alpha,
    const Parameter<2>& mean, const AnyParameter& kappa, const AnyParameter& nu,
    const AnyParameter& scale) {
  const Rows rows = view_rows(array);
  const bool diagonal = scale.ndim() == 2;
  const int components = checked_components(mean.shape(0));
  const int d = checked_coordinates(size_t(rows.d), !diagonal);
  const size_t k = size_t(components), columns = size_t(d);
  require_shape("alpha", alpha, components);
  require_shape("mean", mean, components, d);
  if (diagonal) require_shape("scale", scale, components, d);
  else require_shape("scale", scale, components, d, d);
  require_size("kappa", kappa.size(), diagonal ? k * columns : k);
  require_size("nu", nu.size(), kappa.size());
  require_above("nu", nu, diagonal ? 0 : d - 1);
  const PosteriorArrays posterior(diagonal ? PosteriorKind::diagonal : PosteriorKind::full,
                                  components, d);
  const ConjugatePosterior& b = posterior.view();
  const ComponentLanes& lanes = posterior.lanes();
  const int each = diagonal ? d : 1;
  lanes.import_array(b.alpha, alpha.data(), 1);
  lanes.import_array(b.mean, mean.data(), d);
  lanes.import_array(b.kappa, kappa.data(), each);
  lanes.import_array(b.nu, nu.data(), each);
  posterior.import_scale(scale.data());
  const auto [log_density, n_degenerate] = learn(posterior, rows, weights);
  const auto counts = [&] { return diagonal ? new_array({k, columns}) : new_array({k}); };
  NewArray roots = diagonal ? new_array({k, columns}) : new_array({k, columns, columns});
  posterior.export_scale(roots.data);
  return {exported(lanes, b.alpha, new_array({k})),
          exported(lanes, b.mean, new_array({k, columns})),
          exported(lanes, b.kappa, counts()),
          exported(lanes, b.nu, counts()),
          roots.array,
          log_density,
          n_degenerate};
}

std::tuple<Result, Result, Result, double> match_rates(const RowsArray& array,
                                                       const Weights& weights,
                                                       const Parameter<1>& alpha,
                                                       const Parameter<2>& shape,
                                                       const Parameter<2>& rate, bool poisson) {
  const Rows rows = view_rows(array);
  const int components = checked_components(shape.shape(0)), d = rows.d;
  require_shape("alpha", alpha, components);
  require_shape("shape", shape, components, d);
  require_shape("rate", rate, components, d);
  const PosteriorArrays posterior(poisson ? PosteriorKind::poisson : PosteriorKind::exponential,
                                  components, d);
  const ConjugatePosterior& b = posterior.view();
  const ComponentLanes& lanes = posterior.lanes();
  lanes.import_array(b.alpha, alpha.data(), 1);
  lanes.import_array(b.shape, shape.data(), d);
  lanes.import_array(b.rate, rate.data(), d);
  const double log_density = learn(posterior, rows, weights).first;
  const size_t k = size_t(components), columns = size_t(d);
  return {exported(lanes, b.alpha, new_array({k})),
          exported(lanes, b.shape, new_array({k, columns})),
          exported(lanes, b.rate, new_array({k, columns})),
          log_density};
}

}  // namespace

void bind_posterior(nb::module_& m) {
  m.def("match_gaussian", &match_gaussian, "rows"_a, "weights"_a.none(), "alpha"_a, "mean"_a,
        "kappa"_a, "nu"_a, "scale"_a);
  m.def("match_rates", &match_rates, "rows"_a, "weights"_a.none(), "alpha"_a, "shape"_a, "rate"_a,
        "poisson"_a);
}

}  // namespace mixfold
