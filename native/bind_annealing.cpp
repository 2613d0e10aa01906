// Annealed stochastic gradients.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <type_traits>

#include "annealing.hpp"
#include "arguments.hpp"
#include "bindings.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;

// Moves logits, means and roots in place; returns the smoothed loss, the first, and the sums of log
// densities and of losses.
template <class T>
std::tuple<double, double, double, double> anneal(
    const RowsArray& array, const Weights& weights, int batch_size, const Mutable<double>& logits,
    const Mutable<T>& means, const Mutable<T>& roots, const Parameter<2>& bumps, double epsilon,
    double least_root, double most_root, double loss, double first) {
  const Rows rows = view_rows(array);
  const bool triangular = roots.ndim() == 3;
  const int components = checked_components(bumps.shape(0));
  const int d = checked_coordinates(size_t(rows.d), triangular);
  const size_t entries = size_t(components) * size_t(d);
  require(batch_size > 0, "batch_size must be at least 1");
  require(triangular || roots.ndim() == 2, "roots must have 2 or 3 dimensions");
  require_shape("bumps", bumps, components, components);
  AnnealedMixture<T> m{components,
                       d,
                       triangular,
                       view_mutable("logits", logits, size_t(components)),
                       view_mutable("means", means, entries),
                       view_mutable("roots", roots, entries * size_t(triangular ? d : 1)),
                       bumps.data(),
                       epsilon,
                       least_root,
                       most_root,
                       loss,
                       first,
                       0,
                       0};
  const double* const w = view_weights(weights, rows);
  {
    nb::gil_scoped_release unlocked;
    if constexpr (std::is_same_v<T, float>) kernels().anneal_single(m, rows, w, batch_size);
    else kernels().anneal_double(m, rows, w, batch_size);
  }
  return {m.loss, m.first, m.log_density, m.bound};
}

template <class T> void bind_anneal(nb::module_& m, const char* name) {
  m.def(name, &anneal<T>, "rows"_a, "weights"_a.none(), "batch_size"_a,
        "logits"_a.noconvert(), "means"_a.noconvert(), "roots"_a.noconvert(), "bumps"_a,
        "epsilon"_a, "least_root"_a, "most_root"_a, "loss"_a, "first"_a);
}

}  // namespace

void bind_annealing(nb::module_& m) {
  bind_anneal<float>(m, "anneal_single");
  bind_anneal<double>(m, "anneal_double");
}

}  // namespace mixfold
