// NumPy's arrays as the kernels can read them. NumPy offers arrays at any address and with strides
// of any number of bytes, for instance out of a file's bytes or a field of a record.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace mixfold {

inline bool is_aligned(const void* data, size_t size) {
  return reinterpret_cast<uintptr_t>(data) % size == 0;
}

// An argument of type `Array`, which is contiguous, in aligned memory: copied if it was not.
template <class Array> struct Aligned : Array {
  using Array::Array;
};

// A table at any address whose strides are whole numbers of entries: copied if they were not.
struct RowsArray : nanobind::ndarray<nanobind::ro, nanobind::ndim<2>, nanobind::device::cpu> {};

// The contents of a contiguous array in memory of their own; throws std::bad_alloc.
template <class Array> Array copied(const Array& array) {
  using Number = std::remove_const_t<typename Array::Scalar>;
  Number* const copy = new Number[array.size()];
  std::memcpy(copy, array.data(), array.size() * sizeof(Number));
  nanobind::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<Number*>(p); });
  const std::vector<size_t> shape(array.shape_ptr(), array.shape_ptr() + array.ndim());
  return Array(copy, shape.size(), shape.data(), owner);
}

}  // namespace mixfold

namespace nanobind::detail {

// Imports an array, or a copy of it where its strides are no whole numbers of entries.
template <class Array>
bool import_array(make_caster<Array>& to, handle source, uint32_t flags,
                  cleanup_list* cleanup) noexcept {
  if (to.from_python(source, flags, cleanup)) return true;
  if (!(flags & cast_flags::convert)) return false;
  try {
    if (!hasattr(source, "strides")) return false;
    const object copy = module_::import_("numpy").attr("ascontiguousarray")(source);
    return to.from_python(copy, flags, cleanup);
  } catch (const python_error&) {
    return false;
  }
}

template <class Array> struct type_caster<mixfold::Aligned<Array>> {
  NB_TYPE_CASTER(mixfold::Aligned<Array>, make_caster<Array>::Name)

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<Array> given;
    if (!import_array<Array>(given, source, flags, cleanup)) return false;
    Array& array = value;
    if (mixfold::is_aligned(given.value.data(), sizeof(typename Array::Scalar))) {
      array = std::move(given.value);
      return true;
    }
    try {
      array = mixfold::copied(given.value);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
};

template <> struct type_caster<mixfold::RowsArray> {
  using Array = ndarray<ro, ndim<2>, device::cpu>;
  NB_TYPE_CASTER(mixfold::RowsArray, make_caster<Array>::Name)

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<Array> given;
    if (!import_array<Array>(given, source, flags, cleanup)) return false;
    static_cast<Array&>(value) = std::move(given.value);
    return true;
  }
};

}  // namespace nanobind::detail
