// The dense products of the native models, on oneDNN: it makes its kernels for the CPU features that it finds, where
// OpenBLAS knows CPUs by model and takes a kernel of 2004 for one that is newer than itself.
//
// A product runs on the calling thread alone. Parallelism is over clients, and a product shared out over threads would
// round differently by their number.
#pragma once

#include <cstddef>
#include <string>

namespace parley {

enum class Form { plain, transposed };

// A row-major matrix as an operand; `stride` floats from one stored row to the next.
struct Operand {
  const float* data;
  std::size_t stride;
  Form form = Form::plain;
};

// C = scale·op(A)·op(B) + keep·C, where C is rows × columns with `stride` floats from row to row.
void multiply(std::size_t rows, std::size_t columns, std::size_t inner, Operand a, Operand b, float* c,
              std::size_t stride, float scale = 1.0f, float keep = 0.0f);

// The same where all three are dense.
inline void multiply(Form op_a, Form op_b, std::size_t rows, std::size_t columns, std::size_t inner, const float* a,
                     const float* b, float* c, float scale = 1.0f, float keep = 0.0f) {
  multiply(rows, columns, inner, {a, op_a == Form::plain ? inner : rows, op_a},
           {b, op_b == Form::plain ? columns : inner, op_b}, c, columns, scale, keep);
}

// oneDNN asks OpenMP how many threads it may use, and the answer belongs to the calling thread: one, from here on.
// multiply() does this by itself.
void use_one_openmp_thread();

// What computes here, for people to read: "oneDNN 2.6.3 avx2, own loops avx2", and once LibTorch is loaded
// also ", OpenBLAS Zen".
std::string kernels_in_use();

// The OPENBLAS_CORETYPE that this CPU's features ask for; empty where OpenBLAS may choose.
std::string openblas_core_of_this_cpu();

}  // namespace parley
