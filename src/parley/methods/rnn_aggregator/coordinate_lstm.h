// One small LSTM for all coordinates of a model: it reads what the clients sent for a coordinate, one client after the
// other, and says one number.
//
// Weights, in one flat vector: for the input, forget, candidate and output gate of each unit a row [inputs, units, 1];
// then the row [units] that makes the answer. Coordinates are worked off in blocks, so that memory does not grow with
// the model.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "parley/base/random.h"

namespace parley {

// A step as an LSTM can read it, whatever its size (Andrychowicz et al. 2016, app. A, p = 10): (ln|x|/p, sign) where
// |x| ≥ e⁻ᵖ, (−1, eᵖx) below.
struct ReadableStep {
  float size, direction;
};
ReadableStep readable(float step);

class CoordinateLstm {
 public:
  static constexpr std::size_t kInputs = 3;  // size and direction of a client's step, and its share in the average

  explicit CoordinateLstm(std::size_t units) : units_(units) {}

  std::size_t size() const { return 4 * units_ * row() + units_; }
  // Small random gates, and no answer yet: every coordinate gets 0.
  void initialise(std::span<float> weights, Stream& stream) const;

  // What the clients sent for every coordinate: steps[k][i], and the share of each client.
  struct Sequence {
    std::vector<std::span<const float>> steps;
    std::vector<float> shares;
  };
  void answer(std::span<const float> weights, const Sequence& sequence, std::span<float> answers) const;
  // Adds to `gradient` the derivative of Σ_i slopes[i]·answer_i by the weights, over these coordinates.
  void add_gradient(std::span<const float> weights, const Sequence& sequence, std::span<const std::size_t> coordinates,
                    std::span<const float> slopes, std::span<float> gradient) const;

 private:
  std::size_t row() const { return kInputs + units_ + 1; }

  std::size_t units_;
};

}  // namespace parley
