#include "parley/methods/laplace/line_search.h"

#include <algorithm>
#include <array>
#include <string>

#include "parley/base/errors.h"
#include "parley/methods/laplace/point.h"

namespace parley {
namespace {

constexpr std::array kLengths = {0.0, 0.0625, 0.25, 1.0, 4.0, 16.0};
// What a client says of a length at which its loss is not finite.
constexpr double kHopeless = 1e30;

std::string loss_at(std::size_t place) {
  return "loss_at_" + std::to_string(place);
}

double try_length(const ClientTask& task, double length) {
  const auto theta = task.broadcast.at("theta"), step = task.broadcast.at(LineSearch::kStep);
  task.load();
  const auto weights = task.model.parameters();
  for (std::size_t i = 0; i < task.model.layout().trainable(); ++i) {
    weights[i] = theta[i] + static_cast<float>(length) * step[i];
  }
  try {
    return point_loss(task);
  } catch (const RefusedUpdate&) {
    if (length == 0.0) throw;
    return kHopeless;
  }
}

// What the prior's share of a length c is made of: ½p‖θ + c·step‖² less ½p‖θ‖².
struct Penalty {
  double prior, along = 0.0, square = 0.0;

  Penalty(const State& state, double p) : prior(p) {
    const auto theta = state.at("theta"), step = state.at(LineSearch::kStep);
    for (std::size_t i = 0; i < step.size(); ++i) {
      along += static_cast<double>(theta[i]) * static_cast<double>(step[i]);
      square += static_cast<double>(step[i]) * static_cast<double>(step[i]);
    }
  }
  double at(double length) const { return prior * length * (along + 0.5 * length * square); }
};

}  // namespace

std::span<const double> searched_lengths() {
  return kLengths;
}

std::optional<BestLength> best_length(std::span<const double> values) {
  const auto best = static_cast<std::size_t>(std::ranges::min_element(values) - values.begin());
  if (best == 0) return std::nullopt;
  // By Newton's divided differences about the best, or about its neighbour where it is the longest.
  const std::size_t middle = std::min(best, kLengths.size() - 2);
  const double left = kLengths[middle - 1], x = kLengths[middle], right = kLengths[middle + 1];
  const double slope = (values[middle] - values[middle - 1]) / (x - left);
  const double curvature = ((values[middle + 1] - values[middle]) / (right - x) - slope) / (right - left);
  if (!(curvature > 0.0)) return BestLength{kLengths[best], values[best]};
  const double vertex = std::clamp(0.5 * (left + x - slope / curvature), left, right);
  return BestLength{vertex, values[middle - 1] + (vertex - left) * (slope + curvature * (vertex - x))};
}

LineSearch::LineSearch(const LaplaceOptions& options, bool convolves)
    : use_(options.line_search),
      convolves_(convolves),
      possible_(use_ == LineSearchUse::always ||
                (use_ == LineSearchUse::automatic && convolves && options.uses_secants())) {}

bool LineSearch::wants(bool knows_secants) const {
  return possible_ && (use_ == LineSearchUse::always || !knows_secants);
}

std::vector<ScalarSpec> LineSearch::scalars() const {
  std::vector<ScalarSpec> all;
  for (std::size_t place = 0; possible_ && place < kLengths.size(); ++place) all.push_back({loss_at(place)});
  return all;
}

void LineSearch::start(State& state, std::shared_ptr<const Layout> layout) const {
  Flat zero(layout->size(), 0.0f);
  if (!possible_) return state.add(kStep, std::move(layout), false, std::move(zero));
  state.add_sent_while(kSearching, kStep, std::move(layout), std::move(zero));
  state.add_scalar(kSearching, true, 0.0);
  state.add_scalar(kReach, false, 1.0);
}

void LineSearch::measure(const ClientTask& task, Update& update) const {
  for (std::size_t place = 0; place < kLengths.size(); ++place) {
    update.scalar(loss_at(place)) = try_length(task, kLengths[place]);
  }
  const std::size_t examples = task.data.size();
  update.training = {update.scalar(loss_at(0)) * static_cast<double>(examples), examples, 1};
}

double LineSearch::finish(ServerTask& task, double prior) const {
  State& state = task.state;
  const Penalty penalty(state, prior);
  std::vector<double> values;
  for (std::size_t place = 0; place < kLengths.size(); ++place) {
    values.push_back(task.sum.scalar(loss_at(place)) / task.sum.weight() + penalty.at(kLengths[place]));
  }
  const auto best = best_length(values);
  for (float& v : state.at(kStep)) v *= best ? static_cast<float>(best->length) : 0.0f;
  state.scalar(kSearching) = 0.0;
  // The longest of the next search is then as long as the shortest of this one.
  state.scalar(kReach) = best ? 1.0 : state.scalar(kReach) * kLengths[1] / kLengths.back();
  task.metrics["length"] = best ? best->length : 0.0;
  return best ? values[0] - best->value : 0.0;
}

}  // namespace parley
