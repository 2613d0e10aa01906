// Products of factors that are independent given the component, some of whose cells may be missing.
//
// A factor adds one term to the log joint density, of one of three forms (see kernels.hpp), and has
// sums of its own. All factors of a block are added before one softmax.
#pragma once

#include "expectation.hpp"
#include "log_factorial.hpp"
#include "reduction.hpp"
#include "tiling.hpp"

namespace mixfold::MIXFOLD_ISA {

class Product {
 public:
  using Number = double;

  explicit Product(const ProductFamily& family)
      : f_(family), tiles_(family.components, components_tile) {
    capacity_ = ptrdiff_t(block_vectors<double>(per_vector())) * S::lanes;
    origin_ = scratch_of<double>(Slot::origin, f_.d);
    for (int j = 0; j < f_.d; ++j) origin_[j] = 0;
    exists_ = scratch_of<bool>(Slot::exists, f_.components);
    for (int k = 0; k < f_.components; ++k) exists_[k] = f_.log_weights[k] > -1.7e308;
    partial_ = scratch_of<bool>(Slot::partial, f_.count);
    masks_ = scratch_of<double>(Slot::masks, 2 * capacity_ * f_.count);
    codes_ = scratch_of<int>(Slot::codes, capacity_ * f_.count);
  }

  int components() const { return f_.components; }
  ptrdiff_t per_vector() const { return ptrdiff_t(f_.components + f_.d + f_.count) * S::lanes; }
  const double* origin() const { return origin_; }
  const bool* exists() const { return exists_; }

  void log_joint(const Block<double>& block) const {
    for (int i = 0; i < f_.count; ++i) partial_[i] = find_missing(block, i);
    begin(block);
    for (int i = 0; i < f_.count; ++i) {
      if (partial_[i]) add_term<true>(block, i);
      else add_term<false>(block, i);
    }
  }

  void accumulate(const Block<double>& block, double* result) const {
    for (int t = 0; t < tiles_.count; ++t)
      with_constant<components_tile>(tiles_.size(t), [&](auto size) {
        constexpr int K = decltype(size)::value;
        const int k0 = tiles_.begin(t);
        double* const out = result + k0 * f_.n_sums;
        sum_weights<K, false>(block, k0, nullptr, out);
        for (int i = 0; i < f_.count; ++i) {
          if (partial_[i]) sum_factor<K, true>(block, i, k0, out + f_.factors[i].place);
          else sum_factor<K, false>(block, i, k0, out + f_.factors[i].place);
        }
      });
    if (f_.responsibilities) write_responsibilities(block);
  }

  double log_base_measure(const Block<double>& block) const {
    Real sum = S::zero();
    for (int i = 0; i < f_.count; ++i) {
      if (!f_.factors[i].factorial) continue;
      if (partial_[i]) subtract_factorials<true>(block, i, sum);
      else subtract_factorials<false>(block, i, sum);
    }
    return S::sum(sum);
  }

  double log_base_measure(const Block<double>& block, int v, int lane) const {
    double sum = 0;
    for (int i = 0; i < f_.count; ++i) {
      const Factor& factor = f_.factors[i];
      if (!factor.factorial || (partial_[i] && mask(i)[v * S::lanes + lane] == 0)) continue;
      const double* const x = column(block, v, factor.column) + lane;
      for (int c = 0; c < factor.size; ++c) sum -= log_factorial_of(x[c * S::lanes]);
    }
    return sum;
  }

 private:
  using S = Simd<double>;
  using Real = S::Real;
  static constexpr int components_tile = 8;
  static constexpr int few_levels = 16;

  static const double* column(const Block<double>& block, int v, int j) {
    return block.x + (ptrdiff_t(v) * block.d + j) * S::lanes;
  }
  static double* joint(const Block<double>& block, int k) { return block.joint + k * block.stride; }
  double* mask(int i) const { return masks_ + i * capacity_; }
  double* valid(int i) const { return masks_ + (f_.count + i) * capacity_; }
  int* codes(int i) const { return codes_ + i * capacity_; }
  const double* parameters(int i, int k) const {
    return f_.parameters + k * f_.n_parameters + f_.factors[i].parameter;
  }

