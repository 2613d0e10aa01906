// Beliefs in memory of their own, laid out for the kernels.
#pragma once

#include <vector>

#include "beliefs.hpp"

namespace mixfold {

class BeliefArrays {
 public:
  BeliefArrays(BeliefKind kind, int components, int d);
  const Beliefs& view() const { return view_; }

  // From and to arrays with one row of `entries` per component.
  void put(double* to, const double* from, int entries) const;
  void get(const double* from, double* to, int entries) const;
  // The factors, (K, d, d) or (K, d) outside.
  void put_factor(const double* from) const;
  void get_factor(double* to) const;

 private:
  Beliefs view_;
  std::vector<double> memory_;
};

}  // namespace mixfold
