// The E-step, written once: transpose a block, ask the family for log joint densities, take the
// softmax, give the responsibilities back to the family to accumulate its statistics.
//
// A family offers: Number (what it computes in), per_vector() (its working set), origin(),
// log_joint(block), accumulate(block, result), log_base_measure(block) and exists; if it keeps sums of its
// own, finish(result) adds them.
#pragma once

#include "block.hpp"
#include "pruning.hpp"
#include "softmax.hpp"
#include "transpose.hpp"

namespace mixfold::MIXFOLD_ISA {

// Blocks of rows of a table, one at a time, with log joint densities.
template <class In, class Family> class Blocks {
 public:
  using T = typename Family::Number;
  using S = Simd<T>;

  Blocks(const Rows& rows, const double* weights, Family& family)
      : rows_(rows), weights_(weights), family_(family),
        capacity_(block_vectors<T>(family.per_vector()) * S::lanes),
        x_(scratch_of<T>(Slot::rows, ptrdiff_t(capacity_) * rows.d)),
        w_(scratch_of<T>(Slot::weights, capacity_)),
        joint_(scratch_of<T>(Slot::joint, ptrdiff_t(capacity_) * family.components())),
        transpose_(rows, family.origin()) {}

  // The most rows that fit from `first` on.
  Block<T> load(int first) const {
    const int left = rows_.n - first, count = left < capacity_ ? left : capacity_;
    transpose_(first, count, x_);
    copy_weights<S>(weights_, first, count, w_);
    const int vectors = (count + S::lanes - 1) / S::lanes;
    const int unit_vectors = weights_ ? 0 : count / S::lanes;
    const Block<T> block{vectors, unit_vectors, rows_.d,   family_.components(), x_, w_,
                         joint_,  capacity_,    first, count};
    family_.log_joint(block);
    return block;
  }

 private:
  const Rows& rows_;
  const double* weights_;
  Family& family_;
  int capacity_;
  T *x_, *w_, *joint_;
  const Transposer<S, In, T> transpose_;
};

template <class In, class Family, class Visit>
void for_each_block(const Rows& rows, const double* weights, Family& family, Visit visit) {
  const Blocks<In, Family> blocks(rows, weights, family);
  for (int first = 0; first < rows.n;) {
    const auto block = blocks.load(first);
    visit(block, first, block.count);
    first += block.count;
  }
}

template <class Family, class T>
void add_block(const Block<T>& block, Family& family, double* result) {
  result[0] += respond<Simd<T>>(block, family.exists());
  result[0] += family.log_base_measure(block);
  family.accumulate(block, result + 1);
}

template <class In, class Family>
void expect(const Rows& rows, const double* weights, Family& family, double* result) {
  const Blocks<In, Family> blocks(rows, weights, family);
  if constexpr (requires { family.parameters(); }) {
    Pruning<In, Family> pruning(rows, weights, family);
    for (int first = 0; first < rows.n;) {
      first += pruning.add_rows(first, result);
      if (first == rows.n) break;
      const auto block = blocks.load(first);
      add_block(block, family, result);
      pruning.watch(block);
      first += block.count;
    }
  } else {
    for (int first = 0; first < rows.n;) {
      const auto block = blocks.load(first);
      add_block(block, family, result);
      first += block.count;
    }
  }
  if constexpr (requires { family.finish(result); }) family.finish(result + 1);
}

// The sums under given responsibilities, one row of them per row, of any sign.
template <class In, class Family>
void moments(const Rows& rows, const double* weights, const double* responsibilities,
             Family& family, double* result) {
  using S = Simd<double>;
  for_each_block<In>(rows, weights, family, [&](const Block<double>& block, int first, int count) {
    const double* const given = responsibilities + ptrdiff_t(first) * block.components;
    for (int k = 0; k < block.components; ++k) {
      double* const joint = block.joint + k * block.stride;
      for (int i = 0; i < count; ++i)
        joint[i] = given[ptrdiff_t(i) * block.components + k] * block.weights[i];
      for (int i = count; i < block.vectors * S::lanes; ++i) joint[i] = 0;
    }
    family.accumulate(block, result + 1);
  });
}

template <class S>
void write_responsibilities(const Block<double>& block, const double* total, int count, int lane0,
                            double* out) {
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < block.components; ++k)
      out[ptrdiff_t(i) * block.components + k] =
          block.joint[k * block.stride + lane0 + i] / total[i];
}

template <class In, class Family>
void posterior(const Rows& rows, Family& family, const Posterior& out) {
  using S = Simd<double>;
  constexpr int lanes = S::lanes;
  for_each_block<In>(rows, nullptr, family, [&](const Block<double>& block, int first, int count) {
    for (int v = 0; v < block.vectors; ++v) {
      auto softmax = exponentiate<S>(block, v, Extremes<double>::smallest);
      auto factor = softmax.total;
      if (unexplained<S>(softmax.total))
        factor = share_unexplained<S>(block, v, family.exists(), softmax.total);
      double log_density[lanes], total[lanes];
      S::store(log_density, softmax.peak + log_normal<S, double>(factor));
      S::store(total, softmax.total);
      const int row = v * lanes, filled = count - row < lanes ? count - row : lanes;
      for (int lane = 0; lane < filled; ++lane)
        out.log_density[first + row + lane] = log_density[lane] + family.log_base_measure(block, v, lane);
      if (out.responsibilities)
        write_responsibilities<S>(block, total, filled, row,
                                  out.responsibilities + ptrdiff_t(first + row) * block.components);
    }
  });
}

// Families whose density needs no further factor.
template <class T> struct NoBaseMeasure {
  double log_base_measure(const Block<T>&) const { return 0; }
  double log_base_measure(const Block<T>&, int, int) const { return 0; }
};

}  // namespace mixfold::MIXFOLD_ISA
