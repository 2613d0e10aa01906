// A search for the components of highest density of each row, and sums of rows by component.
#include "candidates.hpp"

#include <math.h>

#include "block.hpp"
#include "read_row.hpp"
#include "softmax.hpp"

namespace mixfold::MIXFOLD_ISA {
namespace {

using S = Simd<double>;
using Real = S::Real;
constexpr int width = candidate_block, vectors = width / S::lanes;

// One block of numbers, in registers.
struct Numbers {
  Real part[vectors];
  static MIXFOLD_INLINE Numbers zero() {
    Numbers n;
    MIXFOLD_UNROLL
    for (int i = 0; i < vectors; ++i) n.part[i] = S::zero();
    return n;
  }
  static MIXFOLD_INLINE Numbers load(const double* p) {
    Numbers n;
    MIXFOLD_UNROLL
    for (int i = 0; i < vectors; ++i) n.part[i] = S::load(p + i * S::lanes);
    return n;
  }
  MIXFOLD_INLINE void store(double* p) const {
    MIXFOLD_UNROLL
    for (int i = 0; i < vectors; ++i) S::store(p + i * S::lanes, part[i]);
  }
  // this += a * b
  MIXFOLD_INLINE void add(const Numbers& a, const Numbers& b) {
    MIXFOLD_UNROLL
    for (int i = 0; i < vectors; ++i) part[i] += a.part[i] * b.part[i];
  }
  MIXFOLD_INLINE void add(const Numbers& a, const Real& b) {
    MIXFOLD_UNROLL
    for (int i = 0; i < vectors; ++i) part[i] += a.part[i] * b;
  }
  MIXFOLD_INLINE double sum() const {
    Real total = part[0];
    MIXFOLD_UNROLL
    for (int i = 1; i < vectors; ++i) total += part[i];
    return S::sum(total);
  }
};

MIXFOLD_INLINE Numbers difference(const double* a, const double* b) {
  Numbers n;
  MIXFOLD_UNROLL
  for (int i = 0; i < vectors; ++i) n.part[i] = S::load(a + i * S::lanes) - S::load(b + i * S::lanes);
  return n;
}

// The densities of one row, which is filled up with zeros to whole blocks.
class Densities {
 public:
  explicit Densities(const CandidateComponents& c)
      : c_(c), blocks_(candidate_blocks(c.d)), length_(candidate_length(c.form, c.d)),
        x_(scratch_of<double>(Slot::rows, ptrdiff_t(blocks_) * width)),
        centred_(scratch_of<double>(Slot::centred, ptrdiff_t(blocks_) * width)) {
    for (int j = 0; j < blocks_ * width; ++j) x_[j] = 0;
  }

  MIXFOLD_INLINE const double* read(const Rows& rows, int i) {
    read_row(rows, i, x_);
    return x_;
  }
  const double* packed(int k) const { return c_.packed + k * length_; }

  // log w_k p(x | k), or less than `worst` if it is less.
  MIXFOLD_INLINE double log_joint(int k, double worst) {
    double found;
    if (c_.form == CandidateForm::triangular) found = triangular(packed(k), c_.log_scale[k], worst);
    else if (c_.form == CandidateForm::diagonal) found = diagonal(packed(k), c_.log_scale[k], worst);
    else found = linear(packed(k), c_.log_scale[k]);
    return found > Extremes<double>::least ? found : Extremes<double>::least;
  }

  // x - mean of component k, in memory of its own.
  MIXFOLD_INLINE const double* centred(const double* mean) {
    for (int b = 0; b < blocks_; ++b)
      difference(x_ + b * width, mean + b * width).store(centred_ + b * width);
    return centred_;
  }

