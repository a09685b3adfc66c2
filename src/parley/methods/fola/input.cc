#include "parley/methods/fola/input.h"

#include <algorithm>
#include <utility>

#include "parley/base/errors.h"
#include "parley/methods/fola/layered.h"

namespace parley {
namespace {

constexpr const char *kMoments = "moments", *kInputs = "inputs";

class InputFola final : public Method, private Posterior {
 public:
  explicit InputFola(const MethodContext& context) : layout_(context.layout), layered_(context) {}

  // `moments` has (W − W_S)P in the places of a layer's weights and bias, and θ itself everywhere else. The difference,
  // because float32 would drown a client's small step in the rounding of W·P, which the solve then amplifies.
  Schema schema() const override {
    return {.channels = {{.name = kMoments, .layout = layout_, .statistic = true}, layered_.inputs_channel(kInputs)}};
  }

  void start(State& state) const override { layered_.start(state); }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    layered_.train(task, update);
    Flat &moments = update[kMoments], &inputs = update[kInputs];
    update.pack(kInputs, layered_.measure_inputs(task, inputs));
    std::ranges::copy(task.model.parameters(), moments.begin());
    layered_.shift_layers(task.broadcast.at("theta"), -1.0f, std::span(moments));
    layered_.change_layers(std::span(moments), [&](const LayerMatrix& layer, std::span<float> step) {
      const auto own = layer.inputs_of(std::span<const float>(inputs));
      const auto precision = layered_.precision(layer, task.round, own, task.broadcast);
      times_precision(step, layer.rows(), layer.width(), std::span<const double>(precision));
    });
  }

  void server(ServerTask& task) const override {
    const FlatDouble inputs = task.sum.take_mean(kInputs);
    FlatDouble target = task.sum.take_mean(kMoments);
    layered_.change_layers(std::span(target), [&](const LayerMatrix& layer, std::span<double> step) {
      const auto mean = layer.inputs_of(std::span<const double>(inputs));
      const auto precision = layered_.precision(layer, task.round, mean, std::as_const(task.state));
      if (!solve_mean(precision, layer.width(), layer.rows(), step)) {
        fail<RunError>("round {}: the precision of {} cannot be inverted; raise method.ridge", task.round,
                       layer.name());
      }
    });
    layered_.shift_layers(std::as_const(task.state).at("theta"), 1.0, std::span(target));
    task.move_theta(target);
    layered_.keep(task.state, task.round, inputs);
  }

  const Posterior* posterior() const override { return this; }

 private:
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    layered_.draw(state, how, stream, theta);
  }

  std::shared_ptr<const Layout> layout_;
  Layered layered_;
};

}  // namespace

std::unique_ptr<Method> make_input_fola(const MethodContext& context) {
  return std::make_unique<InputFola>(context);
}

}  // namespace parley
