// Expectations over blocks of rows: sums, posteriors, and sums under given responsibilities.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <string>

#include "arguments.hpp"
#include "bindings.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;
using Both = std::pair<Result, std::optional<Result>>;
using Responsibilities = Parameter<2>;

template <size_t N>
Gaussians gaussians(const Rows& rows, const Parameter<1>& origin, const Parameter<2>& means,
                    const Parameter<N>& whiten, const Parameter<1>& log_scale) {
  const int components = checked_components(means.shape(0));
  const int d = checked_coordinates(size_t(rows.d), N == 3);
  require_shape("means", means, components, d);
  require_shape("origin", origin, d);
  if constexpr (N == 3) require_shape("whiten", whiten, components, d, d);
  else require_shape("whiten", whiten, components, d);
  require_shape("log_scale", log_scale, components);
  return {components, d, origin.data(), means.data(), whiten.data(), log_scale.data()};
}

// Numbers per component in a result: its weight, first moments and second.
template <size_t N> size_t gaussian_moments(const Rows& rows) {
  const size_t d = size_t(rows.d);
  return 1 + d + (N == 3 ? d * (d + 1) / 2 : d);
}

LinearFamily linear_family(const Rows& rows, const Parameter<2>& eta, const Parameter<1>& offset,
                           bool poisson) {
  const int components = checked_components(eta.shape(0)), d = rows.d;
  require_shape("eta", eta, components, d);
  require_shape("offset", offset, components);
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

template <size_t N>
Result expect_gaussian(const RowsArray& array, const Weights& weights, const Parameter<1>& origin,
                       const Parameter<2>& means, const Parameter<N>& whiten,
                       const Parameter<1>& log_scale) {
  const Rows rows = view_rows(array);
  return expect(rows, weights, gaussians<N>(rows, origin, means, whiten, log_scale),
                gaussian_moments<N>(rows),
                N == 3 ? kernels().expect_triangular : kernels().expect_diagonal);
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
  std::optional<NewArray> found;
  if (responsibilities) found = new_array({n, size_t(parameters.components)});
  {
    nb::gil_scoped_release unlocked;
    kernel(rows, parameters, Posterior{log_density.data, found ? found->data : nullptr});
  }
  if (!found) return {log_density.array, std::nullopt};
  return {log_density.array, found->array};
}

template <size_t N>
Both posterior_gaussian(const RowsArray& array, const Parameter<1>& origin,
                        const Parameter<2>& means, const Parameter<N>& whiten,
                        const Parameter<1>& log_scale, bool responsibilities) {
  const Rows rows = view_rows(array);
  return posterior(rows, gaussians<N>(rows, origin, means, whiten, log_scale), responsibilities,
                   N == 3 ? kernels().posterior_triangular : kernels().posterior_diagonal);
}

Both posterior_linear(const RowsArray& array, const Parameter<2>& eta, const Parameter<1>& offset,
                      bool poisson, bool responsibilities) {
  const Rows rows = view_rows(array);
  return posterior(rows, linear_family(rows, eta, offset, poisson), responsibilities,
                   kernels().posterior_linear);
}

template <class Parameters, class Kernel>
Result moments(const Rows& rows, const Weights& weights, const Responsibilities& responsibilities,
               const Parameters& parameters, size_t per_component, Kernel kernel) {
  const double* const w = view_weights(weights, rows);
  require_shape("responsibilities", responsibilities, rows.n, parameters.components);
  NewArray result = new_array({1 + size_t(parameters.components) * per_component});
  nb::gil_scoped_release unlocked;
  kernel(rows, w, responsibilities.data(), parameters, result.data);
  return result.array;
}

template <size_t N>
Result moments_gaussian(const RowsArray& array, const Weights& weights,
                        const Responsibilities& responsibilities, const Parameter<1>& origin,
                        const Parameter<2>& means, const Parameter<N>& whiten,
                        const Parameter<1>& log_scale) {
  const Rows rows = view_rows(array);
  return moments(rows, weights, responsibilities,
                 gaussians<N>(rows, origin, means, whiten, log_scale), gaussian_moments<N>(rows),
                 N == 3 ? kernels().moments_triangular : kernels().moments_diagonal);
}

Result moments_linear(const RowsArray& array, const Weights& weights,
                      const Responsibilities& responsibilities, const Parameter<2>& eta,
                      const Parameter<1>& offset, bool poisson) {
  const Rows rows = view_rows(array);
  return moments(rows, weights, responsibilities, linear_family(rows, eta, offset, poisson),
                 1 + size_t(rows.d), kernels().moments_linear);
}

template <size_t N> void bind_gaussian(nb::module_& m, const std::string& kind) {
  m.def(("expect_" + kind).c_str(), &expect_gaussian<N>, "rows"_a, "weights"_a.none(), "origin"_a,
        "means"_a, "whiten"_a, "log_scale"_a);
  m.def(("posterior_" + kind).c_str(), &posterior_gaussian<N>, "rows"_a, "origin"_a, "means"_a,
        "whiten"_a, "log_scale"_a, "responsibilities"_a = true);
  m.def(("moments_" + kind).c_str(), &moments_gaussian<N>, "rows"_a, "weights"_a.none(),
        "responsibilities"_a, "origin"_a, "means"_a, "whiten"_a, "log_scale"_a);
}

}  // namespace

void bind_expectations(nb::module_& m) {
  bind_gaussian<3>(m, "triangular");
  bind_gaussian<2>(m, "diagonal");
  m.def("expect_linear", &expect_linear, "rows"_a, "weights"_a.none(), "eta"_a, "offset"_a,
        "poisson"_a);
  m.def("posterior_linear", &posterior_linear, "rows"_a, "eta"_a, "offset"_a, "poisson"_a,
        "responsibilities"_a = true);
  m.def("moments_linear", &moments_linear, "rows"_a, "weights"_a.none(), "responsibilities"_a,
        "eta"_a, "offset"_a, "poisson"_a);
}

}  // namespace mixfold
