#include "log_gamma.hpp"

#include <cmath>
#include <limits>

namespace mixfold {
namespace {

// log Gamma(z + 1/2) - log Gamma(z), by its asymptotic series from `far` on. NaN unless z > 0: what
// is far below would take any time to rise.
double half_step(double z) {
  constexpr double far = 16;
  if (!(z > 0)) return std::numeric_limits<double>::quiet_NaN();
  double product = 1;
  for (; z < far; ++z) product *= z / (z + 0.5);
  const double r = 1 / z, r2 = r * r;
  const double series = r * (-1.0 / 8 + r2 * (1.0 / 192 + r2 * (-1.0 / 640 + r2 * 17.0 / 14336)));
  return 0.5 * std::log(z) + series + std::log(product);
}

}  // namespace

double log_gamma_rise(double z, int halves) {
  constexpr double large = 1e200;
  double sum = 0, product = 1;
  for (int i = 0; i < halves / 2; ++i) {
    product *= z + i;
    if (product > large) sum += std::log(product), product = 1;
  }
  sum += std::log(product);
  return halves % 2 ? sum + half_step(z + halves / 2) : sum;
}

double log_gamma_difference(double z, double more) {
  constexpr double few = 32;
  if (more == std::floor(more) && more >= 0 && more <= few) return log_gamma_rise(z, 2 * int(more));
  return std::lgamma(z + more) - std::lgamma(z);
}

double log_gamma_ratio(int d, double nu, double weight) {
  if (weight == 1) return log_gamma_rise(0.5 * (nu + 1 - d), d);
  double sum = 0;
  for (int i = 0; i < d; ++i)
    sum += log_gamma_difference(0.5 * (nu - i), 0.5 * weight);
  return sum;
}

}  // namespace mixfold
