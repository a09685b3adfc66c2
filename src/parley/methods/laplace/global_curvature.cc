#include "parley/methods/laplace/global_curvature.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parley/gauss/normal.h"

namespace parley {
namespace {

// kept ← memory·kept + (1 − memory)·measured.
void blend(std::span<float> kept, std::span<const double> measured, double memory) {
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i] = static_cast<float>(memory * static_cast<double>(kept[i]) + (1.0 - memory) * measured[i]);
  }
}

void set_identity(std::span<float> packed, std::size_t width) {
  std::ranges::fill(packed, 0.0f);
  for (std::size_t i = 0; i < width; ++i) packed[packed_size(i + 1) - 1] = 1.0f;
}

}  // namespace

GlobalCurvature::GlobalCurvature(std::shared_ptr<const Layout> layout, const LayerMatrices& matrices,
                                 const RestOfModel& rest)
    : layout_(std::move(layout)),
      rest_layout_(std::make_shared<const Layout>(rest.entries)),
      matrices_(matrices),
      rest_(rest) {}

std::vector<ChannelSpec> GlobalCurvature::channels() const {
  std::vector<ChannelSpec> all;
  const auto add = [&](const char* name, std::size_t size) {
    if (size > 0) all.push_back({.name = name, .size = size, .statistic = true});
  };
  add(kInputs, matrices_.inputs_size());
  add(kOutputs, matrices_.outputs_size());
  add(kRest, rest_.size);
  return all;
}

void GlobalCurvature::start(State& state) const {
  for (const auto& channel : channels()) {
    const auto& layout = channel.name == kInputs    ? matrices_.inputs_layout()
                         : channel.name == kOutputs ? matrices_.outputs_layout()
                                                    : rest_layout_;
    state.add(channel.name, layout, false, Flat(channel.size, 0.0f));
  }
}

void GlobalCurvature::merge(State& state, Sum& sum, double memory) const {
  for (const auto& channel : channels()) blend(state.at(channel.name), sum.take_mean(channel.name), memory);
}

void GlobalCurvature::replace_inputs(State& state, std::span<const double> inputs) const {
  if (!inputs.empty()) blend(state.at(kInputs), inputs, 0.0);
  for (const auto& layer : matrices_.all()) set_identity(layer.outputs_of(state.at(kOutputs)), layer.rows());
  if (rest_.size > 0) std::ranges::fill(state.at(kRest), 1.0f);
}

FisherFactors GlobalCurvature::factors_of(const State& state, const LayerMatrix& layer) const {
  return {.rows = layer.rows(),
          .width = layer.width(),
          .inputs = layer.inputs_of(state.at(kInputs)),
          .outputs = layer.outputs_of(state.at(kOutputs))};
}

// A batch is one look at each number, so half of what is known of one is the mean of its tensor.
std::vector<double> GlobalCurvature::diagonal(const State& state) const {
  std::vector<double> all;
  for (const auto& entry : rest_layout_->entries()) {
    const auto own = entry.of(state.at(kRest));
    const double mean = std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
    for (const float value : own) all.push_back(0.5 * (static_cast<double>(value) + mean));
  }
  return all;
}

const LayerMatrix* GlobalCurvature::precondition(const State& state, double damping, std::span<double> gradient) const {
  const LayerMatrix* failed = nullptr;
  matrices_.change_layers(gradient, [&](const LayerMatrix& layer, std::span<double> g) {
    if (failed == nullptr && !parley::precondition(factors_of(state, layer), damping, g)) failed = &layer;
  });
  if (rest_.size == 0) return failed;
  const auto curvature = diagonal(state);
  rest_.for_each([&](std::size_t place, std::size_t i) { gradient[place] /= curvature[i] + damping; });
  return failed;
}

double GlobalCurvature::predicted_kl(const State& state, std::span<const double> step) const {
  double twice = 0.0;
  std::vector<double> matrix;
  for (const auto& layer : matrices_.all()) {
    layer.gather(step, matrix);
    twice += fisher_norm(factors_of(state, layer), matrix);
  }
  if (rest_.size == 0) return 0.5 * twice;
  const auto curvature = diagonal(state);
  rest_.for_each([&](std::size_t place, std::size_t i) { twice += curvature[i] * step[place] * step[place]; });
  return 0.5 * twice;
}

void GlobalCurvature::draw(const State& state, const PosteriorDraw& how, Stream& stream, std::span<float> theta) const {
  const auto scale = static_cast<float>(std::sqrt(how.scale));
  std::ranges::copy(state.at("theta"), theta.begin());
  Flat noise;
  matrices_.change_layers(theta, [&](const LayerMatrix& layer, std::span<float> w) {
    noise.resize(w.size());
    gauss::fill_normal(stream, noise);
    colour_by_fisher(factors_of(state, layer), how.examples, how.prior_precision, noise);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += scale * noise[i];
  });
  if (rest_.size == 0) return;
  const auto curvature = diagonal(state);
  noise.resize(rest_.size);
  gauss::fill_normal(stream, noise);
  rest_.for_each([&](std::size_t place, std::size_t i) {
    theta[place] += scale * noise[i] / static_cast<float>(std::sqrt(how.examples * curvature[i] + how.prior_precision));
  });
}

}  // namespace parley
