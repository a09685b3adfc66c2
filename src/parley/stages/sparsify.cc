#include "parley/stages/sparsify.h"

#include <algorithm>
#include <cmath>

#include "parley/stages/difference.h"
#include "parley/stages/remembered.h"
#include "parley/update/changes.h"

namespace parley {
namespace {

bool finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

class Sparsify final : public Stage {
 public:
  explicit Sparsify(const Options& options)
      : share_(options.real("sparsify_share")), feedback_(options.flag("sparsify_feedback")) {}

  void forward(const ForwardTask& task, Update& update) const override {
    ClientRecord rests;
    for_each_difference(task.broadcast, update, [&](const ChannelSpec& spec, std::span<float> difference) {
      if (!finite(difference)) return;  // for the check
      const std::string name = task.prefix + spec.name;
      if (feedback_) add_rest(task.memory, name, difference);
      Flat rest(difference.begin(), difference.end());
      keep_largest(spec, difference);
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= difference[i];
      if (feedback_) rests[name] = std::move(rest);
    });
    if (feedback_) task.memory.amend(std::move(rests));
    for (const ChannelSpec& spec : update.schema().channels) {
      if (!spec.statistic) pack(spec, task.broadcast, update);
    }
  }

 private:
  static void add_rest(const ClientMemory& memory, const std::string& name, std::span<float> difference) {
    const Flat* const rest = remembered(memory, name);
    if (rest == nullptr) return;
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] += (*rest)[i];
  }

  void keep_largest(const ChannelSpec& spec, std::span<float> difference) const {
    if (!spec.layout) return keep_largest(difference);
    for (const auto& entry : spec.layout->entries()) {
      if (is_trainable(entry.role)) keep_largest(entry.of(difference));
    }
  }
  // At least one, and all of those that are as large as the last.
  void keep_largest(std::span<float> tensor) const {
    if (tensor.empty()) return;
    const auto wanted = static_cast<std::size_t>(std::ceil(share_ * static_cast<double>(tensor.size())));
    Flat sizes(tensor.size());
    std::ranges::transform(tensor, sizes.begin(), [](float x) { return std::abs(x); });
    const auto least = sizes.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
    std::ranges::nth_element(sizes, least, std::greater<>());
    for (float& x : tensor) {
      if (std::abs(x) < *least) x = 0.0f;
    }
  }

  static void pack(const ChannelSpec& spec, const Broadcast& broadcast, Update& update) {
    const Flat& values = update[spec.name];
    if (!finite(values)) return;
    update.pack(spec.name, spec.relative_to.empty()
                               ? pack_sparse(values, std::vector<SparseSegment>{{values.size(), 0.0f}})
                               : pack_changes(values, broadcast.at(spec.relative_to)));
  }

  double share_;
  bool feedback_;
};

}  // namespace

void add_sparsify(StageRegistry& registry) {
  registry.add({.name = "sparsify",
                .summary = "Sends the largest changes of each tensor only (top-k).",
                .source = "Aji & Heafield 2017; Stich et al. 2018",
                .options = {{"sparsify_share",
                             0.1,
                             "part of each tensor's numbers that is sent",
                             {.low = 0.0, .high = 1.0, .low_excluded = true}},
                            {"sparsify_feedback", true,
                             "a client adds what it has not sent to its next update, instead of forgetting it"}}},
               [](const Options& options) { return std::make_unique<Sparsify>(options); });
}

}  // namespace parley
