#include "arguments.hpp"

#include <climits>
#include <stdexcept>

namespace mixfold {

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

Rows view_rows(const RowsArray& rows) {
  const bool single = rows.dtype() == nb::dtype<float>();
  if (!single && rows.dtype() != nb::dtype<double>())
    throw nb::type_error("rows must be float32 or float64");
  require(rows.shape(0) <= INT_MAX && rows.shape(1) <= INT_MAX, "too many rows in one call");
  return {rows.data(),         rows.stride(0),      rows.stride(1),
          int(rows.shape(0)), int(rows.shape(1)), single};
}

const double* view_weights(const Weights& weights, const Rows& rows) {
  if (!weights) return nullptr;
  require(weights->shape(0) == size_t(rows.n), "weights must have one entry per row");
  return weights->data();
}

NewArray new_array(std::initializer_list<size_t> shape) {
  size_t size = 1;
  for (size_t extent : shape) size *= extent;
  double* const data = new double[size]();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
  return {data, Result(data, shape, owner)};
}

Result exported(const ComponentLanes& lanes, const double* from, NewArray to) {
  lanes.export_array(from, to.data, int(to.array.size() / lanes.components));
  return to.array;
}

}  // namespace mixfold