  double log_factorial_of(double x) const {
    // The comparisons fail for a NaN too.
    if (x >= 0 && x < tabulated_factorials && double(int(x)) == x) return table_[int(x)];
    return log_factorial(x);
  }

  // Missing cells become zeros, of which log x! is zero too: no processor could foresee branches.
  template <bool Partial>
  void subtract_factorials(const Block<double>& block, int i, Real& sum) const {
    for (int c = 0; c < f_.factors[i].size; ++c)
      for (int v = 0; v < block.vectors; ++v) {
        const int at = v * S::lanes;
        double x[S::lanes], logs[S::lanes];
        S::store(x, observed<Partial>(column(block, v, f_.factors[i].column + c), mask(i) + at));
        for (int lane = 0; lane < S::lanes; ++lane) logs[lane] = log_factorial_of(x[lane]);
        sum -= S::load(block.weights + at) * S::load(logs);
      }
  }

  // Masks are one where the cell is observed, zero where it is missing.

  // Few levels are compared with the numbers themselves, which takes less time than a table.
  static bool has_codes(const Factor& factor) {
    return factor.kind == FactorKind::levels && factor.size > few_levels;
  }

  bool find_missing(const Block<double>& block, int i) const {
    const Factor& factor = f_.factors[i];
    if (has_codes(factor)) find_codes(block, i);
    if (!factor.missing) return false;
    bool found = false;
    for (int v = 0; v < block.vectors; ++v) {
      const auto missing = S::is_nan(S::load(column(block, v, factor.column)));
      S::store(mask(i) + v * S::lanes, S::select(missing, S::zero(), S::splat(1.0)));
      found |= S::any(missing);
    }
    return found;
  }

  // Numbers that are no codes of levels have no term, and are of no level.
  void find_codes(const Block<double>& block, int i) const {
    const Real levels = S::splat(f_.factors[i].size);
    for (int v = 0; v < block.vectors; ++v) {
      const Real x = S::load(column(block, v, f_.factors[i].column));
      const Real below = S::select(levels > x, S::splat(1.0), S::zero());
      const Real there = S::select(x > S::splat(-0.5), below, S::zero());
      S::store(valid(i) + v * S::lanes, there);
      double whole[S::lanes];
      S::store(whole, S::select(S::nonzero(there), x, S::zero()));
      int* const code = codes(i) + v * S::lanes;
      for (int lane = 0; lane < S::lanes; ++lane) code[lane] = int(whole[lane]);
    }
  }

  // Log joint densities without any factor, but with the constants of those that miss no cell.
  void begin(const Block<double>& block) const {
    for (int k = 0; k < f_.components; ++k) {
      double constant = f_.log_weights[k];
      for (int i = 0; i < f_.count; ++i)
        if (!partial_[i]) constant += constant_of(i, k);
      double* const out = joint(block, k);
      for (int v = 0; v < block.vectors; ++v) S::store(out + v * S::lanes, S::splat(constant));
    }
    if (f_.more) add_more(block);
  }

  double constant_of(int i, int k) const {
    return f_.factors[i].kind == FactorKind::levels ? 0 : parameters(i, k)[0];
  }

  void add_more(const Block<double>& block) const {
    const double* from = f_.more + ptrdiff_t(block.first) * f_.components;
    for (int row = 0; row < block.count; ++row)
      for (int k = 0; k < f_.components; ++k) joint(block, k)[row] += *from++;
  }

  template <bool Partial> void add_term(const Block<double>& block, int i) const {
    const Factor& factor = f_.factors[i];
    if (factor.kind == FactorKind::levels && !has_codes(factor)) return add_few_levels(block, i);
    for (int k = 0; k < f_.components; ++k) switch (factor.kind) {
      case FactorKind::normal: add_normal<Partial>(block, i, k); break;
      case FactorKind::linear: add_linear<Partial>(block, i, k); break;
      case FactorKind::levels: add_levels(block, i, k); break;
    }
  }

  // x where it is observed, else zero.
  template <bool Partial> static MIXFOLD_INLINE Real observed(const double* x, const double* mask) {
    if constexpr (Partial) return S::select(S::nonzero(S::load(mask)), S::load(x), S::zero());
    else return S::load(x);
  }

