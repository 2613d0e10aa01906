// NumPy arrays to and from the kernels' plain views, checked.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <optional>
#include <string>

#include "array_casters.hpp"
#include "component_lanes.hpp"
#include "kernels.hpp"

namespace mixfold {

namespace nb = nanobind;

template <size_t N>
using Parameter = Aligned<nb::ndarray<const double, nb::ndim<N>, nb::c_contig, nb::device::cpu>>;
using AnyParameter = Aligned<nb::ndarray<const double, nb::c_contig, nb::device::cpu>>;
using Weights = std::optional<Parameter<1>>;
using Result = nb::ndarray<nb::numpy, double>;

// Raises ValueError unless the condition holds.
void require(bool condition, const char* message);

// Kernels count in ints: these bounds keep every index that they compute within them.
inline constexpr size_t most_rows = size_t(1) << 30, most_components = size_t(1) << 24,
                        most_coordinates = size_t(1) << 24, most_coordinates_of_a_matrix = 46340;

Rows view_rows(const RowsArray& rows);
const double* view_weights(const Weights& weights, const Rows& rows);

// The number of components or of coordinates, as long as it is one that kernels can count to.
int checked_components(size_t components);
int checked_coordinates(size_t coordinates, bool matrices);

[[noreturn]] void refuse_shape(const char* name, const int64_t* shape, size_t dimensions,
                               std::initializer_list<size_t> wanted);

template <class Array, class... Extent>
void require_shape(const char* name, const Array& a, Extent... extent) {
  const std::initializer_list<size_t> wanted{size_t(extent)...};
  const bool fits = a.ndim() == wanted.size() &&
                    std::equal(wanted.begin(), wanted.end(), a.shape_ptr(),
                               [](size_t w, int64_t given) { return w == size_t(given); });
  if (!fits) refuse_shape(name, a.shape_ptr(), a.ndim(), wanted);
}

// For arrays whose shape says nothing more: the number of their entries.
void require_size(const char* name, size_t size, size_t wanted);

// What is changed in place cannot be copied into aligned memory first.
template <class T> using Mutable = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T> T* view_mutable(const char* name, const Mutable<T>& array, size_t size) {
  require_size(name, array.size(), size);
  if (!is_aligned(array.data(), sizeof(T)))
    throw nb::value_error((name + std::string(" must be aligned in memory")).c_str());
  return array.data();
}

// Every entry is above the bound; none is NaN.
void require_above(const char* name, const AnyParameter& values, double bound);

// An array of zeros and the memory it owns.
struct NewArray {
  double* data;
  Result array;
};
NewArray new_array(std::initializer_list<size_t> shape);

// The new array, filled with one whose components lie along the lanes.
Result exported(const ComponentLanes& lanes, const double* from, NewArray to);

}  // namespace mixfold
