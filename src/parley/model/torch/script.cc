#include "parley/model/torch/script.h"

#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "parley/model/torch/guard.h"
#include "parley/model/torch/roles.h"
#include "parley/model/torch/script_refusal.h"
#include "parley/model/torch/torch_model.h"

namespace parley {
namespace {

using torch::jit::Module;

// A parameter or buffer (what is frozen counts as one), and where the module keeps it. A script may put a new tensor
// into its attribute, so a buffer is always looked up, never remembered.
struct Slot {
  LayoutEntry entry;
  Module owner;
  std::string attribute;

  torch::Tensor tensor() const { return owner.attr(attribute).toTensor(); }
};

bool is_norm(const Module& owner) {
  const auto name = owner.type()->name();
  return owner.hasattr("running_mean") || (name && name->name().find("Norm") != std::string::npos);
}

bool has_dtype(const torch::Tensor& tensor, bool buffer) {
  return tensor.scalar_type() == torch::kFloat32 || (buffer && tensor.scalar_type() == torch::kInt64);
}

class SlotFinder {
 public:
  explicit SlotFinder(std::string path) : path_(std::move(path)) {}

  std::vector<Slot> find(const Module& module) {
    for (const auto& [prefix, owner] : module.named_modules()) {
      for (const auto& [name, tensor] : owner.named_parameters(false)) {
        add(prefix, owner, name, tensor, tensor.requires_grad() ? parameter_role(name, is_norm(owner)) : Role::frozen);
      }
      for (const auto& [name, tensor] : owner.named_buffers(false)) {
        // Masks and the like are constants of the script, the same in every instance.
        if (tensor.scalar_type() == torch::kBool) continue;
        add(prefix, owner, name, tensor, buffer_role(name, tensor));
      }
    }
    return std::move(slots_);
  }

 private:
  void add(const std::string& prefix, const Module& owner, const std::string& attribute, const torch::Tensor& tensor,
           Role role) {
    const std::string name = prefix.empty() ? attribute : prefix + "." + attribute;
    // Tied weights are one tensor under several names; the first one stands for all.
    const auto [first, fresh] = seen_.emplace(tensor.unsafeGetTensorImpl(), slots_.size());
    if (!fresh) {
      slots_[first->second].entry.aliases.push_back(name);
      return;
    }
    if (!has_dtype(tensor, !is_trainable(role))) {
      fail("model.path: {}: '{}' is of type {}, expected Float: export the module after net.float()", path_, name,
           c10::toString(tensor.scalar_type()));
    }
    slots_.push_back({{.name = name, .shape = tensor.sizes().vec(), .role = role}, owner, attribute});
  }

  std::string path_;
  std::vector<Slot> slots_;
  std::map<const void*, std::size_t> seen_;  // the slot of each tensor
};

Layout layout_of(const std::vector<Slot>& slots) {
  std::vector<LayoutEntry> entries;
  for (const auto& slot : slots) entries.push_back(slot.entry);
  return Layout(std::move(entries));
}

bool draws_random_numbers(const torch::jit::Block* block) {
  static constexpr std::array<std::string_view, 10> kSigns{"dropout",      "rand",    "bernoulli", "multinomial",
                                                           "poisson",      "uniform", "rrelu",     "exponential_",
                                                           "aten::normal", "gamma"};
  for (const auto* node : block->nodes()) {
    const std::string_view kind = node->kind().toQualString();
    if (kind.starts_with("aten::") && std::any_of(kSigns.begin(), kSigns.end(), [&](auto sign) {
          return kind.find(sign) != std::string_view::npos;
        })) {
      return true;
    }
    for (const auto* inner : node->blocks()) {
      if (draws_random_numbers(inner)) return true;
    }
  }
  return false;
}

bool draws_random_numbers(const Module& module) {
  const auto graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  return draws_random_numbers(graph->block());
}

class ScriptModel final : public TorchModel {
 public:
  ScriptModel(std::string path, Module module, std::vector<Slot> slots, const Task& task)
      : TorchModel(layout_of(slots), task),
        path_(std::move(path)),
        module_(std::move(module)),
        random_(draws_random_numbers(module_)) {
    module_.train();
    for (auto& slot : slots) {
      slot.entry = *layout().find(slot.entry.name);
      if (is_trainable(slot.entry.role)) {
        bind_parameter(slot);
      } else {
        buffers_.push_back(std::move(slot));
        store(buffers_.back());
      }
    }
    load_buffers();
    const std::vector<float> initial(parameters().begin(), parameters().end());
    check_fit();
    if (!std::equal(initial.begin(), initial.end(), parameters().begin())) {
      fail(
          "{}: it changes its buffers in evaluation mode too, as if traced in training mode; "
          "export it by torch.jit.script",
          describe());
    }
  }

