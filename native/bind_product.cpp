// Expectations of products of factors.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <vector>

#include "arguments.hpp"
#include "bindings.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;
using Both = std::pair<Result, std::optional<Result>>;
using PerRow = std::optional<Parameter<2>>;
using Description =
    Aligned<nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>>;

// Columns of a description of factors, of which each has a row.
enum { kind_at, column_at, size_at, missing_at, factorial_at, description_width };

int64_t checked(const char* message, int64_t value, int64_t least, int64_t most) {
  require(value >= least && value <= most, message);
  return value;
}

// A product, and the memory of its factors.
struct OwnedProduct {
  ProductFamily view;
  std::vector<Factor> factors;
};

Factor factor(const int64_t* given, int d) {
  Factor f;
  f.kind = FactorKind(checked("the kind of a factor must be 0, 1 or 2", given[kind_at], 0, 2));
  const int64_t most = f.kind == FactorKind::normal ? 1 : int64_t(most_coordinates);
  f.size = int(checked("a factor has too many or too few terms", given[size_at], 1, most));
  const int width = f.kind == FactorKind::linear ? f.size : 1;
  f.column = int(checked("the columns of a factor must be columns of the rows", given[column_at],
                         0, int64_t(d) - width));
  f.missing = checked("missing must be 0 or 1", given[missing_at], 0, 1);
  f.factorial = checked("factorial must be 0 or 1", given[factorial_at], 0, 1);
  require(!f.factorial || f.kind == FactorKind::linear, "only linear factors have factorials");
  return f;
}

size_t n_parameters(const Factor& f) {
  if (f.kind == FactorKind::normal) return 3;
  return size_t(f.size) + (f.kind == FactorKind::linear ? 1 : 0);
}

size_t n_sums(const Factor& f) {
  return f.kind == FactorKind::normal ? 3 : 1 + size_t(f.size);
}

// `d` is how many columns the description is made for: a wider table is an error too.
OwnedProduct product(const Rows& rows, const Parameter<1>& log_weights,
                     const Description& description, const Parameter<2>& parameters, int64_t d) {
  const int components = checked_components(log_weights.shape(0));
  require(rows.d == d, "rows must have d columns");
  const size_t count = description.shape(0);
  checked("there are too many factors", int64_t(count), 0, int64_t(most_coordinates));
  require_shape("factors", description, count, description_width);
  OwnedProduct found{{}, {}};
  size_t parameter = 0, place = 1;
  for (size_t i = 0; i < count; ++i) {
    Factor f = factor(description.data() + i * description_width, rows.d);
    f.parameter = ptrdiff_t(parameter);
    f.place = ptrdiff_t(place);
    parameter += n_parameters(f);
    place += n_sums(f);
    require(parameter <= parameters.shape(1), "parameters has too few columns");
    found.factors.push_back(f);
  }
  require_shape("parameters", parameters, components, parameter);
  found.view = {components,       rows.d,         int(count),          found.factors.data(),
                ptrdiff_t(parameter), ptrdiff_t(place), log_weights.data(), parameters.data(),
                nullptr,          nullptr};
  return found;
}

const double* view_more(const PerRow& more, const Rows& rows, const ProductFamily& family) {
  if (!more) return nullptr;
  require_shape("more", *more, rows.n, family.components);
  return more->data();
}

size_t result_size(const ProductFamily& family) {
  return 1 + size_t(family.components) * size_t(family.n_sums);
}

Both expect_product(const RowsArray& array, const Weights& weights, const PerRow& more,
                    const Parameter<1>& log_weights, const Description& factors,
                    const Parameter<2>& parameters, int64_t d, bool responsibilities) {
  const Rows rows = view_rows(array);
  OwnedProduct owned = product(rows, log_weights, factors, parameters, d);
  ProductFamily& family = owned.view;
  family.more = view_more(more, rows, family);
  const double* const w = view_weights(weights, rows);
  NewArray result = new_array({result_size(family)});
  std::optional<NewArray> found;
  if (responsibilities) found = new_array({size_t(rows.n), size_t(family.components)});
  family.responsibilities = found ? found->data : nullptr;
  {
    nb::gil_scoped_release unlocked;
    kernels().expect_product(rows, w, family, result.data);
  }
  if (!found) return {result.array, std::nullopt};
  return {result.array, found->array};
}

Both posterior_product(const RowsArray& array, const PerRow& more, const Parameter<1>& log_weights,
                       const Description& factors, const Parameter<2>& parameters, int64_t d,
                       bool responsibilities) {
  const Rows rows = view_rows(array);
  OwnedProduct owned = product(rows, log_weights, factors, parameters, d);
  owned.view.more = view_more(more, rows, owned.view);
  NewArray log_density = new_array({size_t(rows.n)});
  std::optional<NewArray> found;
  if (responsibilities) found = new_array({size_t(rows.n), size_t(owned.view.components)});
  {
    nb::gil_scoped_release unlocked;
    kernels().posterior_product(rows, owned.view,
                                Posterior{log_density.data, found ? found->data : nullptr});
  }
  if (!found) return {log_density.array, std::nullopt};
  return {log_density.array, found->array};
}

Result moments_product(const RowsArray& array, const Weights& weights,
                       const Parameter<2>& responsibilities, const Parameter<1>& log_weights,
                       const Description& factors, const Parameter<2>& parameters, int64_t d) {
  const Rows rows = view_rows(array);
  const OwnedProduct owned = product(rows, log_weights, factors, parameters, d);
  const double* const w = view_weights(weights, rows);
  require_shape("responsibilities", responsibilities, rows.n, owned.view.components);
  NewArray result = new_array({result_size(owned.view)});
  nb::gil_scoped_release unlocked;
  kernels().moments_product(rows, w, responsibilities.data(), owned.view, result.data);
  return result.array;
}

}  // namespace

void bind_product(nb::module_& m) {
  m.def("expect_product", &expect_product, "rows"_a, "weights"_a.none(), "more"_a.none(),
        "log_weights"_a, "factors"_a, "parameters"_a, "d"_a, "responsibilities"_a = false);
  m.def("posterior_product", &posterior_product, "rows"_a, "more"_a.none(), "log_weights"_a,
        "factors"_a, "parameters"_a, "d"_a, "responsibilities"_a = true);
  m.def("moments_product", &moments_product, "rows"_a, "weights"_a.none(), "responsibilities"_a,
        "log_weights"_a, "factors"_a, "parameters"_a, "d"_a);
}

}  // namespace mixfold
