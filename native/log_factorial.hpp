// log x! for counts.
#pragma once

namespace mixfold {

// Counts below this are looked up.
inline constexpr int tabulated_factorials = 1024;

const double* log_factorial_table();
double log_factorial(double x);

}  // namespace mixfold
