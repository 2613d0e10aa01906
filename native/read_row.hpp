// One row of numbers of either precision, any strides and any address, as a kernel's own type.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace mixfold::MIXFOLD_ISA {

template <class In, class T> MIXFOLD_INLINE void convert_row(const Rows& rows, int i, T* x) {
  const In* const row = static_cast<const In*>(rows.data) + i * rows.row_stride;
  for (int j = 0; j < rows.d; ++j) x[j] = T(load_number(row + j * rows.column_stride));
}

template <class T> MIXFOLD_INLINE void read_row(const Rows& rows, int i, T* x) {
  if (rows.single_precision) convert_row<float>(rows, i, x);
  else convert_row<double>(rows, i, x);
}

}  // namespace mixfold::MIXFOLD_ISA
