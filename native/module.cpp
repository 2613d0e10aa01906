// The Python module mixfold._native.
#include "bindings.hpp"
#include "kernels.hpp"

NB_MODULE(_native, m) {
  using namespace mixfold;
  m.def("isa", &isa_name);
  bind_expectations(m);
  bind_online(m);
  bind_posterior(m);
  bind_product(m);
  bind_annealing(m);
  bind_candidates(m);
  bind_rotations(m);
}
