#include "arguments.hpp"

#include <string>

namespace mixfold {
namespace {

template <class Iterator> std::string shape_text(Iterator begin, Iterator end) {
  std::string text = "(";
  for (Iterator i = begin; i != end; ++i)
    text += (i == begin ? "" : ", ") + std::to_string(*i);
  return text + (end - begin == 1 ? ",)" : ")");
}

int checked_count(const char* what, size_t count, size_t most) {
  if (count >= 1 && count <= most) return int(count);
  const std::string text = "there must be between 1 and " + std::to_string(most) + " " + what +
                           "; there are " + std::to_string(count);
  throw nb::value_error(text.c_str());
}

}  // namespace

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

Rows view_rows(const RowsArray& rows) {
  const bool single = rows.dtype() == nb::dtype<float>();
  if (!single && rows.dtype() != nb::dtype<double>())
    throw nb::type_error("rows must be float32 or float64");
  require(rows.shape(0) <= most_rows, "rows must be at most 2**30 in one call");
  const int d = checked_coordinates(rows.shape(1), false);
  return {rows.data(), rows.stride(0), rows.stride(1), int(rows.shape(0)), d, single};
}

const double* view_weights(const Weights& weights, const Rows& rows) {
  if (!weights) return nullptr;
  require_shape("weights", *weights, rows.n);
  return weights->data();
}

int checked_components(size_t components) {
  return checked_count("components", components, most_components);
}

int checked_coordinates(size_t coordinates, bool matrices) {
  return checked_count("coordinates", coordinates,
                       matrices ? most_coordinates_of_a_matrix : most_coordinates);
}

void refuse_shape(const char* name, const int64_t* shape, size_t dimensions,
                  std::initializer_list<size_t> wanted) {
  const std::string text = name + (" must have shape " + shape_text(wanted.begin(), wanted.end())) +
                           "; it has shape " + shape_text(shape, shape + dimensions);
  throw nb::value_error(text.c_str());
}

void require_size(const char* name, size_t size, size_t wanted) {
  if (size == wanted) return;
  const std::string text = name + (" must have " + std::to_string(wanted)) +
                           " entries; it has " + std::to_string(size);
  throw nb::value_error(text.c_str());
}

void require_above(const char* name, const AnyParameter& values, double bound) {
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values.data()[i];
    if (x > bound) continue;
    const std::string text = name + (" must be above " + std::to_string(bound)) +
                             "; one entry is " + std::to_string(x);
    throw nb::value_error(text.c_str());
  }
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