  // Block b of W (x - mean), from the columns of this block of rows of W.
  MIXFOLD_INLINE Numbers whitened(const double* triangle, int columns) const {
    Numbers even = Numbers::zero(), odd = Numbers::zero();  // two sums, to wait for neither
    int j = 0;
    for (; j + 1 < columns; j += 2) {
      even.add(Numbers::load(triangle + ptrdiff_t(j) * width), S::splat(centred_[j]));
      odd.add(Numbers::load(triangle + ptrdiff_t(j + 1) * width), S::splat(centred_[j + 1]));
    }
    if (j < columns) even.add(Numbers::load(triangle + ptrdiff_t(j) * width), S::splat(centred_[j]));
    MIXFOLD_UNROLL
    for (int i = 0; i < vectors; ++i) even.part[i] += odd.part[i];
    return even;
  }

 private:
  MIXFOLD_INLINE double triangular(const double* p, double log_scale, double worst) {
    centred(p);
    const double* triangle = p + ptrdiff_t(blocks_) * width;
    Numbers square = Numbers::zero();
    for (int b = 0; b < blocks_; ++b) {
      const int columns = candidate_columns(b, c_.d);
      const Numbers y = whitened(triangle, columns);
      square.add(y, y);
      triangle += ptrdiff_t(columns) * width;
      // what is left can only lower the density
      if (b % 2 && b + 1 < blocks_ && log_scale - 0.5 * square.sum() < worst) return worst - 1;
    }
    return log_scale - 0.5 * square.sum();
  }

  MIXFOLD_INLINE double diagonal(const double* p, double log_scale, double worst) const {
    const double* const whiten = p + ptrdiff_t(blocks_) * width;
    Numbers square = Numbers::zero();
    for (int b = 0; b < blocks_; ++b) {
      Numbers y = difference(x_ + b * width, p + b * width);
      const Numbers scale = Numbers::load(whiten + b * width);
      MIXFOLD_UNROLL
      for (int i = 0; i < vectors; ++i) y.part[i] *= scale.part[i];
      square.add(y, y);
      if (b % 2 && b + 1 < blocks_ && log_scale - 0.5 * square.sum() < worst) return worst - 1;
    }
    return log_scale - 0.5 * square.sum();
  }

  MIXFOLD_INLINE double linear(const double* eta, double offset) const {
    Numbers product = Numbers::zero();
    for (int b = 0; b < blocks_; ++b)
      product.add(Numbers::load(eta + b * width), Numbers::load(x_ + b * width));
    return product.sum() + offset;
  }

  const CandidateComponents& c_;
  const int blocks_;
  const ptrdiff_t length_;
  double *const x_, *const centred_;
};

// The best components of a row so far, in order; of equal ones the one of the lower number first.
class Best {
 public:
  Best(int* numbers, double* joint, int kept) : numbers_(numbers), joint_(joint), kept_(kept) {}

  void clear() {
    for (int i = 0; i < kept_; ++i) numbers_[i] = -1, joint_[i] = -HUGE_VAL;
  }
  MIXFOLD_INLINE double worst() const { return joint_[kept_ - 1]; }
  int number(int place) const { return place < kept_ ? numbers_[place] : -1; }

  MIXFOLD_INLINE void offer(int k, double joint) {
    int place = kept_ - 1;
    if (!before(k, joint, place)) return;
    for (; place > 0 && before(k, joint, place - 1); --place)
      numbers_[place] = numbers_[place - 1], joint_[place] = joint_[place - 1];
    numbers_[place] = k, joint_[place] = joint;
  }

 private:
  MIXFOLD_INLINE bool before(int k, double joint, int place) const {
    return joint > joint_[place] || (joint == joint_[place] && k < numbers_[place]);
  }

  int* numbers_;
  double* joint_;
  int kept_;
};

// A search from row to row; no component is evaluated twice for one of them.
class Searching {
 public:
  Searching(const CandidateComponents& c, const CandidateLists& lists)
      : c_(c), lists_(lists), densities_(c),
        seen_(scratch_of<int>(Slot::codes, c.components)) {
    for (int k = 0; k < c.components; ++k) seen_[k] = -1;
  }

