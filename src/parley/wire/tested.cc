#include "parley/wire/tested.h"

#include <cmath>

#include "parley/base/errors.h"

namespace parley::wire {
namespace {

void require(bool sound, const char* what) {
  if (!sound) fail("it says of its test data what cannot be: {}", what);
}

bool is_sum(double value) {
  return std::isfinite(value) && value >= 0.0;
}

void read_bins(const v1::Tested& tested, Evaluation& evaluation) {
  require(tested.bins_size() == static_cast<int>(Evaluation::kBins), "a number of bins that nobody has");
  std::size_t count = 0, correct = 0;
  for (std::size_t i = 0; i < Evaluation::kBins; ++i) {
    const auto& bin = tested.bins(static_cast<int>(i));
    require(bin.correct() <= bin.count() && bin.count() <= evaluation.examples, "more in a bin than there are");
    // Rounding of a sum of so many numbers up to 1.
    require(is_sum(bin.confidence()) && bin.confidence() <= static_cast<double>(bin.count()) * (1.0 + 1e-6),
            "a confidence beyond 1");
    evaluation.bins[i] = {bin.count(), bin.confidence(), bin.correct()};
    count += bin.count();
    correct += bin.correct();
  }
  require(count == evaluation.examples && correct == evaluation.correct, "bins that do not add up");
}

}  // namespace

void fill(v1::Tested& to, const ClientResult& result) {
  const Evaluation& evaluation = result.evaluation;
  to.set_examples(evaluation.examples);
  to.set_loss(evaluation.loss_sum);
  if (evaluation.classified()) {
    to.set_correct(evaluation.correct);
    to.set_brier(evaluation.brier_sum);
    to.set_covered(evaluation.covered);
    to.set_set_sizes(evaluation.set_sizes);
    for (const auto& bin : evaluation.bins) {
      auto& added = *to.add_bins();
      added.set_count(bin.count);
      added.set_confidence(bin.confidence);
      added.set_correct(bin.correct);
    }
  }
  for (const auto& target : evaluation.targets) {
    auto& added = *to.add_targets();
    added.set_absolute(target.absolute);
    added.set_squares(target.squares);
    added.set_sum(target.sum);
    added.set_sum_squares(target.sum_squares);
    added.set_unit(target.unit);
  }
}

std::optional<ClientResult> result_in(const v1::Tested& tested) {
  if (tested.examples() == 0) return {};
  constexpr std::size_t kMost = std::size_t{1} << 40;  // sums of counts stay far from their end
  require(tested.examples() <= kMost, "more examples than anybody has");
  ClientResult result{};
  Evaluation& evaluation = result.evaluation;
  evaluation.examples = tested.examples();
  evaluation.loss_sum = tested.loss();
  require(std::isfinite(evaluation.loss_sum), "a loss that is not finite");
  if (tested.bins_size() > 0) {
    require(tested.correct() <= tested.examples(), "more right than there are");
    require(is_sum(tested.brier()), "a Brier score below 0");
    require(tested.covered() <= tested.examples(), "more labels covered than there are");
    constexpr std::uint64_t kMostClasses = std::uint64_t{1} << 20;
    require(tested.set_sizes() / kMostClasses <= tested.examples(), "sets of more classes than there are");
    evaluation.correct = tested.correct();
    evaluation.brier_sum = tested.brier();
    evaluation.covered = tested.covered();
    evaluation.set_sizes = tested.set_sizes();
    // All of one kind, because the node does not say of which.
    evaluation.class_total = {evaluation.examples};
    evaluation.class_correct = {evaluation.correct};
    read_bins(tested, evaluation);
  }
  for (const auto& target : tested.targets()) {
    require(is_sum(target.absolute()) && is_sum(target.squares()) && std::isfinite(target.sum()) &&
                is_sum(target.sum_squares()) && std::isfinite(target.unit()),
            "sums that are not finite");
    evaluation.targets.push_back(
        {target.absolute(), target.squares(), target.sum(), target.sum_squares(), target.unit()});
  }
  return result;
}

}  // namespace parley::wire
