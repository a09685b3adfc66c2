#include "parley/methods/running_statistics.h"

#include <algorithm>
#include <cassert>

#include "parley/methods/wrapper.h"

namespace parley {
namespace {

using Bound = ChannelSpec::Bound;
constexpr const char *kMean = "running_mean", *kVar = "running_var", *kMeanAgain = "running_mean_again",
                     *kDegrees = "degrees", *kTotalDegrees = "total_degrees";

class RunningStatistics final : public MethodWrapper {
 public:
  RunningStatistics(std::unique_ptr<Method> method, const Layout& layout, VarianceRule rule)
      : MethodWrapper(std::move(method)), pairs_(running_pairs(layout)), rule_(rule) {
    for (const auto& pair : pairs_) size_ += pair.mean.size;
    assert(size_ > 0);
  }

  Schema schema() const override {
    Schema schema = method_->schema();
    const auto add = [&](ChannelSpec spec) {
      spec.statistic = true;
      schema.channels.push_back(std::move(spec));
    };
    add({.name = kMean, .count = size_});
    add({.name = kVar, .count = size_, .times = by_degrees() ? kDegrees : "", .bound = Bound::non_negative});
    // A square is summed as a product with another channel: exactly, in double. A float could not hold var + mean².
    if (rule_ == VarianceRule::mixture) add({.name = kMeanAgain, .count = size_, .times = kMean});
    if (by_degrees()) add({.name = kDegrees, .count = size_, .bound = Bound::count});
    if (rule_ == VarianceRule::literal) {
      add({.name = kTotalDegrees, .count = 1, .weighting = Weighting::plain, .bound = Bound::count});
    }
    return schema;
  }

  void client(const ClientTask& task, Update& update) const override {
    method_->client(task, update);
    gather(task.model.parameters(), &RunningPair::mean, update[kMean]);
    gather(task.model.parameters(), &RunningPair::var, update[kVar]);
    if (rule_ == VarianceRule::mixture) update[kMeanAgain] = update[kMean];
    const auto degrees = static_cast<float>(task.data.size() - 1);
    if (by_degrees()) {
      std::ranges::fill(update[kDegrees], degrees);
      update.pack(kDegrees, pack_constant(degrees));
    }
    if (rule_ == VarianceRule::literal) update[kTotalDegrees][0] = degrees;
  }

  void server(ServerTask& task) const override {
    method_->server(task);
    // Where nobody has two examples there is no variance to pool; what the method made of it stays.
    if (by_degrees() && task.sum.total(kDegrees)[0] == 0.0) return;
    const auto var = variance(task.sum);
    const auto theta = task.state.at("theta");
    scatter(task.sum.take_mean(kMean), &RunningPair::mean, theta);
    scatter(var, &RunningPair::var, theta);
  }

 private:
  bool by_degrees() const { return rule_ == VarianceRule::pooled || rule_ == VarianceRule::literal; }

  FlatDouble variance(Sum& sum) const {
    if (rule_ == VarianceRule::literal) {
      FlatDouble var = sum.take_total(kVar);
      for (double& v : var) v /= sum.weight() * sum.total(kTotalDegrees)[0];  // Eq. 5
      return var;
    }
    FlatDouble var = sum.take_mean(kVar);
    if (rule_ != VarianceRule::mixture) return var;
    const auto means = sum.total(kMean), squares = sum.total(kMeanAgain);
    for (std::size_t i = 0; i < var.size(); ++i) {
      const double mean = means[i] / sum.weight();
      var[i] += std::max(squares[i] / sum.weight() - mean * mean, 0.0);  // rounding may make a spread of 0 negative
    }
    return var;
  }

  void gather(std::span<const float> theta, LayoutEntry RunningPair::*which, Flat& values) const {
    auto to = values.begin();
    for (const auto& pair : pairs_) to = std::ranges::copy((pair.*which).of(theta), to).out;
  }
  void scatter(std::span<const double> values, LayoutEntry RunningPair::*which, std::span<float> theta) const {
    auto from = values.begin();
    for (const auto& pair : pairs_) {
      for (float& x : (pair.*which).of(theta)) x = static_cast<float>(*from++);
    }
  }

  std::vector<RunningPair> pairs_;
  VarianceRule rule_;
  std::size_t size_ = 0;  // channels of all norm layers
};

}  // namespace

std::unique_ptr<Method> aggregate_running_statistics(std::unique_ptr<Method> method, const Layout& layout,
                                                     VarianceRule rule) {
  return std::make_unique<RunningStatistics>(std::move(method), layout, rule);
}

}  // namespace parley