  void search(const Rows& rows, int i, const CandidateSearch& s) {
    densities_.read(rows, i);
    row_ = i;
    const int* const start = s.start + ptrdiff_t(i) * s.given;
    Best best(s.numbers + ptrdiff_t(i) * s.kept, s.joint + ptrdiff_t(i) * s.kept, s.kept);
    best.clear();
    offer_all(start, s.given, best);
    const int* const listed = s.lists + ptrdiff_t(i) * s.listed;
    for (int l = 0; l < s.listed; ++l)
      if (const int at = listed[l]; unsigned(at) < unsigned(lists_.count))
        offer_all(lists_.members + lists_.offsets[at], lists_.offsets[at + 1] - lists_.offsets[at],
                  best);
    int expanded = -1;
    for (int step = 0; step < s.steps; ++step) {
      const int k = best.number(0);
      if (k < 0 || k == expanded) break;
      expanded = k;
      offer_all(lists_.neighbours + ptrdiff_t(k) * lists_.width, lists_.width, best);
    }
  }

 private:
  MIXFOLD_INLINE void offer_all(const int* numbers, int count, Best& best) {
    for (int i = 0; i < count; ++i) {
      const int k = numbers[i];
      if (unsigned(k) >= unsigned(c_.components) || seen_[k] == row_) continue;
      seen_[k] = row_;
      best.offer(k, densities_.log_joint(k, best.worst()));
    }
  }

  const CandidateComponents& c_;
  const CandidateLists& lists_;
  Densities densities_;
  int* const seen_;
  int row_ = -1;
};

// The sums of one component: they are taken out of the table, and put back after its rows.
class Sums {
 public:
  explicit Sums(const CandidateComponents& c)
      : c_(c), densities_(c), blocks_(candidate_blocks(c.d)),
        second_length_(c.form == CandidateForm::linear     ? 0
                       : c.form == CandidateForm::diagonal ? ptrdiff_t(blocks_) * width
                                                           : candidate_triangle(c.d)),
        first_(scratch_of<double>(Slot::moments, ptrdiff_t(blocks_) * width)),
        second_(scratch_of<double>(Slot::partial, second_length_ + 1)),
        y_(scratch_of<double>(Slot::whitened, ptrdiff_t(blocks_) * width)) {}

  void add(const Rows& rows, const CandidateRows& by_component, int k, double* table) {
    const int begin = by_component.offsets[k], end = by_component.offsets[k + 1];
    if (begin == end) return;
    take(table);
    for (int e = begin; e < end; ++e) {
      const int i = by_component.rows[e];
      if (unsigned(i) >= unsigned(rows.n)) continue;
      if (e + ahead < end) fetch(rows, by_component.rows[e + ahead]);
      const double r = by_component.weights[e];
      weight_ += r;
      const double* const x = densities_.read(rows, i);
      if (c_.form == CandidateForm::triangular) add_triangular(densities_.packed(k), r);
      else if (c_.form == CandidateForm::diagonal) add_diagonal(densities_.packed(k), x, r);
      else
        for (int b = 0; b < blocks_; ++b) add_to(first_ + b * width, Numbers::load(x + b * width), r);
    }
    put(table);
  }

 private:
  static constexpr int ahead = 6;  // rows of a component are far apart in memory

  static MIXFOLD_INLINE void fetch(const Rows& rows, int i) {
#if defined(__GNUC__) || defined(__clang__)
    if (unsigned(i) >= unsigned(rows.n)) return;
    const ptrdiff_t size = rows.single_precision ? sizeof(float) : sizeof(double);
    const char* const row = static_cast<const char*>(rows.data) + i * rows.row_stride * size;
    const ptrdiff_t step = rows.column_stride * size, line = step > 64 ? step : 64;
    const ptrdiff_t most = 8 * line, length = (rows.d - 1) * step;
    for (ptrdiff_t at = 0; at <= length && at < most; at += line) __builtin_prefetch(row + at);
#endif
  }

