// E-steps that evaluate only the components that can matter to a row.
//
// A row's probable component is guessed and evaluated, then those components whose density may come
// near it (separation.hpp). The others' responsibilities are zero
// in blocks too (softmax.hpp), so that no sum differs. Rows to evaluate
// are listed by component, so that they fill the lanes.
#pragma once

#include "block.hpp"
#include "separation.hpp"
#include "simd_math.hpp"
#include "softmax.hpp"
#include "transpose.hpp"

namespace mixfold::MIXFOLD_ISA {

// What Pruning asks of a family besides what a block needs: parameters(), diagonal,
// sums_per_component(), operations(), those of a row and component, and for rows of one component,
// stored as in a block, log_joint_of(k, x, vectors, y, joint), which leaves in y, which is x, what
// accumulate_of(k, y, r, vectors, result) needs.
template <class In, class Family> class Pruning {
 public:
  using T = typename Family::Number;
  using S = Simd<T>;

  Pruning(const Rows& rows, const double* weights, Family& family)
      : rows_(rows), weights_(weights), family_(family), k_(family.components()), d_(rows.d),
        transpose_(rows_, family.origin()) {
    if (rows.n < 16 * k_ || ptrdiff_t(k_) * k_ * d_ > most_numbers || affordable() < 1)
      waiting_ = rows.n;
  }

  // Adds as many rows from `first` on as it pays to; returns their number.
  int add_rows(int first, double* result) {
    if (waiting_ > 0) return 0;
    if (!capacity_) {
      reserve();
      separation_ = Separation<T>(family_.parameters(), Family::diagonal);
    }
    int done = 0;
    while (separation_.exact() && first + done < rows_.n) {
      const int left = rows_.n - first - done, count = left < length_ ? left : length_;
      if (!add_tile(first + done, count, separation_, result)) break;
      done += count;
      length_ = capacity_;
    }
    wait();
    length_ = short_tile;
    return done;
  }

  // Learns from a block of responsibilities whether most are zero.
  void watch(const Block<T>& block) {
    waiting_ -= block.count;
    if (waiting_ > 0) return;
    int found = 0;
    const int vectors = block.vectors < sample ? block.vectors : sample;
    for (int k = 0; k < k_; ++k)
      for (int v = 0; v < vectors; ++v)
        found += S::count(S::nonzero(S::load(block.joint + k * block.stride + v * S::lanes)));
    if (double(found) > affordable() * vectors * S::lanes) wait();
  }

 private:
  using Real = typename S::Real;
  static constexpr int short_tile = 256, sample = 4, most_pairs_per_row = 8;
  static constexpr ptrdiff_t most_numbers = 1 << 19;

  // How many components per row may be evaluated if pruning is to pay: operations of a component in
  // a block, those of the bounds, and those of an evaluated pair, measured roughly. What is done row
  // by row costs as much as many vectors.
  double affordable() const {
    const double each = double(family_.operations());
    const double found = 40 + 8.0 * S::lanes + 8.0 * d_ + k_ * (2.0 * d_ + 8);
    const double pairs = (0.7 * k_ * (each + 30) - found) / (each + 8 * d_ + 16.0 * S::lanes);
    return pairs < most_pairs_per_row ? pairs : most_pairs_per_row;
  }

  // Rows of one component, from pair `begin` on; the lanes past `count` repeat the last one. `least`
  // is the least log joint density of guesses.
  struct Segment {
    int k, begin, count;
    T least;
    int vectors() const { return (count + S::lanes - 1) / S::lanes; }
  };

  static int whole(int count) { return (count + S::lanes - 1) / S::lanes * S::lanes; }

  int longest() const {
    const int wanted = 64 * k_;
    return wanted < 1024 ? 1024 : wanted > 2048 ? 2048 : wanted;
  }

  void reserve() {
    capacity_ = longest();
    most_pairs_ = int(capacity_ * affordable()) + k_ * S::lanes * 2;
    x_ = scratch_of<T>(Slot::listed, ptrdiff_t(capacity_) * d_);
    bounds_ = scratch_of<T>(Slot::bounds, ptrdiff_t(capacity_) * k_ + ptrdiff_t(capacity_) * 4);
    guess_ = bounds_ + ptrdiff_t(capacity_) * k_;
    peak_ = guess_ + capacity_;
    total_ = peak_ + capacity_;
    weight_ = total_ + capacity_;
    index_ = scratch_of<int>(Slot::order, most_pairs_ + k_);
    next_ = index_ + most_pairs_;
    segments_ = scratch_of<Segment>(Slot::segments, 2 * k_);
    pairs_ = scratch_of<T>(Slot::pairs, ptrdiff_t(most_pairs_) * (d_ + 1));
    joint_ = pairs_ + ptrdiff_t(most_pairs_) * d_;
  }

  // Leaves rows to blocks, more each time.
  void wait() {
    waiting_ = pause_;
    pause_ *= 2;
  }

  Block<T> as_block(const T* x, int vectors, T* joint) const {
    return {vectors, 0, d_, k_, x, nullptr, joint, capacity_, 0, 0};
  }

  bool add_tile(int first, int count, const Separation<T>& separation, double* result) {
    first_ = first;
    count_ = count;
    n_segments_ = n_pairs_ = 0;
    transpose_(first, count, x_);
    separation.score(as_block(x_, whole(count) / S::lanes, bounds_));
    guess();
    list_guesses();
    const int guesses = n_segments_;
    for (int s = 0; s < guesses; ++s) {
      gather(segments_[s]);
      evaluate(segments_[s]);
    }
    if (!list_others(separation)) return false;
    for (int s = guesses; s < n_segments_; ++s) {
      gather(segments_[s]);
      evaluate(segments_[s]);
    }
    copy_weights<S>(weights_, first, count, weight_);
    result[0] += respond_pairs(guesses);
    const ptrdiff_t per_component = family_.sums_per_component();
    for (int s = 0; s < n_segments_; ++s) {
      const Segment& one = segments_[s];
      family_.accumulate_of(one.k, pairs_ + ptrdiff_t(one.begin) * d_, joint_ + one.begin,
                            one.vectors(), result + 1 + one.k * per_component);
    }
    return true;
  }

  // The component of the largest score.
  void guess() {
    for (int i = 0; i < count_; i += 4 * S::lanes) {
      Real best[4], at[4];
      MIXFOLD_UNROLL
      for (int u = 0; u < 4; ++u) {
        best[u] = S::load(bounds_ + i + u * S::lanes);
        at[u] = S::zero();
      }
      for (int k = 1; k < k_; ++k) {
        const T* const score = bounds_ + ptrdiff_t(k) * capacity_ + i;
        const Real here = S::splat(T(k));
        MIXFOLD_UNROLL
        for (int u = 0; u < 4; ++u) {
          const Real b = S::load(score + u * S::lanes);
          const auto better = b > best[u];
          at[u] = S::select(better, here, at[u]);
          best[u] = S::select(better, b, best[u]);
        }
      }
      MIXFOLD_UNROLL
      for (int u = 0; u < 4; ++u) S::store(guess_ + i + u * S::lanes, at[u]);
    }
  }

  void list_guesses() {
    for (int k = 0; k < k_; ++k) next_[k] = 0;
    for (int i = 0; i < count_; ++i) ++next_[int(guess_[i])];
    for (int k = 0; k < k_; ++k) {
      const int count = next_[k];
      next_[k] = n_pairs_;
      if (count) close_segment(k, n_pairs_ + count);
    }
    for (int i = 0; i < count_; ++i) index_[next_[int(guess_[i])]++] = i;
    for (int s = 0; s < n_segments_; ++s) pad(segments_[s]);
  }

  // The pairs from the last segment on, up to `end`, are one of component k.
  void close_segment(int k, int end) {
    segments_[n_segments_++] = {k, n_pairs_, end - n_pairs_, T(0)};
    n_pairs_ = whole(end);
  }

  void pad(const Segment& s) {
    const int end = s.begin + s.count;
    for (int p = end; p < whole(end); ++p) index_[p] = index_[end - 1];
  }

  // Components whose responsibility is not zero in any case, besides the guesses. False if there are
  // too many, or if a row is too far from its guess for numbers.
  bool list_others(const Separation<T>& separation) {
    const int guesses = n_segments_;
    const double most = affordable() * count_;
    int found = count_;
    if (!note_peaks()) return false;
    const T margin = Extremes<T>::negligible;
    for (int k = 0; k < k_; ++k) {
      int end = n_pairs_;
      for (int s = 0; s < guesses; ++s) {
        const Segment& one = segments_[s];
        if (one.k == k || separation.far(one.k, k, one.least + margin, one.least)) continue;
        if (end + whole(one.count) + 2 * S::lanes > most_pairs_) return false;
        end = list_near(separation, one, k, margin, end);
      }
      if (end == n_pairs_) continue;
      found += end - n_pairs_;
      if (found > most) return false;
      close_segment(k, end);
      pad(segments_[n_segments_ - 1]);
    }
    return true;
  }

  // The log joint densities of the guesses are the largest so far. False if one overflowed.
  bool note_peaks() {
    bool finite = true;
    for (int s = 0; s < n_segments_; ++s) {
      Segment& one = segments_[s];
      const int end = one.begin + one.count;
      one.least = joint_[one.begin];
      for (int p = one.begin; p < end; ++p) {
        peak_[index_[p]] = joint_[p];
        one.least = joint_[p] > one.least ? one.least : joint_[p];
      }
      finite = finite && one.least > Extremes<T>::least;
      for (int p = end; p < whole(end); ++p) joint_[p] = T(-Extremes<T>::least);
    }
    return finite;
  }

  // Lists, from `end` on, the rows of a segment to which component k may matter; their end.
  int list_near(const Separation<T>& separation, const Segment& one, int k, T margin, int end) {
    const T* const y = pairs_ + ptrdiff_t(one.begin) * d_;
    const Real most = S::splat(separation.log_scale(k) - margin), half = S::splat(T(0.5));
    const auto list = [&](int v, const Real& distance) MIXFOLD_INLINE_LAMBDA {
      const int p = one.begin + v * S::lanes;
      const auto near = most - half * distance * distance > S::load(joint_ + p);
      end += copy_marked<S::lanes>(S::marked(near), index_ + p, index_ + end);
    };
    const int vectors = one.vectors();
    int v = 0;
    for (; v + 4 <= vectors; v += 4) {
      Real distance[4];
      separation.template distances<4>(one.k, k, y + v * ptrdiff_t(d_) * S::lanes, distance);
      MIXFOLD_UNROLL
      for (int u = 0; u < 4; ++u) list(v + u, distance[u]);
    }
    for (; v < vectors; ++v) {
      Real distance[1];
      separation.template distances<1>(one.k, k, y + v * ptrdiff_t(d_) * S::lanes, distance);
      list(v, distance[0]);
    }
    return end;
  }

  void gather(const Segment& one) {
    transpose_.gather(first_, index_ + one.begin, one.count, pairs_ + ptrdiff_t(one.begin) * d_);
  }

  void evaluate(const Segment& one) {
    T* const x = pairs_ + ptrdiff_t(one.begin) * d_;
    family_.log_joint_of(one.k, x, one.vectors(), x, joint_ + one.begin);
  }

  // Responsibilities times weights in place of log joint densities; the weighted log-likelihood.
  double respond_pairs(int guesses) {
    for (int s = guesses; s < n_segments_; ++s) {
      const Segment& one = segments_[s];
      for (int p = one.begin; p < one.begin + one.count; ++p) {
        T& peak = peak_[index_[p]];
        peak = joint_[p] > peak ? joint_[p] : peak;
      }
    }
    for (int i = 0; i < whole(count_); i += S::lanes) S::store(total_ + i, S::zero());
    for (int s = 0; s < n_segments_; ++s) exponentiate_segment(segments_[s]);
    auto likelihood = S::zero();
    for (int i = count_; i < whole(count_); ++i) peak_[i] = 0, total_[i] = 1;
    for (int i = 0; i < count_; i += S::lanes) {
      const Real weight = S::load(weight_ + i), total = S::load(total_ + i);
      likelihood += weight * (S::load(peak_ + i) + log_normal<S, T>(total));
      S::store(total_ + i, weight / total);
    }
    for (int s = 0; s < n_segments_; ++s) {
      const Segment& one = segments_[s];
      const int end = one.begin + one.count;
      for (int p = one.begin; p < end; ++p) joint_[p] *= total_[index_[p]];
      for (int p = end; p < whole(end); ++p) joint_[p] = 0;
    }
    return double(S::sum(likelihood));
  }

  void exponentiate_segment(const Segment& one) {
    for (int p = one.begin; p < one.begin + one.count; p += S::lanes) {
      T peak[S::lanes];
      for (int i = 0; i < S::lanes; ++i) peak[i] = peak_[index_[p + i]];
      const Real below = S::load(joint_ + p) - S::load(peak);
      const Real e = exp_nonpositive<S>(below, Extremes<T>::negligible);
      S::store(joint_ + p, e);
    }
    for (int p = one.begin; p < one.begin + one.count; ++p) total_[index_[p]] += joint_[p];
  }

  const Rows& rows_;
  const double* weights_;
  Family& family_;
  int k_, d_;
  const Transposer<S, In, T> transpose_;
  Separation<T> separation_;
  int waiting_ = 1, pause_ = 16384, length_ = short_tile;
  int capacity_ = 0, most_pairs_ = 0, first_ = 0, count_ = 0, n_pairs_ = 0, n_segments_ = 0;
  Segment* segments_ = nullptr;
  int *index_ = nullptr, *next_ = nullptr;
  T *x_ = nullptr, *bounds_ = nullptr, *guess_ = nullptr, *peak_ = nullptr,
    *total_ = nullptr, *weight_ = nullptr, *pairs_ = nullptr, *joint_ = nullptr;
};

}  // namespace mixfold::MIXFOLD_ISA
