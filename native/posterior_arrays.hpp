// A posterior in memory of its own, laid out for the kernels.
#pragma once

#include <vector>

#include "posterior.hpp"
#include "component_lanes.hpp"

namespace mixfold {

class PosteriorArrays {
 public:
  PosteriorArrays(PosteriorKind kind, int components, int d);
  const ConjugatePosterior& view() const { return view_; }

  const ComponentLanes& lanes() const { return lanes_; }

  // The scales, (K, d, d) or (K, d) outside.
  void import_scale(const double* from) const;
  void export_scale(double* to) const;

 private:
  ComponentLanes lanes_;
  ConjugatePosterior view_;
  std::vector<double> memory_;
};

}  // namespace mixfold
