#include "parley/methods/laplace/global_curvature.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parley/gauss/normal.h"
#include "parley/methods/laplace/moment_codes.h"

namespace parley {
namespace {

constexpr const char* kFixedWeight = "fixed_weight";  // of the examples whose fixed A are in the state

// kept ← memory·kept + (1 − memory)·sum/weight.
void blend(std::span<float> kept, std::span<const double> sum, double weight, double memory) {
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i] = static_cast<float>(memory * static_cast<double>(kept[i]) + (1.0 - memory) * sum[i] / weight);
  }
}

// diagonal·I, packed.
void set_diagonal(std::span<float> packed, std::size_t width, float diagonal) {
  std::ranges::fill(packed, 0.0f);
  for (std::size_t i = 0; i < width; ++i) packed[packed_size(i + 1) - 1] = diagonal;
}

float mean_diagonal(std::span<const float> packed, std::size_t width) {
  double sum = 0.0;
  for (std::size_t i = 0; i < width; ++i) sum += static_cast<double>(packed[packed_size(i + 1) - 1]);
  return static_cast<float>(sum / static_cast<double>(width));
}

FisherFactors factors_of(const CurvatureView& curvature, const LayerMatrix& layer) {
  return {.rows = layer.rows(),
          .width = layer.width(),
          .inputs = layer.inputs_of(curvature.inputs),
          .outputs = layer.outputs_of(curvature.outputs),
          .rank = layer.rank};
}

}  // namespace

GlobalCurvature::GlobalCurvature(const LayerMatrices& matrices, const RestOfModel& rest, const LaplaceOptions& options)
    : rest_layout_(std::make_shared<const Layout>(rest.entries)),
      matrices_(matrices),
      rest_(rest),
      kfac_(options.kfac) {
  if (matrices.all().empty()) return;
  // What comes first in a model takes the data. Warm rounds measure single positions, which is not what reduce wants.
  const LayerMatrix& first = matrices.all()[0];
  const bool one_position = first.layer.weight.shape.size() == 2;
  if (first.layer.weight.offset == 0 && (one_position || options.positions != Positions::reduce)) {
    fixed_size_ = first.inputs_size();
  }
}

bool GlobalCurvature::convolves() const {
  return std::ranges::any_of(layers(), [](const LayerMatrix& matrix) { return matrix.layer.weight.shape.size() > 2; });
}

std::vector<ChannelSpec> GlobalCurvature::channels() const {
  std::vector<ChannelSpec> all{
      inputs_channel(), outputs_channel(), {.name = kRest, .count = rest_.size, .statistic = true}};
  std::erase_if(all, [](const ChannelSpec& channel) { return channel.count == 0; });
  return all;
}

ChannelSpec GlobalCurvature::inputs_channel() const {
  ChannelSpec channel{.name = kInputs, .count = matrices_.inputs_size(), .statistic = true};
  channel.unpack = [all = input_blocks(true), changing = input_blocks(false)](std::span<const std::byte> packed,
                                                                              std::span<float> inputs) {
    ByteReader from(packed);
    std::ranges::fill(inputs, 0.0f);
    for (const auto& block : from.take<std::uint32_t>() == all.size() ? all : changing) {
      block.take(from, inputs);
    }
    from.finish();
  };
  return channel;
}

ChannelSpec GlobalCurvature::outputs_channel() const {
  ChannelSpec channel{.name = kOutputs, .count = matrices_.outputs_size(), .statistic = true};
  channel.unpack = [blocks = output_blocks(), kfac = kfac_](std::span<const std::byte> packed,
                                                            std::span<float> outputs) {
    ByteReader from(packed);
    for (const auto& block : blocks) {
      if (kfac) {
        block.take(from, outputs);
      } else {
        set_diagonal(block.of(outputs), block.width, from.take<float>());
      }
    }
    from.finish();
  };
  return channel;
}

void GlobalCurvature::Block::put(ByteBuffer& to, std::size_t bits, std::span<float> all) const {
  sketched ? put_all(to, of(all)) : put_moments(to, bits, width, of(all));
}

void GlobalCurvature::Block::take(ByteReader& from, std::span<float> all) const {
  sketched ? from.take_all(of(all)) : take_moments(from, width, of(all));
}

