// Arrays whose numbers lie at addresses that are multiples of their size: others are copied.
//
// NumPy offers arrays at any address, for instance out of a file's bytes or a field of a record.
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

// An argument of type `Array`, which is contiguous, in aligned memory.
template <class Array> struct Aligned : Array {
  using Array::Array;
};

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

template <class Array> struct type_caster<mixfold::Aligned<Array>> {
  NB_TYPE_CASTER(mixfold::Aligned<Array>, make_caster<Array>::Name)

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<Array> given;
    if (!given.from_python(source, flags, cleanup)) return false;
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

}  // namespace nanobind::detail
