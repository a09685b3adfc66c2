#include "parley/methods/rnn_aggregator/coordinate_lstm.h"

#include <Eigen/Core>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace parley {
namespace {

constexpr std::size_t kBlock = 512;
constexpr Eigen::Index kInputs = CoordinateLstm::kInputs;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;  // a column a coordinate
using ConstMap = Eigen::Map<const Matrix>;

// The state after one client, with what going back needs.
struct Moment {
  Matrix seen;                              // inputs, state before, and 1
  Matrix input, forget, candidate, output;  // gates
  Matrix before, cell, squashed;            // memory before and after, and tanh of the latter
};

Matrix sigmoid(const Matrix& x) {
  return (1.0f + (-x.array()).exp()).inverse();
}

class Block {
 public:
  Block(std::span<const float> weights, std::size_t units, std::size_t row)
      : units_(static_cast<Eigen::Index>(units)),
        gates_(weights.data(), 4 * units_, static_cast<Eigen::Index>(row)),
        answer_(weights.data() + gates_.size(), 1, units_) {}

  // Reads the whole sequence for the coordinates and returns their answers.
  Matrix read(const CoordinateLstm::Sequence& sequence, std::span<const std::size_t> coordinates) {
    const auto width = static_cast<Eigen::Index>(coordinates.size());
    Matrix state = Matrix::Zero(units_, width), memory = state;
    moments_.clear();
    for (std::size_t k = 0; k < sequence.steps.size(); ++k) {
      Moment& now = moments_.emplace_back();
      now.seen.resize(gates_.cols(), width);
      for (Eigen::Index i = 0; i < width; ++i) {
        const auto step = readable(sequence.steps[k][coordinates[static_cast<std::size_t>(i)]]);
        now.seen(0, i) = step.size;
        now.seen(1, i) = step.direction;
      }
      now.seen.row(2).setConstant(sequence.shares[k]);
      now.seen.middleRows(kInputs, units_) = state;
      now.seen.bottomRows(1).setOnes();
      step(now, memory);
      memory = now.cell;
      state = now.output.cwiseProduct(now.squashed);
    }
    last_ = state;
    return answer_ * state;
  }

  // The way back from slopes at the answers; adds to the weights' gradient.
  void go_back(const Matrix& slopes, Eigen::Map<Matrix> gates, Eigen::Map<Matrix> answer) const {
    answer += slopes * last_.transpose();
    Matrix state = answer_.transpose() * slopes;
    Matrix memory = Matrix::Zero(units_, slopes.cols());
    Matrix pulls(4 * units_, slopes.cols());
    for (std::size_t k = moments_.size(); k-- > 0;) {
      const Moment& now = moments_[k];
      const auto one = [](const Matrix& gate) { return (gate.array() * (1.0f - gate.array())).eval(); };
      memory.array() += state.array() * now.output.array() * (1.0f - now.squashed.array().square());
      pulls.middleRows(0, units_) = memory.array() * now.candidate.array() * one(now.input);
      pulls.middleRows(units_, units_) = memory.array() * now.before.array() * one(now.forget);
      pulls.middleRows(2 * units_, units_) =
          memory.array() * now.input.array() * (1.0f - now.candidate.array().square());
      pulls.middleRows(3 * units_, units_) = state.array() * now.squashed.array() * one(now.output);
      gates += pulls * now.seen.transpose();
      state = (gates_.transpose() * pulls).middleRows(kInputs, units_);
      memory = memory.cwiseProduct(now.forget);
    }
  }

 private:
  void step(Moment& now, const Matrix& memory) const {
    const Matrix sums = gates_ * now.seen;
    now.input = sigmoid(sums.middleRows(0, units_));
    now.forget = sigmoid(sums.middleRows(units_, units_));
    now.candidate = sums.middleRows(2 * units_, units_).array().tanh();
    now.output = sigmoid(sums.middleRows(3 * units_, units_));
    now.before = memory;
    now.cell = now.forget.cwiseProduct(memory) + now.input.cwiseProduct(now.candidate);
    now.squashed = now.cell.array().tanh();
  }

  Eigen::Index units_;
  ConstMap gates_, answer_;
  std::vector<Moment> moments_;
  Matrix last_;
};

// Calls visit(begin, end) for blocks of [0, count).
template <class Visit>
void in_blocks(std::size_t count, Visit visit) {
  for (std::size_t begin = 0; begin < count; begin += kBlock) visit(begin, std::min(begin + kBlock, count));
}

}  // namespace

ReadableStep readable(float step) {
  constexpr float kP = 10.0f;
  const float size = std::abs(step);
  if (size < std::exp(-kP)) return {-1.0f, std::exp(kP) * step};
  return {std::log(size) / kP, step > 0.0f ? 1.0f : -1.0f};
}

void CoordinateLstm::initialise(std::span<float> weights, Stream& stream) const {
  assert(weights.size() == size());
  const double reach = 1.0 / std::sqrt(static_cast<double>(row()));
  std::ranges::fill(weights, 0.0f);
  for (float& x : weights.first(4 * units_ * row())) x = static_cast<float>(stream.uniform(-reach, reach));
}

void CoordinateLstm::answer(std::span<const float> weights, const Sequence& sequence, std::span<float> answers) const {
  Block block(weights, units_, row());
  std::vector<std::size_t> coordinates;
  in_blocks(answers.size(), [&](std::size_t begin, std::size_t end) {
    coordinates.resize(end - begin);
    std::iota(coordinates.begin(), coordinates.end(), begin);
    const Matrix out = block.read(sequence, coordinates);
    std::copy_n(out.data(), out.size(), answers.begin() + static_cast<std::ptrdiff_t>(begin));
  });
}

void CoordinateLstm::add_gradient(std::span<const float> weights, const Sequence& sequence,
                                  std::span<const std::size_t> coordinates, std::span<const float> slopes,
                                  std::span<float> gradient) const {
  assert(slopes.size() == coordinates.size() && gradient.size() == size());
  Block block(weights, units_, row());
  const auto units = static_cast<Eigen::Index>(units_);
  Eigen::Map<Matrix> gates(gradient.data(), 4 * units, static_cast<Eigen::Index>(row()));
  Eigen::Map<Matrix> answer(gradient.data() + gates.size(), 1, units);
  in_blocks(coordinates.size(), [&](std::size_t begin, std::size_t end) {
    block.read(sequence, coordinates.subspan(begin, end - begin));
    block.go_back(ConstMap(slopes.data() + begin, 1, static_cast<Eigen::Index>(end - begin)), gates, answer);
  });
}

}  // namespace parley
