// Owner of the memory behind an OnlineState.
#pragma once

#include <string>
#include <vector>

#include "component_lanes.hpp"
#include "kernels.hpp"
#include "online_state.hpp"

namespace mixfold {

OnlineKind online_kind(const std::string& name);

// Whether scales are triangular matrices, and how many they are outside.
bool triangular(OnlineKind kind);
int matrices(OnlineKind kind, int components);

// Numbers per component: packed triangles, not squares.
int scatter_size(OnlineKind kind, int d);
int scale_size(OnlineKind kind, int d);

class OnlineMixture {
 public:
  OnlineMixture(OnlineKind kind, int components, int d, double floor, double reg, double least,
                double rounding, const double* lowest);
  OnlineMixture(const OnlineMixture&) = delete;
  OnlineMixture& operator=(const OnlineMixture&) = delete;

  OnlineState& state() { return state_; }
  const OnlineState& state() const { return state_; }
  // A second set of memory, for M-steps that are only tried.
  OnlineState& trial() { return trial_; }

  const ComponentLanes& lanes() const { return lanes_; }

  // Rows folded and degenerate components since the beginning. They are counted here, where no
  // interrupt of Python's comes between a row and its number.
  long long rows = 0, n_degenerate = 0;

  // Scales in the caller's shape: square matrices rather than packed triangles, and only one when
  // tied.
  void import_scale(const double* from);
  void export_scale(double* to) const;

 private:
  void lay_out(OnlineState& s, double* cursor) const;

  ComponentLanes lanes_;
  OnlineState state_{}, trial_{};
  std::vector<double> memory_, lowest_;
};

}  // namespace mixfold
