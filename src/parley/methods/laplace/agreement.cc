#include "parley/methods/laplace/agreement.h"

#include <algorithm>

namespace parley {
namespace {

constexpr const char *kSketch = "sketch", *kSketched = "sketched", *kOnTheWay = "warm_loss";
constexpr std::size_t kPlaces = 1024;  // the square is known to √(2/1024), 4 %
// A step at one point lowers the loss by about a tenth; training that does not do twice as much has had its time.
constexpr double kWorthwhile = 0.8;

double squares_of(auto numbers) {
  double sum = 0.0;
  for (const auto x : numbers) sum += static_cast<double>(x) * static_cast<double>(x);
  return sum;
}

}  // namespace

std::vector<ChannelSpec> Agreement::channels() const {
  if (options_.warm == 0) return {};
  return {{.name = kSketch, .count = kPlaces, .statistic = true}};
}

std::vector<ScalarSpec> Agreement::scalars() const {
  if (options_.warm == 0) return {};
  return {{kSketched}, {kOnTheWay}};
}

void Agreement::start(State& state) const {
  state.add_scalar(kWarming, true, options_.warm > 0 ? 1.0 : 0.0);
  state.add_scalar(kOnTheWay, false, 0.0);
}

void Agreement::measure(std::span<const float> step, Update& update) const {
  std::vector<double> places(kPlaces, 0.0);
  Stream signs(0, "sketch");  // the same for all
  for (std::size_t begin = 0; begin < step.size(); begin += 64) {
    const std::uint64_t bits = signs.bits();
    for (std::size_t i = begin; i < std::min(begin + 64, step.size()); ++i) {
      const auto x = static_cast<double>(step[i]);
      places[i % kPlaces] += (bits >> (i - begin) & 1) != 0 ? x : -x;
    }
  }
  const std::span<float> sketch = update[kSketch];
  std::ranges::transform(places, sketch.begin(), [](double x) { return static_cast<float>(x); });
  update.scalar(kSketched) = squares_of(std::span<const float>(sketch));
  update.scalar(kOnTheWay) = update.training.loss_sum / static_cast<double>(update.training.examples);
}

void Agreement::leave_out(Update& update) const {
  if (options_.warm > 0) update.pack(kSketch, pack_constant(0.0f));
}

void Agreement::judge(ServerTask& task) const {
  const double loss = task.sum.scalar(kOnTheWay) / task.sum.weight();
  const double apart = task.sum.scalar(kSketched) / task.sum.weight();
  const FlatDouble together = task.sum.take_mean(kSketch);
  const double agreement = apart > 0.0 ? std::min(1.0, squares_of(std::span(together)) / apart) : 0.0;
  double& before = task.state.scalar(kOnTheWay);
  const bool worthwhile = before == 0.0 || loss < kWorthwhile * before;
  const bool goes_on = task.round < options_.warm || (agreement > options_.agreement && worthwhile);
  task.state.scalar(kWarming) = goes_on ? 1.0 : 0.0;
  before = loss;
  task.metrics["agreement"] = agreement;
}

}  // namespace parley
