#include "parley/model/torch/torch_model.h"

#include <algorithm>

#ifdef PARLEY_OPENBLAS
#include <cblas.h>
#endif

#include "parley/model/losses.h"
#include "parley/model/torch/guard.h"

namespace parley {
namespace {

// Parallelism is over clients, and a product shared out over threads would round differently by their number. A
// LibTorch with products of its own needs only the next.
void use_one_blas_thread() {
#ifdef PARLEY_OPENBLAS
  static const bool done = (openblas_set_num_threads(1), true);
  static_cast<void>(done);
#endif
}

// LibTorch's thread count belongs to the calling thread.
void use_one_torch_thread() {
  thread_local const bool done = (at::set_num_threads(1), true);
  static_cast<void>(done);
}

}  // namespace

std::string essence(const std::string& message) {
  // TorchScript wraps the reason into a trace of the script; it stands behind this marker.
  const std::string marker = "RuntimeError: ";
  const auto found = message.rfind(marker);
  const auto begin = found == std::string::npos ? 0 : found + marker.size();
  return message.substr(begin, message.find('\n', begin) - begin);
}

TorchModel::TorchModel(Layout layout, Task task) : layout_(std::move(layout)), task_(std::move(task)) {
  use_one_blas_thread();
  use_one_torch_thread();
  const auto size = static_cast<std::int64_t>(layout_.size());
  weights_ = torch::zeros({size});
  gradients_ = torch::zeros({size});
}

std::span<float> TorchModel::parameters() {
  return {weights_.data_ptr<float>(), layout_.size()};
}

std::span<float> TorchModel::gradients() {
  return {gradients_.data_ptr<float>(), layout_.size()};
}

// variable_data() gives the view its own version counter; otherwise autograd would take a write to
// a running mean for a change of every other tensor.
torch::Tensor TorchModel::view_of(const torch::Tensor& flat, const LayoutEntry& entry) {
  return flat.narrow(0, static_cast<std::int64_t>(entry.offset), static_cast<std::int64_t>(entry.size))
      .view(entry.shape)
      .variable_data();
}

torch::Tensor TorchModel::inputs_of(const Batch& batch) const {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(batch.size)};
  shape.insert(shape.end(), task_.input_shape.begin(), task_.input_shape.end());
  // LibTorch has no tensor of constants; the inputs need no gradient and are not written to.
  return torch::from_blob(const_cast<float*>(batch.inputs.data()), shape);
}

torch::Tensor TorchModel::checked_forward(const torch::Tensor& inputs, bool training) {
  const torch::Tensor outputs = forward(inputs, training);
  const std::vector<std::int64_t> expected{inputs.size(0), static_cast<std::int64_t>(task_.outputs)};
  if (outputs.sizes() != expected || outputs.scalar_type() != torch::kFloat32) {
    fail(
        "{}: it gives {} {} for a batch of {}, but the data asks for Float {}: make its last layer "
        "{} wide",
        describe(), c10::toString(outputs.scalar_type()),
        describe_shape({outputs.sizes().begin(), outputs.sizes().end()}), inputs.size(0), describe_shape(expected),
        task_.outputs);
  }
  return outputs.contiguous();
}

void TorchModel::check_fit() {
  std::vector<std::int64_t> shape{2};
  shape.insert(shape.end(), task_.input_shape.begin(), task_.input_shape.end());
  const auto what = fmt::format("{}: it cannot take inputs of shape {}", describe(), describe_shape(shape));
  guarded<InputError>(what, [&] {
    const torch::NoGradGuard no_grad;
    checked_forward(torch::zeros(shape), false);
  });
}

Graded TorchModel::grade(const torch::Tensor& inputs, std::span<const std::int32_t> /*labels*/) {
  return {.outputs = checked_forward(inputs, true)};
}

double TorchModel::backward(const Batch& batch) {
  return guarded<RunError>(describe() + ": training step", [&] {
    use_one_torch_thread();
    gradients_.zero_();  // kept, not reset: autograd adds into the views
    const Graded graded = grade(inputs_of(batch), batch.labels);
    Batch wanted = batch;
    if (!graded.labels.empty()) wanted = {.size = graded.labels.size(), .labels = graded.labels};
    const torch::Tensor gradient = graded.outputs.detach().clone();
    const std::span<float> values(gradient.data_ptr<float>(), wanted.size * task_.outputs);
    const double mean_loss = loss_and_gradient(task_.loss, wanted, task_.outputs, values);
    graded.outputs.backward(gradient);
    return mean_loss;
  });
}

void TorchModel::predict(const Batch& batch, std::span<float> outputs) {
  if (batch.size == 0) return;
  guarded<RunError>(describe() + ": prediction", [&] {
    use_one_torch_thread();
    const torch::NoGradGuard no_grad;
    const torch::Tensor result = checked_forward(inputs_of(batch), false);
    std::copy_n(result.data_ptr<float>(), outputs.size(), outputs.begin());
  });
}

}  // namespace parley
