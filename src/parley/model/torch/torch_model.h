// What all LibTorch models share: weights and gradients as views of one flat tensor each, and the
// training step.
//
// A subclass gives the layout and the forward pass. Threads: as Model says; each thread computes
// with one LibTorch thread, so a step's bits do not depend on where it runs.
#pragma once

#include <torch/torch.h>

#include "parley/model/model.h"

namespace parley {

// What training compares: a row of outputs for each label. Without labels the rows are the batch's own.
struct Graded {
  torch::Tensor outputs;
  std::vector<std::int32_t> labels = {};
};

class TorchModel : public Model {
 public:
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override;
  std::span<float> gradients() override;
  double backward(const Batch& batch) override;
  void predict(const Batch& batch, std::span<float> outputs) override;
  std::size_t outputs() const override { return task_.outputs; }
  Loss loss() const override { return task_.loss; }

 protected:
  // `task.input_shape` is the shape that forward() sees, behind the batch extent.
  TorchModel(Layout layout, Task task);

  virtual torch::Tensor forward(const torch::Tensor& inputs, bool training) = 0;
  // The answers of a training step, for the networks that give more than one for each example.
  virtual Graded grade(const torch::Tensor& inputs, std::span<const std::int32_t> labels);
  // "model mlp"; what a message starts with.
  virtual std::string describe() const = 0;

  const Task& task() const { return task_; }
  // An entry's part of the flat weights or gradients, in its shape.
  torch::Tensor weights_of(const LayoutEntry& entry) const { return view_of(weights_, entry); }
  torch::Tensor gradient_of(const LayoutEntry& entry) const { return view_of(gradients_, entry); }
  // Runs one batch of zeros, so that a network that does not fit the task is refused when it is
  // made.
  void check_fit();

 private:
  static torch::Tensor view_of(const torch::Tensor& flat, const LayoutEntry& entry);
  torch::Tensor inputs_of(const Batch& batch) const;
  torch::Tensor checked_forward(const torch::Tensor& inputs, bool training);

  Layout layout_;
  Task task_;
  torch::Tensor weights_;
  torch::Tensor gradients_;
};

}  // namespace parley
