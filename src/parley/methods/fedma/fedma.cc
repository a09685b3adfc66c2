#include "parley/methods/fedma/fedma.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/data/partition.h"
#include "parley/methods/aggregate.h"
#include "parley/methods/fedma/matched_average.h"

namespace parley {
namespace {

constexpr const char* kOwn = "own_theta";
constexpr const char* kRound = "own_round";
constexpr const char* kClasses = "class_counts";  // examples of each class that a client holds

[[noreturn]] void refuse_model(const std::string& method) {
  fail(
      "model.name: {} needs a plain chain of dense and convolutional layers, whose units can be exchanged; this model "
      "has shortcuts, recurrent or grouped layers; choose mlp, cnn_mnist, cnn_cifar, lenet or cnn4",
      method);
}

UnitChain chain_of(const MethodContext& context, const std::string& method) {
  require_own_aggregation(method, context, "the norms of a unit move with it");
  const auto chain = UnitChain::of(*context.layout);
  if (!chain) refuse_model(method);
  return *chain;
}

class Matched : public Method {
 public:
  Matched(const MethodContext& context, const std::string& method)
      : layout_(context.layout), chain_(chain_of(context, method)), name_(method), features_(context.task.features()) {}

  // Every network by itself: units can be matched only while they can be told apart.
  Schema schema() const override {
    return {.channels = {{.name = "theta", .layout = layout_, .weighting = Weighting::each, .relative_to = "theta"}}};
  }

  void check_model(const NewModel& model) const override {
    if (!units_are_exchangeable(*model(), chain_, features_)) refuse_model(name_);
  }

 protected:
  // Matches and averages the hidden layers from `first` on; those before are in one order already. Leaves `networks`,
  // one for each of sum.singles(), in the common order.
  FlatDouble average(const ServerTask& task, std::size_t first, std::vector<WeightedNetwork>& networks) const {
    for (const Single& single : task.sum.singles()) networks.push_back({single["theta"], single.weight});
    return matched_average(chain_, first, task.state.at("theta"), networks);
  }

  std::shared_ptr<const Layout> layout_;
  UnitChain chain_;

 private:
  std::string name_;
  std::size_t features_;
};

class Pfnm final : public Matched {
 public:
  explicit Pfnm(const MethodContext& context)
      : Matched(context, "pfnm"), own_start_(context.options.flag("own_start")) {}

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    if (own_start_ && task.round == 1) {
      Stream stream = task.stream("pfnm.start");
      initialise(*layout_, task.model.parameters(), stream);
    }
    task.train(update);
    std::ranges::copy(task.model.parameters(), update["theta"].begin());
  }

  void server(ServerTask& task) const override {
    std::vector<WeightedNetwork> networks;
    task.move_theta(average(task, 0, networks));
  }

 private:
  bool own_start_;
};

class FedMa final : public Matched {
 public:
  explicit FedMa(const MethodContext& context)
      : Matched(context, "fedma"), classes_(context.task.loss == Loss::cross_entropy ? context.task.outputs : 0) {}

  Schema schema() const override {
    Schema schema = Matched::schema();
    if (classes_ > 0) {
      schema.channels.push_back({.name = kClasses,
                                 .count = classes_,
                                 .weighting = Weighting::each,
                                 .bound = ChannelSpec::Bound::count,
                                 .statistic = true});
    }
    return schema;
  }

  void client(const ClientTask& task, Update& update) const override {
    const std::size_t frozen = frozen_layers(task.round);
    load(task, frozen);
    const auto theta = task.model.parameters();
    // All that is trained of the frozen layers stands before the next one's weight.
    const auto fixed = task.broadcast.at("theta").first(frozen == 0 ? 0 : chain_.layers()[frozen].weight.offset);
    task.train(update, {}, {.after_step = [&](std::size_t) { std::ranges::copy(fixed, theta.begin()); }});
    keep_statistics(task, frozen);
    std::ranges::copy(theta, update["theta"].begin());
    if (classes_ > 0) {
      std::ranges::transform(label_counts(*task.data.data, task.data.rows), update[kClasses].begin(),
                             [](std::size_t count) { return static_cast<float>(count); });
    }
    task.memory.keep({{kOwn, update["theta"]}, {kRound, Flat{static_cast<float>(task.round)}}});
  }

