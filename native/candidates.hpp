// E-steps in which a row belongs to a few of many components.
#pragma once

#include <stddef.h>

#include "kernels.hpp"

namespace mixfold {

// How densities are evaluated. With y = (x - mean) whiten, or W (x - mean), they are
// log_scale - |y|^2 / 2; linear ones are eta . x + log_scale.
enum class CandidateForm { diagonal, triangular, linear };

// Numbers that are multiplied together lie in blocks of so many, whatever the instruction set.
inline constexpr int candidate_block = 8;

// The number of blocks of d numbers.
constexpr int candidate_blocks(int d) { return (d + candidate_block - 1) / candidate_block; }

// The columns that a block of rows of a lower triangular matrix has.
constexpr int candidate_columns(int block, int d) {
  const int columns = (block + 1) * candidate_block;
  return columns < d ? columns : d;
}

// Numbers of a lower triangular matrix in blocks of rows, in each of which columns follow one
// another.
constexpr ptrdiff_t candidate_triangle(int d) {
  ptrdiff_t count = 0;
  for (int block = 0; block < candidate_blocks(d); ++block)
    count += ptrdiff_t(candidate_columns(block, d)) * candidate_block;
  return count;
}

// Packed numbers of a component: its mean and scale, mean and triangle, or natural parameters, each
// filled up with zeros to whole blocks.
constexpr ptrdiff_t candidate_length(CandidateForm form, int d) {
  const ptrdiff_t vector = ptrdiff_t(candidate_blocks(d)) * candidate_block;
  if (form == CandidateForm::linear) return vector;
  return vector + (form == CandidateForm::diagonal ? vector : candidate_triangle(d));
}

// Numbers of a component in the table of sums.
constexpr ptrdiff_t candidate_sums(CandidateForm form, int d) {
  if (form == CandidateForm::linear) return 1 + d;
  return 1 + d + (form == CandidateForm::diagonal ? d : ptrdiff_t(d) * (d + 1) / 2);
}

struct CandidateComponents {
  CandidateForm form;
  int components, d;
  const double *packed, *log_scale;
};

// `members[offsets[i] .. offsets[i + 1])` are those of list i; every component has `width`
// neighbours. Numbers that are those of no component or list are left out.
struct CandidateLists {
  int count, width;
  const int *offsets, *members, *neighbours;
};

// Every row has `given` components, and those of `listed` lists, to start with; the `kept` best that
// are found go to `numbers` and `joint`, the best first, and -1 and minus infinity where there are
// fewer.
struct CandidateSearch {
  int given, listed, kept, steps;
  const int *start, *lists;
  int* numbers;
  double* joint;
};

// Rows `rows[offsets[k] .. offsets[k + 1])` belong to component k with these weights.
struct CandidateRows {
  int first, last;
  const int *offsets, *rows;
  const double* weights;
};

}  // namespace mixfold
