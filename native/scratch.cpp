#include "scratch.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace mixfold {
namespace {

constexpr size_t cache_line = 64;

// Buffers start at different offsets within a page: a load that follows a store to the same offset
// of another page waits for it.
constexpr size_t stagger = 5 * cache_line;

struct Buffer {
  std::unique_ptr<unsigned char[]> memory;
  size_t bytes = 0;
};

thread_local std::array<Buffer, size_t(Slot::count)> buffers;

}  // namespace

void* scratch(Slot slot, size_t bytes) {
  Buffer& buffer = buffers[size_t(slot)];
  if (buffer.bytes < bytes) {
    buffer.memory.reset(new unsigned char[bytes + cache_line + size_t(Slot::count) * stagger]);
    buffer.bytes = bytes;
  }
  const auto address = reinterpret_cast<uintptr_t>(buffer.memory.get());
  const size_t aligned = (cache_line - address % cache_line) % cache_line;
  return buffer.memory.get() + aligned + size_t(slot) * stagger;
}

}  // namespace mixfold
