// NumPy arrays to and from the kernels' plain views, checked.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>

#include "component_lanes.hpp"
#include "kernels.hpp"

namespace mixfold {

namespace nb = nanobind;

using RowsArray = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
template <size_t N>
using Parameter = nb::ndarray<const double, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
using AnyParameter = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Weights = std::optional<Parameter<1>>;
using Result = nb::ndarray<nb::numpy, double>;

void require(bool condition, const char* message);

Rows view_rows(const RowsArray& rows);
const double* view_weights(const Weights& weights, const Rows& rows);

template <class... Extent> bool has_shape(const Parameter<sizeof...(Extent)>& a, Extent... extent) {
  size_t axis = 0;
  return ((a.shape(axis++) == size_t(extent)) && ...);
}

// An array of zeros and the memory it owns.
struct NewArray {
  double* data;
  Result array;
};
NewArray new_array(std::initializer_list<size_t> shape);

// The new array, filled with one whose components lie along the lanes.
Result exported(const ComponentLanes& lanes, const double* from, NewArray to);

}  // namespace mixfold
