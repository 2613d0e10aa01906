// Which vectors of rows a component has any responsibility for: in high dimension most have none.
#pragma once

#include "block.hpp"

namespace mixfold::MIXFOLD_ISA {

struct Active {
  int count;
  double weight;
};

template <class S, class T> Active find_active(const T* responsibilities, int vectors, int* index) {
  int count = 0;
  auto weight = S::zero();
  for (int v = 0; v < vectors; ++v) {
    const auto r = S::load(responsibilities + v * S::lanes);
    weight += r;
    index[count] = v;
    count += S::any(S::nonzero(r));
  }
  return {count, double(S::sum(weight))};
}

}  // namespace mixfold::MIXFOLD_ISA
