#include "parley/model/variational.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/gauss/elementary.h"
#include "parley/gauss/loops.h"
#include "parley/gauss/normal.h"

namespace parley {
namespace {

bool is_private(const LayoutEntry& entry) {
  return entry.name.starts_with("private/");
}

// The layer an entry belongs to: "fc1" of "fc1.bias".
std::string_view layer_of(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

std::size_t count_shared(const Layout& network) {
  std::size_t count = 0;
  for (const auto& entry : network.entries()) {
    if (is_trainable(entry.role) && !is_private(entry)) count += entry.size;
  }
  return count;
}

void set_identity(const LayoutEntry& square, std::span<float> values) {
  const auto width = static_cast<std::size_t>(square.shape.front());
  std::ranges::fill(values, 0.0f);
  for (std::size_t i = 0; i < width; ++i) values[i * width + i] = 1.0f;
}

// Means, then what is measured, and the ρ behind the means: the Layout moves what is trained to the front.
Layout with_rhos(const Layout& network, std::vector<LayoutEntry> private_entries) {
  std::vector<LayoutEntry> entries = network.entries();
  for (auto& entry : private_entries) {
    entries.push_back(std::move(entry));
  }
  const std::size_t count = entries.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_trainable(entries[i].role)) continue;
    LayoutEntry rho = entries[i];
    rho.name = "rho/" + rho.name;
    entries.push_back(std::move(rho));
  }
  return Layout(std::move(entries));
}

// Any network. Layers that can draw their outputs do so; all other weights are drawn for each batch, w = μ + σz, and
// ∂μ = g and ∂σ² = g·z/2σ, where g is the network's gradient at the draw.
class WeightDraws final : public Variational {
 public:
  explicit WeightDraws(std::unique_ptr<Model> network)
      : Variational(network->layout(), {}), network_(std::move(network)), noise_of_weights_(gaussians()) {
    spread_ = network_->spread(variances_of_weights(), by_variance(), noise());
    for (const auto& entry : network_->layout().entries()) {
      const bool is_spread = std::ranges::any_of(spread_, [&](const auto& s) { return s.name == entry.name; });
      if (is_trainable(entry.role) && !is_spread) drawn_.push_back(entry);
    }
  }

  std::size_t outputs() const override { return network_->outputs(); }
  Loss loss() const override { return network_->loss(); }
  bool exclusive() const override { return network_->exclusive(); }
  void reseed(const Stream& noise) override {
    Variational::reseed(noise);
    network_->reseed(noise);
  }
  void predict(const Batch& batch, std::span<float> outputs) override {
    load();
    network_->predict(batch, outputs);
  }

 private:
  std::span<float> measured() { return parameters().subspan(2 * gaussians()); }
  std::span<float> by_variance() { return gradients().subspan(gaussians(), gaussians()); }

  // Means and draws into the network.
  void load() {
    update_variances();
    const auto weights = network_->parameters();
    std::ranges::copy(means(), weights.begin());
    std::ranges::copy(measured(), weights.begin() + static_cast<std::ptrdiff_t>(gaussians()));
    for (const auto& entry : drawn_) {
      const auto z = entry.of(std::span(noise_of_weights_)), weight = entry.of(weights);
      gauss::fill_normal(noise(), z);
      const auto variance = entry.of(variances());
      for (std::size_t i = 0; i < entry.size; ++i) weight[i] += std::sqrt(variance[i]) * z[i];
    }
  }

  double backward_once(const Batch& batch) override {
    load();
    std::ranges::fill(by_variance(), 0.0f);
    const double loss = network_->backward(batch);
    std::ranges::copy(network_->gradients().first(gaussians()), gradients().begin());
    for (const auto& entry : drawn_) {
      const auto by_mean = entry.of(gradients()), by_square = entry.of(by_variance());
      const auto variance = entry.of(variances()), z = entry.of(std::span<const float>(noise_of_weights_));
      for (std::size_t i = 0; i < entry.size; ++i) by_square[i] = by_mean[i] * z[i] / (2.0f * std::sqrt(variance[i]));
    }
    from_variance_to_rho();
    std::ranges::copy(network_->parameters().subspan(gaussians()), measured().begin());  // training moves them
    return loss;
  }

