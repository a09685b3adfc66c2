#include "parley/methods/laplace/own_model.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/gauss/natural_step.h"
#include "parley/methods/laplace/global_curvature.h"

namespace parley {
namespace {

constexpr const char *kInputs = "last_inputs", *kOutputs = "last_outputs";

}  // namespace

OwnModel::OwnModel(const LayerMatrices& matrices, const RestOfModel& rest, const LaplaceOptions& options)
    : matrices_(matrices), rest_(rest), options_(options) {
  if (wanted() && matrices.all().empty()) {
    fail("method.personal_steps = {}: the model shows no dense or convolutional layer; use 0", options.personal_steps);
  }
}

void OwnModel::start(State& state) const {
  if (!wanted()) return;
  const auto add = [&](const char* name, std::size_t size) {
    const LayoutEntry entry{.name = last().name(), .shape = {static_cast<std::int64_t>(size)}};
    state.add(name, std::make_shared<const Layout>(std::vector{entry}), true, Flat(size, 0.0f));
  };
  add(kInputs, last().inputs_size());
  add(kOutputs, packed_size(last().rows()));
}

void OwnModel::send(State& state) const {
  if (!wanted()) return;
  const State& known = state;
  std::ranges::copy(last().inputs_of(known.at(GlobalCurvature::kInputs)), state.at(kInputs).begin());
  std::ranges::copy(last().outputs_of(known.at(GlobalCurvature::kOutputs)), state.at(kOutputs).begin());
}

void OwnModel::load(const ClientTask& task) const {
  task.load();
  const FisherFactors factors{.rows = last().rows(),
                              .width = last().width(),
                              .inputs = task.broadcast.at(kInputs),
                              .outputs = task.broadcast.at(kOutputs),
                              .rank = last().rank};
  if (std::ranges::all_of(factors.inputs, [](float a) { return a == 0.0f; })) return;
  Flat gradient(task.model.layout().size()), weights;
  std::vector<double> step;
  for (std::size_t k = 0; k < options_.personal_steps; ++k) {
    measure_point(task, matrices_, rest_, options_, gradient, nullptr);
    last().gather(std::span<const float>(gradient), step);
    const std::span<double> alone[] = {step};
    if (!precondition(factors, options_.damping + options_.prior, alone)) {
      fail<RefusedUpdate>("the factors of {} are not positive definite; raise method.damping", last().name());
    }
    const double scale = shrink_to(options_.trust, 0.5 * fisher_norm(factors, step));
    last().gather(std::span<const float>(task.model.parameters()), weights);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= static_cast<float>(scale * step[i]);
    last().scatter(std::span<const float>(weights), task.model.parameters());
  }
}

}  // namespace parley
