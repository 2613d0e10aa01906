// A search for the components of each row, and sums of rows by component.
#include <nanobind/stl/string.h>

#include <string>

#include "arguments.hpp"
#include "bindings.hpp"
#include "candidates.hpp"

namespace mixfold {
namespace {

using namespace nb::literals;

template <size_t N>
using Integers = Aligned<nb::ndarray<const int, nb::ndim<N>, nb::c_contig, nb::device::cpu>>;

CandidateForm form_called(const std::string& name) {
  if (name == "diagonal") return CandidateForm::diagonal;
  if (name == "triangular") return CandidateForm::triangular;
  require(name == "linear", "form must be 'diagonal', 'triangular' or 'linear'");
  return CandidateForm::linear;
}

CandidateComponents components_of(const Rows& rows, const std::string& form,
                                  const Parameter<2>& packed, const Parameter<1>& log_scale) {
  const CandidateForm kind = form_called(form);
  const int d = checked_coordinates(size_t(rows.d), kind == CandidateForm::triangular);
  const int components = checked_components(log_scale.shape(0));
  require_shape("packed", packed, components, candidate_length(kind, d));
  return {kind, components, d, packed.data(), log_scale.data()};
}

// Raises ValueError unless `last` + 1 offsets rise from 0 to `most`.
void require_rising(const char* name, const Integers<1>& offsets, int last, size_t most) {
  const int* const o = offsets.data();
  bool rising = o[0] == 0 && size_t(o[last]) == most;
  for (int i = 0; rising && i < last; ++i) rising = o[i] <= o[i + 1];
  if (!rising) throw nb::value_error((name + std::string(" must rise from 0 to the number of members")).c_str());
}

void search(const RowsArray& array, const std::string& form, const Parameter<2>& packed,
            const Parameter<1>& log_scale, const Integers<1>& offsets, const Integers<1>& members,
            const Integers<2>& neighbours, const Integers<2>& start, const Integers<2>& listed,
            int steps, const Mutable<int>& numbers, const Mutable<double>& joint) {
  const Rows rows = view_rows(array);
  const CandidateComponents c = components_of(rows, form, packed, log_scale);
  require(numbers.ndim() == 2 && numbers.shape(1) >= 1, "numbers must have a column");
  const size_t n = size_t(rows.n), kept = numbers.shape(1);
  require(offsets.shape(0) >= 1, "offsets must have an entry");
  const int given = int(start.shape(1)), lists_of_row = int(listed.shape(1));
  const int count = int(offsets.shape(0)) - 1;
  require_shape("start", start, n, size_t(given));
  require_shape("listed", listed, n, size_t(lists_of_row));
  require_rising("offsets", offsets, count, members.shape(0));
  require_shape("neighbours", neighbours, c.components, neighbours.shape(1));
  const CandidateLists lists{count, int(neighbours.shape(1)), offsets.data(), members.data(),
                             neighbours.data()};
  const CandidateSearch s{given, lists_of_row, int(kept), steps, start.data(), listed.data(),
                          view_mutable("numbers", numbers, n * kept),
                          view_mutable("joint", joint, n * kept)};
  nb::gil_scoped_release unlocked;
  kernels().search_candidates(rows, c, lists, s);
}

void add(const RowsArray& array, const std::string& form, const Parameter<2>& packed,
         const Parameter<1>& log_scale, const Integers<1>& offsets, const Integers<1>& members,
         const Parameter<1>& weights, int first, int last, const Mutable<double>& table) {
  const Rows rows = view_rows(array);
  const CandidateComponents c = components_of(rows, form, packed, log_scale);
  require_shape("offsets", offsets, size_t(c.components) + 1);
  require_shape("weights", weights, members.shape(0));
  require(0 <= first && first <= last && last <= c.components,
          "first and last must be numbers of components, in order");
  require_rising("offsets", offsets, c.components, members.shape(0));
  double* const sums =
      view_mutable("table", table, size_t(c.components) * size_t(candidate_sums(c.form, c.d)));
  const CandidateRows by_component{first, last, offsets.data(), members.data(), weights.data()};
  nb::gil_scoped_release unlocked;
  kernels().add_candidates(rows, c, by_component, sums);
}

}  // namespace

void bind_candidates(nb::module_& m) {
  m.def("search_candidates", &search, "rows"_a, "form"_a, "packed"_a, "log_scale"_a, "offsets"_a,
        "members"_a, "neighbours"_a, "start"_a, "listed"_a, "steps"_a, "numbers"_a.noconvert(),
        "joint"_a.noconvert());
  m.def("add_candidates", &add, "rows"_a, "form"_a, "packed"_a, "log_scale"_a, "offsets"_a,
        "members"_a, "weights"_a, "first"_a, "last"_a, "table"_a.noconvert());
}

}  // namespace mixfold
