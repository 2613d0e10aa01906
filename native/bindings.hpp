// The parts of the Python module, by subject.
#pragma once

#include <nanobind/nanobind.h>

namespace mixfold {

void bind_annealing(nanobind::module_& m);
void bind_candidates(nanobind::module_& m);
void bind_posterior(nanobind::module_& m);
void bind_expectations(nanobind::module_& m);
void bind_online(nanobind::module_& m);
void bind_product(nanobind::module_& m);
void bind_rotations(nanobind::module_& m);

}  // namespace mixfold
