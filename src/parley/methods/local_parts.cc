#include "parley/methods/local_parts.h"

#include <algorithm>

#include "parley/methods/wrapper.h"

namespace parley {
namespace {

constexpr const char* kRecord = "local_parts";

class LocalParts final : public MethodWrapper, private Personal {
 public:
  LocalParts(std::unique_ptr<Method> method, const Layout& layout, const std::set<Role>& roles)
      : MethodWrapper(std::move(method)) {
    std::ranges::copy_if(layout.entries(), std::back_inserter(entries_),
                         [&](const LayoutEntry& entry) { return roles.contains(entry.role); });
  }

  void client(const ClientTask& task, Update& update) const override {
    const Flat theta = seen_by(task);
    method_->client(with_theta(task, theta), update);
    Flat own;
    for (const auto& entry : entries_) {
      const auto values = entry.of(task.model.parameters());
      own.insert(own.end(), values.begin(), values.end());
    }
    task.memory.amend({{kRecord, std::move(own)}});
    leave_out(task.broadcast, update);
  }

  const Personal* personal() const override { return this; }

  void server(ServerTask& task) const override {
    const auto theta = task.state.at("theta");
    const Flat before(theta.begin(), theta.end());
    method_->server(task);
    for (const auto& entry : entries_) std::ranges::copy(entry.of(std::span(before)), entry.of(theta).begin());
  }

 private:
  const Personal& inside() const { return personal_of(*method_); }
  bool other_model() const override { return inside().other_model(); }
  std::unique_ptr<Model> model(const NewModel& shared) const override { return inside().model(shared); }
  void load_shared(const ClientTask& task) const override {
    const Flat theta = seen_by(task);
    inside().load_shared(with_theta(task, theta));
  }
  std::size_t networks() const override { return inside().networks(); }
  void load_own(const ClientTask& task, std::size_t network) const override { inside().load_own(task, network); }
  bool load_untrained(const ClientTask& task) const override { return inside().load_untrained(task); }

  static ClientTask with_theta(const ClientTask& task, std::span<const float> theta) {
    ClientTask changed = task;
    changed.broadcast = task.broadcast.with("theta", theta);
    return changed;
  }

  // The broadcast weights with the client's own parts in their places.
  Flat seen_by(const ClientTask& task) const {
    const auto broadcast = task.broadcast.at("theta");
    Flat theta(broadcast.begin(), broadcast.end());
    const ClientRecord* record = task.memory.known();
    if (record == nullptr) return theta;
    auto own = record->at(kRecord).begin();
    for (const auto& entry : entries_) {
      std::copy_n(own, entry.size, entry.of(std::span(theta)).begin());
      own += static_cast<std::ptrdiff_t>(entry.size);
    }
    return theta;
  }

  // In place of what stays: "nothing changed". The server uses none of it; it must not learn it either.
  void leave_out(const Broadcast& broadcast, Update& update) const {
    std::vector<OmittedRange> ranges;
    for (const auto& entry : entries_) ranges.push_back({entry.offset, entry.size});
    for (const ChannelSpec& spec : method_->schema().channels) {
      if (spec.layout == nullptr || spec.bound != ChannelSpec::Bound::any) continue;
      update.pack(spec.name, pack_omitted(ranges));
      for (const auto& entry : entries_) {
        const auto values = entry.of(std::span(update[spec.name]));
        if (spec.relative_to.empty()) {
          std::ranges::fill(values, 0.0f);
        } else {
          std::ranges::copy(entry.of(broadcast.at(spec.relative_to)), values.begin());
        }
      }
    }
  }

  std::vector<LayoutEntry> entries_;  // in the layout's order
};

}  // namespace

std::unique_ptr<Method> keep_local(std::unique_ptr<Method> method, const Layout& layout, const std::set<Role>& roles) {
  return std::make_unique<LocalParts>(std::move(method), layout, roles);
}

}  // namespace parley
