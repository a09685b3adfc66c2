#include "parley/methods/fola/layered.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/gauss/normal.h"

namespace parley {
namespace {

// The mean of the clients' A; and, for clients to pull with, its largest eigenvectors and eigenvalues.
constexpr const char *kInputs = "inputs", *kVectors = "prior_vectors", *kValues = "prior_values";

std::int64_t extent(std::size_t n) {
  return static_cast<std::int64_t>(n);
}

}  // namespace

std::vector<Option> Layered::declared() {
  return {
      {"ridge", 0.1,
       "precision in every direction of the inputs, as a multiple of its mean; pulls towards the plain average",
       above(0.0)},
      {"ridge_growth", 1.0, "power of the round that the ridge grows by; the product then fades into the average",
       at_least(0.0)},
      {"memory", true,
       "precisions are means over all rounds and cohorts so far (Eq. 17 for matrices); false: the last cohort's alone"},
      {"rank", std::int64_t{0},
       "eigenvectors of each layer's inputs that are sent, the rest as their mean; 0 sends all", at_least(0)},
      {"prior_every", std::int64_t{1}, "steps between implicit steps of the prior; the last takes what is left over",
       at_least(1)},
      {"prior_rank", std::int64_t{64}, "eigenvectors of each layer that the prior pulls along", at_least(1)},
  };
}

Layered::Layered(const MethodContext& context)
    : matrices_(shown_layers(*context.layout)),
      lambda_(context.options.real("lambda")),
      ridge_(static_cast<float>(context.options.real("ridge"))),
      ridge_growth_(context.options.real("ridge_growth")),
      memory_(context.options.flag("memory")),
      prior_every_(static_cast<std::size_t>(context.options.integer("prior_every"))),
      prior_rank_(static_cast<std::size_t>(context.options.integer("prior_rank"))),
      rank_(static_cast<std::size_t>(context.options.integer("rank"))) {
  if (layers().empty()) {
    fail("method.curvature = \"{}\": this model does not show its layers; use \"diag\"",
         context.options.text("curvature"));
  }
  std::vector<LayoutEntry> vectors, values;
  for (const auto& layer : layers()) {
    const std::size_t rank = std::min(prior_rank_, layer.width());
    vectors.push_back({.name = layer.name(), .shape = {extent(rank), extent(layer.width())}});
    values.push_back({.name = layer.name(), .shape = {extent(rank + 1)}});
  }
  vectors_layout_ = std::make_shared<const Layout>(std::move(vectors));
  values_layout_ = std::make_shared<const Layout>(std::move(values));
}

void Layered::start(State& state) const {
  state.add(kInputs, matrices_.inputs_layout(), false, Flat(inputs_size(), 0.0f));
  if (lambda_ == 0.0 && !memory_) return;
  state.add(kVectors, vectors_layout_, true, Flat(vectors_layout_->size(), 0.0f));
  state.add(kValues, values_layout_, true, Flat(values_layout_->size(), 0.0f));
}

void Layered::train(const ClientTask& task, Update& update) const {
  if (lambda_ == 0.0 || task.round == 1) return task.train(update);
  const double of_one = lambda_ * task.lr();
  auto steps = prior_steps(task.broadcast, of_one * static_cast<double>(prior_every_));
  task.train(update, {}, {.after_step = [&](std::size_t step) {
               if (step % prior_every_ == 0) pull(task, steps);
             }});
  if (const std::size_t left = update.training.steps % prior_every_; left > 0) {
    auto last = prior_steps(task.broadcast, of_one * static_cast<double>(left));
    pull(task, last);
  }
}

std::vector<ProximalStep> Layered::prior_steps(const Broadcast& broadcast, double strength) const {
  const auto vectors = broadcast.at(kVectors), values = broadcast.at(kValues);
  std::vector<ProximalStep> steps;
  for (std::size_t l = 0; l < layers().size(); ++l) {
    const auto own = values_layout_->entries()[l].of(values);  // eigenvalues, then the mean of the rest
    steps.emplace_back(vectors_layout_->entries()[l].of(vectors), own.first(own.size() - 1), own.back(),
                       static_cast<float>(strength));
  }
  return steps;
}

void Layered::pull(const ClientTask& task, std::vector<ProximalStep>& steps) const {
  const auto centre = task.broadcast.at("theta");
  Flat matrix, start;
  for (std::size_t l = 0; l < layers().size(); ++l) {
    layers()[l].gather(std::span<const float>(task.model.parameters()), matrix);
    layers()[l].gather(centre, start);
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] -= start[i];
    steps[l].apply(matrix, layers()[l].rows());
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] += start[i];
    layers()[l].scatter(std::span<const float>(matrix), task.model.parameters());
  }
}

