// Differences of log Gamma, without the cancellation of subtracting two of them.
#pragma once

namespace mixfold {

// log Gamma(z + halves / 2) - log Gamma(z), z > 0.
double log_gamma_rise(double z, int halves);

// log Gamma(z + more) - log Gamma(z), z > 0, more >= 0.
double log_gamma_difference(double z, double more);

// log Gamma_d((nu + weight) / 2) - log Gamma_d(nu / 2) of the multivariate Gamma function.
double log_gamma_ratio(int d, double nu, double weight);

}  // namespace mixfold
