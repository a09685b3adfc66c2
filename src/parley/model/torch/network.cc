#include "parley/model/torch/network.h"

#include <cstring>

#include "parley/model/torch/blocks.h"
#include "parley/model/torch/roles.h"
#include "parley/model/torch/shown_layers.h"

namespace parley {
namespace {

using torch::nn::Module;

// What the layout calls a part: of a pair, the shared network's go by the names that they have without the other.
std::string name_of(const std::string& key) {
  for (const auto& [part, prefix] : {std::pair{"shared.", ""}, {"private.", "private/"}}) {
    if (key.starts_with(part)) return prefix + key.substr(std::strlen(part));
  }
  return key;
}

std::string join(const std::string& prefix, const std::string& name) {
  return name_of(prefix.empty() ? name : prefix + "." + name);
}

Layout layout_of(const Module& network) {
  std::vector<LayoutEntry> entries;
  const auto add = [&](const std::string& prefix, const auto& item, Role role) {
    entries.push_back({.name = join(prefix, item.key()), .shape = item.value().sizes().vec(), .role = role});
  };
  for (const auto& part : network.named_modules()) {
    const Module& module = *part.value();
    for (const auto& item : module.named_parameters(false)) {
      add(part.key(), item, parameter_role(item.key(), module.as<Norm>() != nullptr));
    }
    for (const auto& item : module.named_buffers(false)) add(part.key(), item, buffer_role(item.key(), item.value()));
  }
  return Layout(std::move(entries));
}

class NetworkModel final : public TorchModel {
 public:
  NetworkModel(std::string name, std::shared_ptr<Network> network, const Task& task)
      : TorchModel(layout_of(*network), task), name_(std::move(name)), network_(std::move(network)) {
    bind();
    find_layers();
  }

  void reseed(const Stream& noise) override { network_->reseed(noise); }
  std::span<const Layer> layers() const override { return display_.layers; }
  void observe(LayerObserver observer) override { display_.observer = std::move(observer); }
  std::vector<LayoutEntry> spread(std::span<float> variances, std::span<float> by_variance, Stream& noise) override;
  std::unique_ptr<Model> with_private() const override {
    auto pair = network_->with_private();
    return pair == nullptr ? nullptr : make_network_model(name_, std::move(pair), task());
  }

 protected:
  std::string describe() const override { return "model " + name_; }

  torch::Tensor forward(const torch::Tensor& inputs, bool training) override {
    if (network_->is_training() != training) network_->train(training);
    return network_->forward(inputs);
  }

  Graded grade(const torch::Tensor& inputs, std::span<const std::int32_t> labels) override {
    if (!network_->is_training()) network_->train();
    if (auto graded = network_->grade(inputs, labels)) return *std::move(graded);
    return TorchModel::grade(inputs, labels);
  }

 private:
  // Counters become floats here: the network only ever adds to them.
  void bind() {
    for (auto& item : network_->named_parameters()) {
      const LayoutEntry& entry = *layout().find(name_of(item.key()));
      item.value().set_data(weights_of(entry));
      item.value().mutable_grad() = gradient_of(entry);
    }
    for (auto& item : network_->named_buffers()) item.value().set_data(weights_of(*layout().find(name_of(item.key()))));
  }

  void find_layers() {
    for (const auto& part : network_->named_modules()) {
      auto* const shown = dynamic_cast<ShownLayer*>(part.value().get());
      if (shown == nullptr || !shown->can_be_shown()) continue;
      shown->attach(display_, display_.layers.size());
      const LayoutEntry* const bias = layout().find(join(part.key(), "bias"));
      display_.layers.push_back({.weight = *layout().find(join(part.key(), "weight")),
                                 .bias = bias == nullptr ? std::nullopt : std::optional(*bias)});
    }
  }

  std::string name_;
  std::shared_ptr<Network> network_;
  Display display_;
};

std::vector<LayoutEntry> NetworkModel::spread(std::span<float> variances, std::span<float> by_variance, Stream& noise) {
  std::vector<LayoutEntry> entries;
  const auto variance_of = [&](const std::string& layer, const char* name) -> torch::Tensor {
    const LayoutEntry* const entry = layout().find(join(layer, name));
    if (entry == nullptr) return {};
    entries.push_back(*entry);
    torch::Tensor variance = torch::from_blob(entry->of(variances).data(), entry->shape);
    variance.set_requires_grad(true);
    variance.mutable_grad() = torch::from_blob(entry->of(by_variance).data(), entry->shape);
    return variance;
  };
  for (const auto& part : network_->named_modules()) {
    auto* const layer = dynamic_cast<GaussianLayer*>(part.value().get());
    if (layer != nullptr) layer->spread(variance_of(part.key(), "weight"), variance_of(part.key(), "bias"), noise);
  }
  return entries;
}

}  // namespace

std::unique_ptr<Model> make_network_model(std::string name, std::shared_ptr<Network> network, const Task& task) {
  return std::make_unique<NetworkModel>(std::move(name), std::move(network), task);
}

}  // namespace parley
