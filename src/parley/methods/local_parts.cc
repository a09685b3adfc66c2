#include "parley/methods/local_parts.h"

#include <algorithm>

#include "parley/methods/wrapper.h"

namespace parley {
namespace {

constexpr const char* kRecord = "local_parts";

class LocalParts final : public MethodWrapper {
 public:
  LocalParts(std::unique_ptr<Method> method, std::shared_ptr<const Layout> layout, const std::set<Role>& roles)
      : MethodWrapper(std::move(method)), layout_(std::move(layout)) {
    std::ranges::copy_if(layout_->entries(), std::back_inserter(entries_),
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
    task.store.amend(task.client, {{kRecord, std::move(own)}});
    leave_out(task.broadcast, update);
  }

  void load_shared(const ClientTask& task) const override {
    const Flat theta = seen_by(task);
    method_->load_shared(with_theta(task, theta));
  }

  void server(ServerTask& task) const override {
    const auto theta = task.state.at("theta");
    const Flat before(theta.begin(), theta.end());
    method_->server(task);
    for (const auto& entry : entries_) std::ranges::copy(entry.of(std::span(before)), entry.of(theta).begin());
  }

 private:
  static ClientTask with_theta(const ClientTask& task, std::span<const float> theta) {
    ClientTask changed = task;
    changed.broadcast = task.broadcast.with("theta", theta);
    return changed;
  }

  // The broadcast weights with the client's own parts in their places.
  Flat seen_by(const ClientTask& task) const {
    const auto broadcast = task.broadcast.at("theta");
    Flat theta(broadcast.begin(), broadcast.end());
    const auto record = task.store.load(task.client);
    if (!record) return theta;
    auto own = record->at(kRecord).begin();
    for (const auto& entry : entries_) {
      std::copy_n(own, entry.size, entry.of(std::span(theta)).begin());
      own += static_cast<std::ptrdiff_t>(entry.size);
    }
    return theta;
  }

  // In place of what stays: "nothing changed". The server uses none of it; it must not learn it either.
  void leave_out(const Broadcast& broadcast, Update& update) const {
    const Schema schema = method_->schema();
    std::size_t kept = 0;
    for (const auto& entry : entries_) kept += entry.size;
    for (std::size_t c = 0; c < schema.channels.size(); ++c) {
      const auto& spec = schema.channels[c];
      if (spec.size != layout_->size() || spec.bound != ChannelSpec::Bound::any) continue;
      update.encoded_bytes[c] = (spec.size - kept) * sizeof(float);
      for (const auto& entry : entries_) {
        const auto values = entry.of(std::span(update.channels[c]));
        if (spec.relative_to.empty()) {
          std::ranges::fill(values, 0.0f);
        } else {
          std::ranges::copy(entry.of(broadcast.at(spec.relative_to)), values.begin());
        }
      }
    }
  }

  std::shared_ptr<const Layout> layout_;
  std::vector<LayoutEntry> entries_;
};

}  // namespace

std::unique_ptr<Method> keep_local(std::unique_ptr<Method> method, std::shared_ptr<const Layout> layout,
                                   const std::set<Role>& roles) {
  return std::make_unique<LocalParts>(std::move(method), std::move(layout), roles);
}

}  // namespace parley