  static MIXFOLD_INLINE void add_to(double* sum, const Numbers& numbers, double r) {
    Numbers so_far = Numbers::load(sum);
    so_far.add(numbers, S::splat(r));
    so_far.store(sum);
  }

  MIXFOLD_INLINE void add_diagonal(const double* p, const double* x, double r) {
    const double* const whiten = p + ptrdiff_t(blocks_) * width;
    for (int b = 0; b < blocks_; ++b) {
      Numbers y = difference(x + b * width, p + b * width);
      const Numbers scale = Numbers::load(whiten + b * width);
      Numbers square;
      MIXFOLD_UNROLL
      for (int i = 0; i < vectors; ++i) {
        y.part[i] *= scale.part[i];
        square.part[i] = y.part[i] * y.part[i];
      }
      add_to(first_ + b * width, y, r);
      add_to(second_ + b * width, square, r);
    }
  }

  MIXFOLD_INLINE void add_triangular(const double* p, double r) {
    densities_.centred(p);
    const double* triangle = p + ptrdiff_t(blocks_) * width;
    double* sum = second_;
    for (int b = 0; b < blocks_; ++b) {
      const int columns = candidate_columns(b, c_.d);
      Numbers y = densities_.whitened(triangle, columns);
      y.store(y_ + b * width);
      add_to(first_ + b * width, y, r);
      MIXFOLD_UNROLL
      for (int i = 0; i < vectors; ++i) y.part[i] *= S::splat(r);
      for (int j = 0; j < columns; ++j) add_to(sum + ptrdiff_t(j) * width, y, y_[j]);
      triangle += ptrdiff_t(columns) * width;
      sum += ptrdiff_t(columns) * width;
    }
  }

  // Calls visit(entry of the table, entry here) for all second moments.
  template <class Visit> void for_second(double* table, Visit visit) {
    double* const second = table + 1 + c_.d;
    if (c_.form == CandidateForm::diagonal)
      for (int j = 0; j < c_.d; ++j) visit(second[j], second_[j]);
    if (c_.form != CandidateForm::triangular) return;
    double* block = second_;
    for (int b = 0; b < blocks_; ++b) {
      const int columns = candidate_columns(b, c_.d);
      for (int i = b * width; i < c_.d && i < (b + 1) * width; ++i)
        for (int j = 0; j <= i; ++j)
          visit(second[ptrdiff_t(i) * (i + 1) / 2 + j], block[ptrdiff_t(j) * width + i - b * width]);
      block += ptrdiff_t(columns) * width;
    }
  }

  void take(double* table) {
    weight_ = table[0];
    for (int j = 0; j < blocks_ * width; ++j) first_[j] = j < c_.d ? table[1 + j] : 0;
    for (ptrdiff_t i = 0; i < second_length_; ++i) second_[i] = 0;
    for_second(table, [](double& there, double& here) { here = there; });
  }

  void put(double* table) {
    table[0] = weight_;
    for (int j = 0; j < c_.d; ++j) table[1 + j] = first_[j];
    for_second(table, [](double& there, double& here) { there = here; });
  }

  const CandidateComponents& c_;
  Densities densities_;
  const int blocks_;
  const ptrdiff_t second_length_;
  double *const first_, *const second_, *const y_;
  double weight_ = 0;
};

}  // namespace

void search_candidates(const Rows& rows, const CandidateComponents& c, const CandidateLists& lists,
                       const CandidateSearch& s) {
  Searching searching(c, lists);
  for (int i = 0; i < rows.n; ++i) searching.search(rows, i, s);
}

void add_candidates(const Rows& rows, const CandidateComponents& c,
                    const CandidateRows& by_component, double* table) {
  Sums sums(c);
  const ptrdiff_t length = candidate_sums(c.form, c.d);
  for (int k = by_component.first; k < by_component.last; ++k)
    sums.add(rows, by_component, k, table + k * length);
}

}  // namespace mixfold::MIXFOLD_ISA