  std::unique_ptr<Model> network_;
  std::vector<LayoutEntry> spread_, drawn_;
  Flat noise_of_weights_;
};

// Nobody keeps a client's own between rounds.
void refuse_statistics(const Layout& pair) {
  for (const auto& entry : pair.entries()) {
    if (is_trainable(entry.role) || !is_private(entry)) continue;
    fail(
        "method.private = true: the private part would have running statistics of its own ({}); use model.norm = "
        "\"group\", or set false",
        entry.name);
  }
}

}  // namespace

Model::~Model() = default;

std::unique_ptr<Variational> Model::variational(bool) const {
  return nullptr;
}

Variational::Variational(const Layout& network, std::vector<LayoutEntry> private_entries)
    : layout_(with_rhos(network, std::move(private_entries))),
      gaussians_(layout_.trainable() / 2),
      shared_(count_shared(network)),
      parameters_(layout_.size()),
      gradients_(layout_.size()),
      variances_(gaussians_) {}

void Variational::start_private(Stream& stream, std::span<float> means) const {
  std::vector<LayoutEntry> own;
  std::string_view last;  // layer
  for (const auto& entry : layout_.entries()) {
    if (!is_trainable(entry.role) || entry.name.starts_with("rho/")) continue;
    if (is_private(entry)) {
      own.push_back(entry);
    } else {
      last = layer_of(entry.name);
    }
  }
  const Layout start(std::move(own));
  initialise(start, means, stream);
  for (const auto& entry : start.entries()) {
    const auto values = entry.of(means);
    if (entry.name.ends_with("gate")) {
      std::ranges::fill(values, 1.0f);
    } else if (entry.name.find("lateral") != std::string::npos) {
      set_identity(entry, values);
    } else if (layer_of(entry.name) == fmt::format("private/{}", last)) {
      std::ranges::fill(values, 0.0f);
    }
  }
}

std::span<float> Variational::mean_of(std::size_t entry, std::span<float> flat) const {
  return layout_.entries()[entry].of(flat);
}

std::span<float> Variational::rho_of(std::size_t entry, std::span<float> flat) const {
  return layout_.entries()[entry].of(flat.subspan(gaussians_));
}

void Variational::update_variances() {
  const float* rho = rhos().data();
  float* const variance = variances_.data();
  gauss::for_each(gaussians_, [=](std::size_t i) { variance[i] = gauss::exp_float(2.0f * rho[i]); });
}

void Variational::from_variance_to_rho() {
  const float* variance = variances_.data();
  float* const gradient = gradients_.data() + gaussians_;
  gauss::for_each(gaussians_, [=](std::size_t i) { gradient[i] *= 2.0f * variance[i]; });
}

double Variational::backward(const Batch& batch) {
  double loss = backward_once(batch);
  if (draws_ == 1) return loss;
  summed_ = gradients_;
  for (std::size_t draw = 1; draw < draws_; ++draw) {
    loss += backward_once(batch);
    gauss::for_each(summed_.size(), [&](std::size_t i) { summed_[i] += gradients_[i]; });
  }
  const auto count = static_cast<float>(draws_);
  gauss::for_each(summed_.size(), [&](std::size_t i) { gradients_[i] = summed_[i] / count; });
  return loss / static_cast<double>(draws_);
}

std::unique_ptr<Variational> make_variational(std::unique_ptr<Model> network, bool with_private) {
  if (auto own = network->variational(with_private)) return own;
  if (!with_private) return std::make_unique<WeightDraws>(std::move(network));
  auto pair = network->with_private();
  if (pair == nullptr) {
    fail(
        "method.private = true: this model has no form with a private part; set false, or use mlp, logistic, linear, "
        "char_lstm, bilstm or, with model.backend = \"torch\", cnn_mnist, cnn_cifar, lenet or cnn4");
  }
  refuse_statistics(pair->layout());
  return std::make_unique<WeightDraws>(std::move(pair));
}

}  // namespace parley
