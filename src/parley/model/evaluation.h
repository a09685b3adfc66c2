// How good a model is on some examples.
//
// Partial results of disjoint chunks merge into the result of the whole, so evaluation can be shared out over threads;
// merged in a fixed order, the numbers do not depend on how many.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "parley/model/model.h"
#include "parley/model/prediction.h"

namespace parley {

struct Evaluation {
  static constexpr std::size_t kBins = 15;  // of confidence, for the calibration error (Guo et al. 2017)
  struct Bin {
    std::size_t count = 0;
    double confidence = 0.0;  // sum
    std::size_t correct = 0;
  };

  std::size_t examples = 0;
  double loss_sum = 0.0;
  std::size_t correct = 0;
  double brier_sum = 0.0;
  // Of the fewest classes that together have this much of a row's probability, the likeliest first.
  static constexpr double kCredible = 0.9;
  std::size_t covered = 0;                 // rows whose label is among them
  std::size_t set_sizes = 0;               // how many they are, over all rows
  std::vector<std::size_t> class_total;    // by true class
  std::vector<std::size_t> class_correct;  // by true class
  std::array<Bin, kBins> bins{};
  static constexpr std::size_t kMostConfused = 100;  // classes up to which it is counted what each is taken for
  std::vector<std::size_t> confusion;                // true class × guess

  // Regression, by target, in the scale that it was trained on.
  struct Target {
    double absolute = 0.0;                // sum of the errors' sizes
    double squares = 0.0;                 // sum of the errors' squares
    double sum = 0.0, sum_squares = 0.0;  // of the target itself
    double unit = 1.0;                    // one of that scale in the target's own
  };
  std::vector<Target> targets;

  bool classified() const { return !class_total.empty(); }
  double loss() const;
  double accuracy() const;  // classification only, likewise the next four
  double ece() const;       // expected calibration error
  double brier() const;     // mean over examples of Σ_c (p_c − 1[y=c])²
  // The share of the rows whose label is in their credible set, at least kCredible where the model is not too sure, and
  // how many classes that set has in the mean.
  double coverage() const;
  double set_size() const;
  // Regression only; of several targets the mean.
  double mae() const;  // in the targets' own units, likewise the next
  double rmse() const;
  std::optional<double> r2() const;  // the share of the variance that is explained; nothing where nothing varies

  void merge(const Evaluation& other);
};

// Scratch space for evaluate(); one a worker thread.
struct EvaluationBuffer {
  BatchBuffer batch;
  Flat outputs;
};

inline constexpr std::size_t kEvaluationChunk = 500;

// The examples [begin, end) of the view, `chunk` at a time. Throws RunError when the loss is not finite: a failed
// evaluation is a failure, not a zero.
Evaluation evaluate(Model& model, const View& view, std::size_t begin, std::size_t end, EvaluationBuffer& buffer,
                    std::size_t chunk = kEvaluationChunk);
Evaluation evaluate(Model& model, const View& view);
// Likewise, of what was predicted for every row of the view.
Evaluation evaluate(const MeanPrediction& prediction, const View& view);

}  // namespace parley
