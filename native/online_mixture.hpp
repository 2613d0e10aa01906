// Owner of the memory behind an OnlineState.
#pragma once

#include <string>
#include <vector>

#include "kernels.hpp"
#include "online_state.hpp"

namespace mixfold {

OnlineKind online_kind(const std::string& name);

// Numbers per component: packed triangles, not squares.
int scatter_size(OnlineKind kind, int d);
int factor_size(OnlineKind kind, int d);

class OnlineMixture {
 public:
  OnlineMixture(OnlineKind kind, int components, int d, double floor, double reg);
  OnlineMixture(const OnlineMixture&) = delete;
  OnlineMixture& operator=(const OnlineMixture&) = delete;

  OnlineState& state() { return state_; }
  const OnlineState& state() const { return state_; }
  // A second set of memory, for M-steps that are only tried.
  OnlineState& trial() { return trial_; }

  // An array `entries` long per component, from and to component-major order.
  void import_array(double* to, const double* from, int entries) const;
  void export_array(const double* from, double* to, int entries) const;

  // Factors in the caller's shape: square matrices rather than packed triangles, and only one when
  // tied.
  void import_factor(const double* from);
  void export_factor(double* to) const;

 private:
  void lay_out(OnlineState& s, double* cursor) const;
  double* take(double*& cursor, ptrdiff_t entries) const;

  OnlineState state_{}, trial_{};
  std::vector<double> memory_;
};

}  // namespace mixfold