std::vector<GlobalCurvature::Block> GlobalCurvature::input_blocks(bool with_fixed) const {
  std::vector<Block> blocks;
  for (const auto& layer : matrices_.all()) {
    blocks.push_back({layer.inputs_offset, layer.inputs_size(), layer.width(), layer.rank > 0});
  }
  if (!with_fixed) blocks.erase(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(fixed_layers()));
  return blocks;
}

std::vector<GlobalCurvature::Block> GlobalCurvature::output_blocks() const {
  std::vector<Block> blocks;
  for (const auto& layer : matrices_.all()) {
    blocks.push_back({layer.outputs_offset, packed_size(layer.rows()), layer.rows()});
  }
  return blocks;
}

void GlobalCurvature::start(State& state) const {
  state.add_scalar(kFixedWeight, false, 0.0);
  for (const auto& channel : channels()) {
    const auto& layout = channel.name == kInputs    ? matrices_.inputs_layout()
                         : channel.name == kOutputs ? matrices_.outputs_layout()
                                                    : rest_layout_;
    state.add(channel.name, layout, false, Flat(channel.size(), 0.0f));
  }
}

void GlobalCurvature::pack_inputs(bool with_fixed, std::size_t bits, Update& update) const {
  if (matrices_.all().empty()) return;
  const std::span<float> inputs = update[kInputs];
  if (!with_fixed) std::ranges::fill(inputs.first(fixed_size_), 0.0f);
  if (bits == 32) {
    if (!with_fixed && fixed_size_ > 0) update.pack(kInputs, pack_omitted({{0, fixed_size_}}));
    return;
  }
  ByteBuffer to;
  const auto blocks = input_blocks(with_fixed);
  put(to, static_cast<std::uint32_t>(blocks.size()));
  for (const auto& block : blocks) block.put(to, bits, inputs);
  update.pack(kInputs, {.how = Packing::own, .bytes = std::move(to.bytes)});
}

void GlobalCurvature::pack_outputs(std::size_t bits, Update& update) const {
  if (matrices_.all().empty() || (kfac_ && bits == 32)) return;
  const std::span<float> outputs = update[kOutputs];
  ByteBuffer to;
  if (kfac_) {
    for (const auto& block : output_blocks()) block.put(to, bits, outputs);
  } else {
    put_all(to, level_outputs(outputs));
  }
  update.pack(kOutputs, {.how = Packing::own, .bytes = std::move(to.bytes)});
}

// Of B the server uses the mean diagonal alone when it is not kfac: one number per layer.
std::vector<float> GlobalCurvature::level_outputs(std::span<float> outputs) const {
  std::vector<float> means;
  for (const auto& block : output_blocks()) {
    means.push_back(mean_diagonal(block.of(outputs), block.width));
    set_diagonal(block.of(outputs), block.width, means.back());
  }
  return means;
}

void GlobalCurvature::blend_inputs(State& state, const Sum& sum, double fixed_weight, double memory) const {
  const auto kept = state.at(kInputs);
  const auto sums = sum.total(kInputs);
  double& before = state.scalar(kFixedWeight);
  if (before + fixed_weight > 0.0) {
    const double share = before / (before + fixed_weight);
    blend(kept.first(fixed_size_), sums.first(fixed_size_), fixed_weight > 0.0 ? fixed_weight : 1.0, share);
    before += fixed_weight;
  }
  blend(kept.subspan(fixed_size_), sums.subspan(fixed_size_), sum.weight(), memory);
}

void GlobalCurvature::merge(State& state, const Sum& sum, double fixed_weight, double memory) const {
  if (rest_.size > 0) blend(state.at(kRest), sum.total(kRest), sum.weight(), memory);
  if (matrices_.all().empty()) return;
  blend_inputs(state, sum, fixed_weight, memory);
  blend(state.at(kOutputs), sum.total(kOutputs), sum.weight(), memory);
  if (!kfac_) level_outputs(state.at(kOutputs));
}

FlatDouble GlobalCurvature::merge_inputs(State& state, const Sum& sum, double fixed_weight) const {
  if (rest_.size > 0) std::ranges::fill(state.at(kRest), 1.0f);
  if (matrices_.all().empty()) return {};
  blend_inputs(state, sum, fixed_weight, 0.0);
  for (const auto& layer : matrices_.all()) {
    set_diagonal(layer.outputs_of(state.at(kOutputs)), layer.rows(), 1.0f);
  }
  const auto all = sum.total(kInputs);
  FlatDouble mean(all.begin(), all.end());
  for (double& x : mean) x /= sum.weight();
  if (fixed_weight < sum.weight()) std::ranges::copy(state.at(kInputs).first(fixed_size_), mean.begin());
  return mean;
}