  void reseed(const Stream& noise) override {
    if (random_) torch::manual_seed(Stream(noise).bits());
  }
  bool exclusive() const override { return random_; }
  bool pretrained() const override { return true; }

 protected:
  std::string describe() const override { return "model.path: " + path_; }

  torch::Tensor forward(const torch::Tensor& inputs, bool training) override {
    // The optimising executor first observes, then rewrites the graph: the same step could round
    // differently by how often an instance has run. Plain interpretation runs the operators as
    // eager PyTorch does.
    const torch::jit::GraphOptimizerEnabledGuard plain(false);
    if (training_ != training) module_.train(training_ = training);
    load_buffers();
    const auto outputs = module_.forward({inputs});
    if (training) {
      for (const auto& slot : buffers_) store(slot);
    }
    if (!outputs.isTensor()) {
      fail("{}: it gives a {}, expected one tensor [batch, outputs]", describe(), outputs.tagKind());
    }
    return outputs.toTensor();
  }

 private:
  void bind_parameter(const Slot& slot) {
    const torch::NoGradGuard no_grad;
    auto parameter = slot.tensor();
    auto view = weights_of(slot.entry);
    view.copy_(parameter);
    parameter.set_data(view);
    parameter.mutable_grad() = gradient_of(slot.entry);
  }

  bool in_place(const torch::Tensor& buffer, const LayoutEntry& entry) {
    return buffer.data_ptr() == parameters().data() + entry.offset;
  }

  // From the flat weights into the module: float buffers become views, whole numbers are converted.
  void load_buffers() {
    const torch::NoGradGuard no_grad;
    for (auto& slot : buffers_) {
      auto buffer = slot.tensor();
      if (buffer.scalar_type() != torch::kFloat32) {
        slot.owner.setattr(slot.attribute, torch::round(weights_of(slot.entry)).to(buffer.scalar_type()));
      } else if (!in_place(buffer, slot.entry)) {
        slot.owner.setattr(slot.attribute, weights_of(slot.entry));
      }
    }
  }

  // Back, where the module did not write into the view itself.
  void store(const Slot& slot) {
    const torch::NoGradGuard no_grad;
    const auto buffer = slot.tensor();
    if (!in_place(buffer, slot.entry)) weights_of(slot.entry).copy_(buffer.detach());
  }

  std::string path_;
  Module module_;
  std::vector<Slot> buffers_;
  bool random_;
  bool training_ = true;
};

Module load(const std::string& path) {
  const std::string how = "torch.jit.script(net).save(\"net.pt\")";
  if (path.empty()) fail("model.path: 'torchscript' needs a file saved in Python by {}", how);
  if (!std::filesystem::is_regular_file(path)) fail("model.path: {}: no such file", path);
  try {
    return torch::jit::load(path);
  } catch (const std::exception& error) {
    const std::string reason = newer_than(TORCH_VERSION, error.what());
    if (!reason.empty()) fail("model.path: {}: {}", path, reason);
    fail("model.path: {}: not a TorchScript file; save it in Python by {}: {}", path, how, essence(error.what()));
  }
}

}  // namespace

std::unique_ptr<Model> make_script(const std::string& /*name*/, const Options& options, const Task& task) {
  const std::string& path = options.text("path");
  Module module = load(path);
  return guarded<InputError>("model.path: " + path, [&]() -> std::unique_ptr<Model> {
    if (!module.find_method("forward")) fail("model.path: {}: the module has no forward()", path);
    auto slots = SlotFinder(path).find(module);
    const auto trains = [](const Slot& slot) { return is_trainable(slot.entry.role); };
    if (std::none_of(slots.begin(), slots.end(), trains)) {
      fail(
          "model.path: {}: no parameters that require gradients; export it without "
          "torch.jit.freeze and unfrozen",
          path);
    }
    return std::make_unique<ScriptModel>(path, std::move(module), std::move(slots), task);
  });
}

}  // namespace parley
