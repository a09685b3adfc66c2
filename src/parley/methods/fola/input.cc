#include "parley/methods/fola/input.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/methods/fola/layered.h"

namespace parley {
namespace {

constexpr const char *kMoments = "moments", *kInputs = "inputs";

class InputFola final : public Method {
 public:
  explicit InputFola(const MethodContext& context) : layout_(context.layout), layered_(context) {}

  // `moments` has WA in the places of a layer's weights and bias, and θ itself everywhere else.
  Schema schema() const override {
    return {.channels = {{.name = kMoments, .size = layout_->size(), .statistic = true},
                         {.name = kInputs, .size = layered_.inputs_size(), .statistic = true}}};
  }

  void start(State& state) const override { layered_.start(state); }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    layered_.train(task, update);
    Flat &moments = update.channels[0], &inputs = update.channels[1];
    update.encoded_bytes[1] = layered_.measure_inputs(task, inputs);
    std::ranges::copy(task.model.parameters(), moments.begin());
    layered_.change_layers(std::span(moments), [&](const LayerMatrix& layer, std::span<float> w) {
      times_precision(w, layer.rows(), layer.width(), layer.inputs_of(std::span<const float>(inputs)));
    });
  }

  void server(ServerTask& task) const override {
    const auto inputs = task.sum.take_mean(kInputs);
    task.sum.take_mean(kMoments);
    const auto target = task.sum.edit(kMoments);
    layered_.change_layers(target, [&](const LayerMatrix& layer, std::span<double> w) {
      if (!solve_mean(layer.inputs_of(inputs), layer.width(), layer.rows(), w)) {
        fail<RunError>("round {}: the precision of {} cannot be inverted; raise method.ridge", task.round,
                       layer.name());
      }
    });
    task.move_theta(target);
    layered_.keep(task.state, inputs);
  }

  bool has_posterior() const override { return true; }
  void draw(const State& state, const PosteriorDraw& how, Stream& stream, std::span<float> theta) const override {
    layered_.draw(state, how, stream, theta);
  }

 private:
  std::shared_ptr<const Layout> layout_;
  Layered layered_;
};

}  // namespace

std::unique_ptr<Method> make_input_fola(const MethodContext& context) {
  return std::make_unique<InputFola>(context);
}

}  // namespace parley