  template <bool Partial> void add_normal(const Block<double>& block, int i, int k) const {
    const double *const p = parameters(i, k), *m = mask(i);
    const Real constant = S::splat(p[0]), mean = S::splat(p[1]), whiten = S::splat(p[2]);
    double* out = joint(block, k);
    const double* x = column(block, 0, f_.factors[i].column);
    for (int v = 0; v < block.vectors; ++v, out += S::lanes, m += S::lanes, x += step()) {
      const Real z = (S::load(x) - mean) * whiten;
      Real term = S::splat(-0.5) * z * z;
      if constexpr (Partial)
        term = S::select(S::nonzero(S::load(m)), constant + term, S::zero());
      S::store(out, S::load(out) + term);
    }
  }

  template <bool Partial> void add_linear(const Block<double>& block, int i, int k) const {
    const double* const p = parameters(i, k);
    const Real constant = S::splat(p[0]);
    for (int c = 0; c < f_.factors[i].size; ++c) {
      const Real eta = S::splat(p[1 + c]);
      const double *x = column(block, 0, f_.factors[i].column + c), *m = mask(i);
      double* out = joint(block, k);
      for (int v = 0; v < block.vectors; ++v, out += S::lanes, m += S::lanes, x += step()) {
        Real sum = S::load(out) + eta * observed<Partial>(x, m);
        if constexpr (Partial)
          if (c == 0) sum += constant * S::load(m);
        S::store(out, sum);
      }
    }
  }

  void add_levels(const Block<double>& block, int i, int k) const {
    const double *const p = parameters(i, k), *const there = valid(i);
    const int *const code = codes(i), rows = block.vectors * S::lanes;
    double* const out = joint(block, k);
    for (int row = 0; row < rows; ++row) out[row] += there[row] * p[code[row]];
  }

  // A number that is no level has none of the terms.
  void add_few_levels(const Block<double>& block, int i) const {
    for (int t = 0; t < tiles_.count; ++t)
      with_constant<components_tile>(tiles_.size(t), [&](auto size) {
        constexpr int K = decltype(size)::value;
        const int k0 = tiles_.begin(t);
        const double* x = column(block, 0, f_.factors[i].column);
        for (int v = 0; v < block.vectors; ++v, x += step()) {
          Real term[K];
          MIXFOLD_UNROLL
          for (int k = 0; k < K; ++k) term[k] = S::zero();
          for (int level = 0; level < f_.factors[i].size; ++level) {
            const auto other = S::nonzero(S::load(x) - S::splat(level));
            MIXFOLD_UNROLL
            for (int k = 0; k < K; ++k)
              term[k] = S::select(other, term[k], S::splat(parameters(i, k0 + k)[level]));
          }
          MIXFOLD_UNROLL
          for (int k = 0; k < K; ++k) {
            double* const out = joint(block, k0 + k) + v * S::lanes;
            S::store(out, S::load(out) + term[k]);
          }
        }
      });
  }

  ptrdiff_t step() const { return ptrdiff_t(f_.d) * S::lanes; }

  // Sums of components k0 .. k0 + K - 1; `out` is where those of the first are.

  template <int K> void add_sums(const Real (&sum)[K], double* out) const {
    double sums[K];
    lane_sums<S, K>(sum, sums);
    for (int k = 0; k < K; ++k) out[k * f_.n_sums] += sums[k];
  }

  template <int K, bool Partial>
  void sum_weights(const Block<double>& block, int k0, const double* m, double* out) const {
    Real sum[K];
    MIXFOLD_UNROLL
    for (int k = 0; k < K; ++k) sum[k] = S::zero();
    for (int v = 0; v < block.vectors; ++v)
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k)
        sum[k] += responsibility<Partial>(joint(block, k0 + k), m, v);
    add_sums<K>(sum, out);
  }

  template <bool Partial>
  static MIXFOLD_INLINE Real responsibility(const double* r, const double* m, int v) {
    if constexpr (Partial) return S::load(r + v * S::lanes) * S::load(m + v * S::lanes);
    else return S::load(r + v * S::lanes);
  }

