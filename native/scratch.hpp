// Working memory that a thread keeps between calls, so that small calls allocate nothing.
#pragma once

#include <stddef.h>

namespace mixfold {

enum class Slot {
  rows, weights, joint, totals, peaks, parameters, exists, origin, centred, whitened, weighted,
  active, members, interleaved, moments, partial, masks, codes,
  bounds, listed, order, segments, pairs, guide, products, count
};

// At least `bytes` bytes, aligned to a cache line, valid until the thread asks for the slot again.
void* scratch(Slot slot, size_t bytes);

}  // namespace mixfold