CurvatureView GlobalCurvature::in(const State& state) const {
  const auto channel = [&](const char* name) { return state.has(name) ? state.at(name) : std::span<const float>(); };
  return {.inputs = channel(kInputs), .outputs = channel(kOutputs), .rest = channel(kRest)};
}

// A batch is one look at each number, so half of what is known of one is the mean of its tensor.
std::vector<double> GlobalCurvature::diagonal(const CurvatureView& curvature) const {
  std::vector<double> all;
  for (const auto& entry : rest_layout_->entries()) {
    const auto own = entry.of(curvature.rest);
    const double mean = std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
    for (const float value : own) all.push_back(0.5 * (static_cast<double>(value) + mean));
  }
  return all;
}

const LayerMatrix* GlobalCurvature::precondition(const CurvatureView& curvature, double damping,
                                                 std::span<const std::span<double>> gradients) const {
  std::vector<std::vector<double>> own(gradients.size());
  for (const auto& layer : matrices_.all()) {
    for (std::size_t i = 0; i < own.size(); ++i) layer.gather(std::span<const double>(gradients[i]), own[i]);
    const std::vector<std::span<double>> all(own.begin(), own.end());
    if (!parley::precondition(factors_of(curvature, layer), damping, all)) return &layer;
    for (std::size_t i = 0; i < own.size(); ++i) layer.scatter(std::span<const double>(own[i]), gradients[i]);
  }
  if (rest_.size == 0) return nullptr;
  const auto rest = diagonal(curvature);
  for (const auto gradient : gradients) {
    rest_.for_each([&](std::size_t place, std::size_t i) { gradient[place] /= rest[i] + damping; });
  }
  return nullptr;
}

void GlobalCurvature::times(const CurvatureView& curvature, double damping, std::span<double> step) const {
  matrices_.change_layers(step, [&](const LayerMatrix& layer, std::span<double> v) {
    times_fisher(factors_of(curvature, layer), damping, v);
  });
  if (rest_.size == 0) return;
  const auto rest = diagonal(curvature);
  rest_.for_each([&](std::size_t place, std::size_t i) { step[place] *= rest[i] + damping; });
}

double GlobalCurvature::predicted_kl(const CurvatureView& curvature, std::span<const double> step) const {
  double twice = 0.0;
  std::vector<double> matrix;
  for (const auto& layer : matrices_.all()) {
    layer.gather(step, matrix);
    twice += fisher_norm(factors_of(curvature, layer), matrix);
  }
  if (rest_.size == 0) return 0.5 * twice;
  const auto rest = diagonal(curvature);
  rest_.for_each([&](std::size_t place, std::size_t i) { twice += rest[i] * step[place] * step[place]; });
  return 0.5 * twice;
}

std::vector<double> GlobalCurvature::spectrum(const CurvatureView& curvature) const {
  std::vector<double> all = rest_.size > 0 ? diagonal(curvature) : std::vector<double>();
  for (const auto& layer : matrices_.all()) {
    const auto own = fisher_spectrum(factors_of(curvature, layer));
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void GlobalCurvature::draw(const State& state, const Posterior::Draw& how, Stream& stream,
                           std::span<float> theta) const {
  const auto scale = static_cast<float>(std::sqrt(how.scale));
  std::ranges::copy(state.at("theta"), theta.begin());
  Flat noise;
  matrices_.change_layers(theta, [&](const LayerMatrix& layer, std::span<float> w) {
    noise.resize(w.size());
    gauss::fill_normal(stream, noise);
    colour_by_fisher(factors_of(in(state), layer), how.examples, how.prior_precision, noise);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += scale * noise[i];
  });
  if (rest_.size == 0) return;
  const auto rest = diagonal(in(state));
  noise.resize(rest_.size);
  gauss::fill_normal(stream, noise);
  rest_.for_each([&](std::size_t place, std::size_t i) {
    theta[place] += scale * noise[i] / static_cast<float>(std::sqrt(how.examples * rest[i] + how.prior_precision));
  });
}

}  // namespace parley