Packed Layered::measure_inputs(const ClientTask& task, std::span<float> inputs) const {
  matrices_.measure_inputs(task, ridge_, inputs);
  return rank_ == 0 ? Packed{} : reduce(inputs);
}

ChannelSpec Layered::inputs_channel(std::string name) const {
  ChannelSpec spec{.name = std::move(name), .count = inputs_size(), .statistic = true};
  // By a copy: the schema may outlive the method.
  if (rank_ > 0) spec.unpack = [own = *this](auto packed, auto inputs) { own.unpack(packed, inputs); };
  return spec;
}

std::size_t Layered::sent_rank(const LayerMatrix& layer) const {
  const std::size_t rank = std::min(rank_, layer.width());
  return low_rank_size(layer.width(), rank) < packed_size(layer.width()) ? rank : 0;
}

// Every layer's eigenvectors, eigenvalues and mean of the rest, or its triangle where that is shorter.
Packed Layered::reduce(std::span<float> inputs) const {
  ByteBuffer to;
  for (const auto& layer : layers()) {
    const auto triangle = layer.inputs_of(inputs);
    if (const std::size_t rank = sent_rank(layer); rank > 0) {
      const LowRank factors = low_rank(triangle, layer.width(), rank);
      expand(factors, layer.width(), triangle);
      put_all(to, factors.vectors);
      put_all(to, factors.values);
      put(to, factors.rest);
    } else {
      put_all(to, triangle);
    }
  }
  return {.how = Packing::own, .bytes = std::move(to.bytes)};
}

void Layered::unpack(std::span<const std::byte> packed, std::span<float> inputs) const {
  ByteReader from(packed);
  for (const auto& layer : layers()) {
    const auto triangle = layer.inputs_of(inputs);
    if (const std::size_t rank = sent_rank(layer); rank > 0) {
      LowRank factors{.vectors = std::vector<float>(rank * layer.width()), .values = std::vector<float>(rank)};
      from.take_all(std::span(factors.vectors));
      from.take_all(std::span(factors.values));
      factors.rest = from.take<float>();
      expand(factors, layer.width(), triangle);
    } else {
      from.take_all(triangle);
    }
  }
  from.finish();
}

Layered::Shares Layered::shares(std::size_t round) const {
  if (!memory_) return {.own = 1.0, .memory = 0.0};
  const auto r = static_cast<double>(round);
  return {.own = 1.0 / r, .memory = (r - 1.0) / r};  // Eq. 17
}

LowRank Layered::memory_of(const LayerMatrix& layer, std::span<const float> vectors,
                           std::span<const float> values) const {
  const auto l = static_cast<std::size_t>(&layer - layers().data());
  const auto rows = vectors_layout_->entries()[l].of(vectors), own = values_layout_->entries()[l].of(values);
  return {.vectors = {rows.begin(), rows.end()}, .values = {own.begin(), own.end() - 1}, .rest = own.back()};
}

void Layered::keep(State& state, std::size_t round, std::span<const double> inputs) const {
  const auto kept = state.at(kInputs);
  const auto [own, shared] = shares(round);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i] = static_cast<float>(own * inputs[i] + shared * static_cast<double>(kept[i]));
  }
  if (lambda_ == 0.0 && !memory_) return;
  for (std::size_t l = 0; l < layers().size(); ++l) {
    const std::size_t width = layers()[l].width();
    const auto factors =
        low_rank(layers()[l].inputs_of(std::span<const float>(kept)), width, std::min(prior_rank_, width));
    std::ranges::copy(factors.vectors, vectors_layout_->entries()[l].of(state.at(kVectors)).begin());
    const auto values = values_layout_->entries()[l].of(state.at(kValues));
    std::ranges::copy(factors.values, values.begin());
    values.back() = factors.rest;
  }
}

void Layered::draw(const State& state, const Posterior::Draw& how, Stream& stream, std::span<float> theta) const {
  std::ranges::copy(state.at("theta"), theta.begin());
  const auto scale = static_cast<float>(std::sqrt(how.scale));
  Flat noise;
  change_layers(theta, [&](const LayerMatrix& layer, std::span<float> w) {
    noise.resize(w.size());
    gauss::fill_normal(stream, noise);
    colour_by_precision(layer.inputs_of(state.at(kInputs)), layer.width(), how.examples, how.prior_precision,
                        layer.rows(), noise);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += scale * noise[i];
  });
}

}  // namespace parley