  void server(ServerTask& task) const override {
    const std::size_t frozen = frozen_layers(task.round);
    std::vector<WeightedNetwork> networks;
    FlatDouble mean = average(task, frozen, networks);
    if (classes_ > 0) weigh_classes(task.sum.singles(), networks, mean);
    task.move_theta(mean);
    task.metrics["frozen_layers"] = static_cast<double>(frozen);
  }

 private:
  // The output of a class is averaged by who has how much of it (Wang et al. 2020, §2.3): a client that never saw it
  // has nothing to say but that it is not there. A class that nobody has stays as it is averaged.
  void weigh_classes(std::span<const Single> singles, std::span<const WeightedNetwork> networks,
                     FlatDouble& mean) const {
    const auto& last = chain_.layers().back();
    std::vector<LayoutEntry> entries = last.vectors;
    entries.push_back(last.weight);
    for (std::size_t c = 0; c < classes_; ++c) {
      double held = 0.0;
      for (const auto& single : singles) held += double{single[kClasses][c]};
      if (held == 0.0) continue;
      for (const auto& entry : entries) {
        const std::size_t width = entry.size / classes_;
        const auto row = entry.of(std::span<double>(mean)).subspan(c * width, width);
        std::ranges::fill(row, 0.0);
        for (std::size_t k = 0; k < networks.size(); ++k) {
          const auto own = entry.of(std::span<const float>(networks[k].theta)).subspan(c * width, width);
          for (std::size_t i = 0; i < width; ++i) row[i] += double{singles[k][kClasses][c]} / held * double{own[i]};
        }
      }
    }
  }

  // A pass has a round for each layer: 0 layers are frozen in its first round, all but the last in its last.
  std::size_t frozen_layers(std::size_t round) const { return (round - 1) % (chain_.hidden_layers() + 1); }

  // The frozen layers as they were sent; above them the client's own of the round before, with the inputs in the order
  // that its units were matched to. A client that was not there takes the average for its own.
  void load(const ClientTask& task, std::size_t frozen) const {
    task.load();
    const ClientRecord* record = task.memory.known();
    if (frozen == 0 || !record || record->at(kRound)[0] != static_cast<float>(task.round - 1)) return;
    Flat own = record->at(kOwn);
    match_units(chain_, frozen - 1, task.broadcast.at("theta"), own);
    for (std::size_t layer = frozen; layer < chain_.layers().size(); ++layer)
      copy_layer(layer, own, task.model.parameters());
  }

  // Batch statistics of frozen layers do not change either.
  void keep_statistics(const ClientTask& task, std::size_t frozen) const {
    for (std::size_t layer = 0; layer < frozen; ++layer) {
      copy_layer(layer, task.broadcast.at("theta"), task.model.parameters());
    }
  }

  void copy_layer(std::size_t layer, std::span<const float> from, std::span<float> to) const {
    const auto copy = [&](const LayoutEntry& entry) { std::ranges::copy(entry.of(from), entry.of(to).begin()); };
    copy(chain_.layers()[layer].weight);
    for (const auto& vector : chain_.layers()[layer].vectors) copy(vector);
  }

  std::size_t classes_;  // 0: the data have none
};

}  // namespace

void add_fedma(MethodRegistry& registry) {
  registry.add({.name = "pfnm",
                .summary = "Averages the clients' networks after putting their hidden units into one order.",
                .source = "Yurochkin et al. 2019",
                .options = {{"own_start", false,
                             "in round 1 every client starts from random weights of its own, not from common ones"}}},
               [](const MethodContext& context) { return std::make_unique<Pfnm>(context); });
  registry.add({.name = "fedma",
                .summary = "Matches and averages one layer per round; the clients then train the layers above it anew.",
                .source = "Wang et al. 2020 (matched averaging)"},
               [](const MethodContext& context) { return std::make_unique<FedMa>(context); });
}

}  // namespace parley
