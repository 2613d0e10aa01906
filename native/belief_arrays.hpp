// Beliefs in memory of their own, laid out for the kernels.
#pragma once

#include <vector>

#include "beliefs.hpp"
#include "component_lanes.hpp"

namespace mixfold {

class BeliefArrays {
 public:
  BeliefArrays(BeliefKind kind, int components, int d);
  const Beliefs& view() const { return view_; }

  const ComponentLanes& lanes() const { return lanes_; }

  // The factors, (K, d, d) or (K, d) outside.
  void import_factor(const double* from) const;
  void export_factor(double* to) const;

 private:
  ComponentLanes lanes_;
  Beliefs view_;
  std::vector<double> memory_;
};

}  // namespace mixfold
