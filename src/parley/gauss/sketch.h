// A symmetric positive matrix A (width²) known by its products with a few random directions, Y = A·Ω, and its trace.
//
// Both are linear in A, so sketches of several matrices add up to the sketch of their sum, and whoever has rows X with
// A = XᵀX needs two thin products, Xᵀ(XΩ), in place of XᵀX. What is made of it is Nyström's approximation (Tropp et al.
// 2017, Algorithm 3), A ≈ U diag(values) Uᵀ, with the rest of the trace spread evenly over all other directions.
//
// A sketch is Y, width × rank, row by row, and behind it the trace.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace parley {

inline std::size_t sketch_size(std::size_t width, std::size_t rank) {
  return width * rank + 1;
}

// Ω, width × rank, row by row: standard normals, the same for everybody.
std::vector<float> sketch_directions(std::size_t width, std::size_t rank);

class SketchedMatrix {
 public:
  // REQUIRES 0 < rank ≤ width.
  SketchedMatrix(std::span<const float> sketch, std::size_t width, std::size_t rank);

  std::size_t width() const { return width_; }
  // The eigenvalues whose vectors are known, none below 0, and the one of all other directions.
  const std::vector<double>& values() const { return values_; }
  double rest() const { return rest_; }
  double trace() const { return trace_; }

  // In place, from M (rows × width) to M·f(A), where f acts on the eigenvalues.
  using OfEigenvalue = std::function<double(double)>;
  void multiply(const OfEigenvalue& f, std::size_t rows, std::span<double> m) const;

 private:
  std::size_t width_;
  double trace_, rest_ = 0.0;
  std::vector<double> values_, vectors_;  // width × values, row by row; columns orthonormal
};

}  // namespace parley
