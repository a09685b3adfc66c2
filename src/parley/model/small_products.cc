#include "parley/model/small_products.h"

#include <algorithm>
#include <cassert>

#include "parley/model/lanes.h"

namespace parley {
namespace {

// How many rows and vectors of a result fit into the registers.
#ifdef __AVX512F__
constexpr std::size_t kMostRows = 6, kMostVectors = 4;
#else
constexpr std::size_t kMostRows = 6, kMostVectors = 2;
#endif

// What becomes of a product P: C = P, C = C + P (from the first term on), or C = C − lr·P.
enum class Into { set, add, step };

struct Right {
  const float* data;
  std::size_t stride;  // floats from row to row
};
struct Result {
  float* data;
  std::size_t stride;
  float lr = 0.0f;
};

// Rows × (Vectors · kLanes) of a result, all of them in registers meanwhile.
template <Into into, std::size_t Rows, std::size_t Vectors>
void multiply_block(std::size_t inner, const Left& a, const Right& b, const Result& c) {
  Lanes sums[Rows][Vectors];
  for (std::size_t i = 0; i < Rows; ++i) {
    for (std::size_t j = 0; j < Vectors; ++j) {
      sums[i][j] = Lanes{};
      if (into == Into::add) load(c.data + i * c.stride + j * kLanes, sums[i][j]);
    }
  }
  const float* from = b.data;
  for (std::size_t k = 0; k < inner; ++k, from += b.stride) {
    Lanes row[Vectors];
    for (std::size_t j = 0; j < Vectors; ++j) load(from + j * kLanes, row[j]);
    for (std::size_t i = 0; i < Rows; ++i) {
      const float factor = a.data[i * a.to_row + k * a.to_inner];
      for (std::size_t j = 0; j < Vectors; ++j) sums[i][j] += factor * row[j];
    }
  }
  for (std::size_t i = 0; i < Rows; ++i) {
    for (std::size_t j = 0; j < Vectors; ++j) {
      float* const to = c.data + i * c.stride + j * kLanes;
      if (into == Into::step) {
        Lanes old;
        load(to, old);
        sums[i][j] = old - c.lr * sums[i][j];
      }
      store(sums[i][j], to);
    }
  }
}

template <Into into, std::size_t Vectors>
void multiply_rows(std::size_t rows, std::size_t inner, const Left& a, const Right& b, const Result& c) {
  switch (rows) {
    case 6: return multiply_block<into, 6, Vectors>(inner, a, b, c);
    case 5: return multiply_block<into, 5, Vectors>(inner, a, b, c);
    case 4: return multiply_block<into, 4, Vectors>(inner, a, b, c);
    case 3: return multiply_block<into, 3, Vectors>(inner, a, b, c);
    case 2: return multiply_block<into, 2, Vectors>(inner, a, b, c);
    default: return multiply_block<into, 1, Vectors>(inner, a, b, c);
  }
}

// use(first, number) for blocks of rows of nearly the same height.
template <class Use>
void for_row_blocks(std::size_t rows, Use use) {
  const std::size_t blocks = (rows + kMostRows - 1) / kMostRows;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t row = rows * block / blocks;
    use(row, rows * (block + 1) / blocks - row);
  }
}

// `columns` is a multiple of kLanes.
template <Into into>
void multiply_columns(std::size_t rows, std::size_t columns, std::size_t inner, const Left& a, const Right& b,
                      const Result& c) {
  for (std::size_t column = 0; column < columns;) {
    const bool wide = columns - column >= kMostVectors * kLanes;
    const Right from{b.data + column, b.stride};
    const Result to{c.data + column, c.stride, c.lr};
    wide ? multiply_rows<into, kMostVectors>(rows, inner, a, from, to)
         : multiply_rows<into, 1>(rows, inner, a, from, to);
    column += wide ? kMostVectors * kLanes : kLanes;
  }
}

template <Into into>
void multiply_dense(std::size_t rows, std::size_t columns, std::size_t inner, const Left& a, const float* b, float* c) {
  // B's columns stay near while all rows pass them.
  for (std::size_t column = 0; column < columns;) {
    const std::size_t width = columns - column >= kMostVectors * kLanes ? kMostVectors * kLanes : kLanes;
    for_row_blocks(rows, [&](std::size_t row, std::size_t height) {
      multiply_columns<into>(height, width, inner, {a.data + row * a.to_row, a.to_row, a.to_inner},
                             {b + column, columns}, {c + row * columns + column, columns});
    });
    column += width;
  }
}

}  // namespace

void multiply_small(std::size_t rows, std::size_t columns, std::size_t inner, const Left& a, const float* b, float* c) {
  multiply_dense<Into::set>(rows, columns, inner, a, b, c);
}

void add_small_product(std::size_t rows, std::size_t columns, std::size_t inner, const Left& a, const float* b,
                       float* c) {
  multiply_dense<Into::add>(rows, columns, inner, a, b, c);
}

// The weights are by far the largest of the three and are passed once, row by row.
void descend(std::size_t examples, std::size_t out, std::size_t in, const float* deltas, const float* inputs, float lr,
             float* weight) {
  assert(examples <= kMostExamples);
  const std::size_t whole = in / kLanes * kLanes, rest = in - whole;
  // The last columns, filled up with zeros.
  float last[kMostExamples * kLanes] = {}, sums[kMostRows * kLanes];
  for (std::size_t k = 0; k < examples; ++k) std::copy_n(inputs + k * in + whole, rest, last + k * kLanes);
  for_row_blocks(out, [&](std::size_t row, std::size_t height) {
    const Left a{deltas + row, 1, out};
    float* const to = weight + row * in;
    multiply_columns<Into::step>(height, whole, examples, a, {inputs, in}, {to, in, lr});
    if (rest == 0) return;
    multiply_rows<Into::set, 1>(height, examples, a, {last, kLanes}, {sums, kLanes});
    for (std::size_t i = 0; i < height; ++i) {
      for (std::size_t j = 0; j < rest; ++j) to[i * in + whole + j] -= lr * sums[i * kLanes + j];
    }
  });
}

}  // namespace parley