  template <int K, bool Partial>
  void sum_factor(const Block<double>& block, int i, int k0, double* out) const {
    sum_weights<K, Partial>(block, k0, mask(i), out);
    switch (f_.factors[i].kind) {
      case FactorKind::normal: return sum_normal<K, Partial>(block, i, k0, out + 1);
      case FactorKind::linear: return sum_linear<K, Partial>(block, i, k0, out + 1);
      case FactorKind::levels: return sum_levels<K>(block, i, k0, out + 1);
    }
  }

  template <int K, bool Partial>
  void sum_normal(const Block<double>& block, int i, int k0, double* out) const {
    Real mean[K], whiten[K], first[K], second[K];
    MIXFOLD_UNROLL
    for (int k = 0; k < K; ++k) {
      const double* const p = parameters(i, k0 + k);
      mean[k] = S::splat(p[1]), whiten[k] = S::splat(p[2]);
      first[k] = second[k] = S::zero();
    }
    const double *const m = mask(i), *x = column(block, 0, f_.factors[i].column);
    for (int v = 0; v < block.vectors; ++v, x += step()) {
      const Real xv = observed<Partial>(x, m + v * S::lanes);
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k) {
        const Real z = (xv - mean[k]) * whiten[k];
        const Real rz = responsibility<Partial>(joint(block, k0 + k), m, v) * z;
        first[k] += rz;
        second[k] += rz * z;
      }
    }
    add_sums<K>(first, out);
    add_sums<K>(second, out + 1);
  }

  template <int K, bool Partial>
  void sum_linear(const Block<double>& block, int i, int k0, double* out) const {
    for (int c = 0; c < f_.factors[i].size; ++c) {
      const double *x = column(block, 0, f_.factors[i].column + c), *m = mask(i);
      Real sum[K];
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k) sum[k] = S::zero();
      for (int v = 0; v < block.vectors; ++v, x += step()) {
        const Real xv = observed<Partial>(x, m + v * S::lanes);
        MIXFOLD_UNROLL
        for (int k = 0; k < K; ++k) sum[k] += S::load(joint(block, k0 + k) + v * S::lanes) * xv;
      }
      add_sums<K>(sum, out + c);
    }
  }

  template <int K>
  void sum_levels(const Block<double>& block, int i, int k0, double* out) const {
    if (!has_codes(f_.factors[i])) return sum_few_levels<K>(block, i, k0, out);
    const double* const there = valid(i);
    const int *const code = codes(i), rows = block.vectors * S::lanes;
    for (int k = 0; k < K; ++k, out += f_.n_sums) {
      const double* const r = joint(block, k0 + k);
      for (int row = 0; row < rows; ++row) out[code[row]] += r[row] * there[row];
    }
  }

  // One level at a time: a sum that waits for the last one of the same level would take longer.
  template <int K>
  void sum_few_levels(const Block<double>& block, int i, int k0, double* out) const {
    for (int level = 0; level < f_.factors[i].size; ++level) {
      const Real wanted = S::splat(level);
      const double* x = column(block, 0, f_.factors[i].column);
      Real sum[K];
      MIXFOLD_UNROLL
      for (int k = 0; k < K; ++k) sum[k] = S::zero();
      for (int v = 0; v < block.vectors; ++v, x += step()) {
        const auto other = S::nonzero(S::load(x) - wanted);
        MIXFOLD_UNROLL
        for (int k = 0; k < K; ++k) {
          const Real r = S::load(joint(block, k0 + k) + v * S::lanes);
          sum[k] += S::select(other, S::zero(), r);
        }
      }
      add_sums<K>(sum, out + level);
    }
  }

  void write_responsibilities(const Block<double>& block) const {
    double* to = f_.responsibilities + ptrdiff_t(block.first) * f_.components;
    for (int row = 0; row < block.count; ++row)
      for (int k = 0; k < f_.components; ++k) *to++ = joint(block, k)[row];
  }

  const ProductFamily& f_;
  Tiling tiles_;
  ptrdiff_t capacity_;
  double *origin_, *masks_;
  bool *exists_, *partial_;
  int* codes_;
  const double* table_ = log_factorial_table();
};

}  // namespace mixfold::MIXFOLD_ISA
