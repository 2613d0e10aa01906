// Annealed stochastic gradients, one row per step.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <type_traits>

#include "annealing.hpp"
#include "arguments.hpp"
#include "bindings.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;

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

template <class T> void bind_anneal(nb::module_& m, const char* name) {
  m.def(name, &anneal<T>, "rows"_a, "weights"_a.none(), "logits"_a, "means"_a, "roots"_a, "bumps"_a,
        "epsilon"_a, "least_root"_a, "most_root"_a, "loss"_a, "first"_a);
}

}  // namespace

void bind_annealing(nb::module_& m) {
  bind_anneal<float>(m, "anneal_single");
  bind_anneal<double>(m, "anneal_double");
}

}  // namespace mixfold
