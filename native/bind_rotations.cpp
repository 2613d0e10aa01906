// Axes that are common to the covariances of all components.
#include <nanobind/stl/pair.h>

#include "arguments.hpp"
#include "bindings.hpp"
#include "rotations.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;

std::pair<double, Result> rotate(const Parameter<1>& weight, const Parameter<3>& covariance,
                                 const Parameter<2>& vectors, bool one_volume, int most_sweeps,
                                 double enough) {
  const int k = checked_components(weight.shape(0));
  const int d = checked_coordinates(vectors.shape(0), true);
  require_shape("covariance", covariance, k, d, d);
  require_shape("vectors", vectors, d, d);
  const NewArray axes = new_array({size_t(d), size_t(d)});
  std::copy_n(vectors.data(), vectors.size(), axes.data);
  const CommonAxes common{k, d, one_volume, weight.data(), covariance.data(), axes.data};
  nb::gil_scoped_release unlocked;
  const double loss = rotate_axes(common, most_sweeps, enough);
  return {loss, axes.array};
}

}  // namespace

void bind_rotations(nb::module_& m) {
  m.def("rotate_axes", &rotate, "weight"_a, "covariance"_a, "vectors"_a, "one_volume"_a,
        "most_sweeps"_a, "enough"_a);
}

}  // namespace mixfold
