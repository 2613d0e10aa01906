// What the bindings ask of a kernel, whatever the instruction set it was compiled for.
#pragma once

#include <stddef.h>

namespace mixfold {

// A table of numbers with any strides, counted in elements.
struct Rows {
  const void* data;
  ptrdiff_t row_stride, column_stride;
  int n, d;
  bool single_precision;
};

// y_k = whiten_k (x - origin - mean_k); log f_k(x) = log_scale_k - |y_k|^2 / 2.
struct Gaussians {
  int components, d;
  const double *origin, *means, *whiten, *log_scale;
};

// log f_k(x) = eta_k . x + offset_k, less log x! for Poisson counts.
struct LinearFamily {
  int components, d;
  const double *eta, *offset;
  bool poisson;
};

// A factor of a product: its columns, its part of the parameters of a component, and where its sums
// are among those of a component. With y the numbers in its columns, its term is
//   normal: c - ((y - mu) s)^2 / 2, of parameters c, mu, s; sums of 1, z = (y - mu) s and z^2
//   linear: c + eta . y, of parameters c and eta; sums of 1 and y
//   levels: log p_y, of parameters log p; sums of 1 and of rows of each of `size` levels
// A row that misses the cell (NaN, if the factor may be `missing`) adds nothing to either.
enum class FactorKind { normal, linear, levels };
struct Factor {
  FactorKind kind;
  int column, size;
  bool missing, factorial;
  ptrdiff_t parameter, place;
};

// log f_k(x) = log_weights_k + the terms of all factors, less log y! where they are `factorial`;
// row i has more_ik besides, if `more` is not null. Responsibilities times weights are written to
// `responsibilities` if it is not null.
struct ProductFamily {
  int components, d, count;
  const Factor* factors;
  ptrdiff_t n_parameters, n_sums;
  const double *log_weights, *parameters, *more;
  double* responsibilities;
};

// Where a posterior goes; `responsibilities` may be null.
struct Posterior {
  double *log_density, *responsibilities;
};

template <class T> struct AnnealedMixture;
struct CandidateComponents;
struct CandidateLists;
struct CandidateRows;
struct CandidateSearch;
struct ConjugatePosterior;
struct OnlineState;
struct RowOptions;

struct Kernels {
  void (*expect_triangular)(const Rows&, const double* weights, const Gaussians&, double* result);
  void (*expect_diagonal)(const Rows&, const double* weights, const Gaussians&, double* result);
  void (*expect_linear)(const Rows&, const double* weights, const LinearFamily&, double* result);
  void (*posterior_triangular)(const Rows&, const Gaussians&, const Posterior&);
  void (*posterior_diagonal)(const Rows&, const Gaussians&, const Posterior&);
  void (*posterior_linear)(const Rows&, const LinearFamily&, const Posterior&);
  void (*moments_triangular)(const Rows&, const double* weights, const double* responsibilities,
                             const Gaussians&, double* result);
  void (*moments_diagonal)(const Rows&, const double* weights, const double* responsibilities,
                           const Gaussians&, double* result);
  void (*moments_linear)(const Rows&, const double* weights, const double* responsibilities,
                         const LinearFamily&, double* result);
  void (*expect_product)(const Rows&, const double* weights, const ProductFamily&, double* result);
  void (*posterior_product)(const Rows&, const ProductFamily&, const Posterior&);
  void (*moments_product)(const Rows&, const double* weights, const double* responsibilities,
                          const ProductFamily&, double* result);
  void (*fold)(OnlineState&, const OnlineState& trial, const RowOptions&, const Rows&,
               const double* weights, const double* gamma, int hold, double& log_likelihood);
  void (*evaluate)(const OnlineState&, const Rows&, const Posterior&);
  long long (*match)(const ConjugatePosterior&, const Rows&, const double* weights,
                     double& log_density);
  void (*anneal_single)(AnnealedMixture<float>&, const Rows&, const double* weights,
                        int batch_size);
  void (*anneal_double)(AnnealedMixture<double>&, const Rows&, const double* weights,
                        int batch_size);
  void (*search_candidates)(const Rows&, const CandidateComponents&, const CandidateLists&,
                            const CandidateSearch&);
  void (*add_candidates)(const Rows&, const CandidateComponents&, const CandidateRows&,
                         double* table);
};

// The fastest kernels this processor can run, or fewer if the environment variable MIXFOLD_ISA
// says so.
const Kernels& kernels();
const char* isa_name();

}  // namespace mixfold
