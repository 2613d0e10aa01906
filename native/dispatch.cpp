// Choosing the instruction set at run time.
#include <cstdlib>
#include <cstring>

#include "kernels.hpp"

#if defined(MIXFOLD_X86) && defined(_MSC_VER)
#include <intrin.h>
#endif

namespace mixfold {

namespace baseline { extern const Kernels table; }
#if defined(MIXFOLD_X86)
namespace avx2 { extern const Kernels table; }
namespace avx512 { extern const Kernels table; }
#endif
#if defined(MIXFOLD_SANITIZE)
namespace plain { extern const Kernels table; }
#endif

namespace {

struct Choice {
  const char* name;
  const Kernels* kernels;
  bool (*runs_here)();
};

bool always() { return true; }

#if defined(MIXFOLD_X86)
#if defined(_MSC_VER) && !defined(__clang__)

bool has_bits(int leaf, int which, unsigned bits) {
  int r[4];
  __cpuidex(r, leaf, 0);
  return (unsigned(r[which]) & bits) == bits;
}

bool system_saves(unsigned long long state) {
  constexpr unsigned osxsave = 1u << 27;
  return has_bits(1, 2, osxsave) && (_xgetbv(0) & state) == state;
}

bool has_avx2() {
  constexpr unsigned fma = 1u << 12, avx2 = 1u << 5;
  return system_saves(0x6) && has_bits(1, 2, fma) && has_bits(7, 1, avx2);
}

bool has_avx512() {
  constexpr unsigned f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
  return has_avx2() && system_saves(0xe6) && has_bits(7, 1, f | dq | bw | vl);
}

#else

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

#endif
#endif

// Fastest first.
constexpr Choice choices[] = {
#if defined(MIXFOLD_X86)
    {"avx512", &avx512::table, has_avx512},
    {"avx2", &avx2::table, has_avx2},
#endif
    {"baseline", &baseline::table, always},
#if defined(MIXFOLD_SANITIZE)
    {"plain", &plain::table, always},
#endif
};

const Choice& choose() {
  const Choice* choice = choices;
  if (const char* cap = std::getenv("MIXFOLD_ISA"))
    for (const Choice& c : choices)
      if (std::strcmp(c.name, cap) == 0) choice = &c;
  while (!choice->runs_here()) ++choice;
  return *choice;
}

const Choice& chosen() {
  static const Choice& choice = choose();
  return choice;
}

}  // namespace

const Kernels& kernels() { return *chosen().kernels; }
const char* isa_name() { return chosen().name; }

}  // namespace mixfold
