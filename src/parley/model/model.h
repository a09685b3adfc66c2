// The model seam: methods see flat spans of weights and gradients, and nothing of how a model computes.
//
// Threads:  one instance a worker; an instance is never shared between threads.
// Order:    load weights into parameters() -> backward()* or predict()*. Both read the live weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parley/base/random.h"
#include "parley/base/registry.h"
#include "parley/data/dataset.h"
#include "parley/tensor/layout.h"

namespace parley {

enum class Loss { cross_entropy, mse };

// A layer's part in a pass over a batch, row by row. A convolution's rows are the patches of its inputs,
// `rows_per_example` of them for each example.
struct LayerPass {
  std::size_t index;  // in Model::layers()
  const Layer& layer;
  std::size_t rows;
  std::size_t rows_per_example;
  std::span<const float> inputs;  // rows × in
  std::span<const float> deltas;  // rows × out: gradient of the mean loss at the outputs; empty in predict()
};
using LayerObserver = std::function<void(const LayerPass&)>;

class Variational;  // model/variational.h

class Model {
 public:
  virtual ~Model();

  virtual const Layout& layout() const = 0;
  // Live weights, flat, in layout order; layout().size() floats.
  virtual std::span<float> parameters() = 0;
  // The gradient of the last backward(); layout().size() floats, zero behind layout().trainable().
  virtual std::span<float> gradients() = 0;

  // Mean loss of the batch; overwrites gradients() with its gradient. Training mode (dropout, batch statistics).
  virtual double backward(const Batch& batch) = 0;
  // One step of plain gradient descent, θ −= lr·∂loss(batch), which does not leave the gradient behind and so saves a
  // pass over memory; gives the mean loss before it. Nothing, and nothing has been done: the model takes no such steps.
  virtual std::optional<double> descend(const Batch& /*batch*/, float /*lr*/) { return std::nullopt; }
  // Raw outputs (logits or predictions), batch.size × outputs(), row-major. Evaluation mode.
  virtual void predict(const Batch& batch, std::span<float> outputs) = 0;
  // Floats a row that predict() writes.
  virtual std::size_t outputs() const = 0;
  virtual Loss loss() const = 0;

  // The source of training noise (dropout) from here on. Called before each client's training.
  virtual void reseed(const Stream& /*noise*/) {}
  // The layers that a LayerObserver is shown: what structured posteriors and per-example gradients are made of. Norms,
  // depthwise convolutions and recurrent layers are in none of them; empty when the model cannot show any.
  virtual std::span<const Layer> layers() const { return {}; }
  // Calls the observer for every layer in each backward() and predict() from here on; an empty one stops that.
  virtual void observe(LayerObserver /*observer*/) {}
  // The same network with a Gaussian over every trained weight, and with a part of each client's own beside it; null:
  // it has none that is made for it.
  virtual std::unique_ptr<Variational> variational(bool with_private) const;
  // A new network of this kind with one of a client's own beside it, which hears it at every layer. The own one gives
  // the outputs, and its entries, named private/…, follow the shared ones. Null: there is none.
  virtual std::unique_ptr<Model> with_private() const { return nullptr; }
  // Lets the layers that can do so draw their outputs, each example's by itself, from the means and variances that
  // Gaussian weights give them (local reparametrisation, Kingma et al. 2015): parameters() are the means of such layers
  // from here on, `variances` those of the weights, and backward() adds the derivative by them to `by_variance`. Gives
  // the entries that are treated so. The spans, of layout().trainable(), and the noise must outlive the model.
  virtual std::vector<LayoutEntry> spread(std::span<float> /*variances*/, std::span<float> /*by_variance*/,
                                          Stream& /*noise*/) {
    return {};
  }
  // True when two instances must not train at the same time (they share a generator); the engine then uses one worker.
  virtual bool exclusive() const { return false; }
  // True when a new instance's parameters() already hold the initial weights; initialise() must then not be called.
  virtual bool pretrained() const { return false; }
};

// What the data asks of a model.
struct Task {
  std::vector<std::int64_t> input_shape;
  std::size_t outputs = 0;  // classes, or numbers to predict
  Loss loss = Loss::cross_entropy;

  std::size_t features() const;  // numbers of one example
};

// `options` are the resolved keys of [model]. Throws InputError when the model cannot take this task.
using MakeModel = std::function<std::unique_ptr<Model>(const Options& options, const Task& task)>;
// A name may have several implementations ("native", "torch") of the same layout. `auto` prefers native.
using Backends = std::map<std::string, MakeModel>;
using ModelRegistry = Registry<Backends>;

// Every native model, in one list. The LibTorch ones are added by model/torch/torch_models.h.
ModelRegistry native_models();
// The maker for model.backend = `backend` of an entry. Throws InputError naming those there are.
const MakeModel& choose_backend(const ModelRegistry::Entry& entry, const std::string& backend);

// Fresh weights by role: weights and biases uniform in ±1/√fan_in (as PyTorch does), scales 1, shifts 0, variances 1.
void initialise(const Layout& layout, std::span<float> parameters, Stream& stream);

}  // namespace parley
