#include "log_factorial.hpp"

#include <array>
#include <cmath>

namespace mixfold {
namespace {

std::array<double, tabulated_factorials> tabulate() {
  std::array<double, tabulated_factorials> table{};
  for (int x = 0; x < tabulated_factorials; ++x) table[x] = std::lgamma(x + 1.0);
  return table;
}

const std::array<double, tabulated_factorials> table = tabulate();

}  // namespace

const double* log_factorial_table() { return table.data(); }

double log_factorial(double x) { return std::lgamma(x + 1.0); }

}  // namespace mixfold
