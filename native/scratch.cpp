#include "scratch.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace mixfold {
namespace {

constexpr size_t cache_line = 64;

struct Buffer {
  std::unique_ptr<unsigned char[]> memory;
  size_t bytes = 0;
};

thread_local std::array<Buffer, size_t(Slot::count)> buffers;

}  // namespace

void* scratch(Slot slot, size_t bytes) {
  Buffer& buffer = buffers[size_t(slot)];
  if (buffer.bytes < bytes) {
    buffer.memory.reset(new unsigned char[bytes + cache_line]);
    buffer.bytes = bytes;
  }
  const auto address = reinterpret_cast<uintptr_t>(buffer.memory.get());
  return buffer.memory.get() + (cache_line - address % cache_line) % cache_line;
}

}  // namespace mixfold
