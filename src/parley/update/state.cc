#include "parley/update/state.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "parley/base/errors.h"

namespace parley {
namespace {

[[noreturn]] void no_such(const char* what, std::string_view name) {
  fmt::print(stderr, "bug: no {} '{}' in the state\n", what, name);
  std::abort();
}

std::string prefix_of(const std::string& channel) {
  return channel == "theta" ? "" : channel + "/";
}

}  // namespace

void State::add(std::string name, std::shared_ptr<const Layout> layout, bool broadcast, Flat values) {
  assert(!has(name) && values.size() == layout->size());
  channels_.push_back({std::move(name), std::move(layout), broadcast, std::move(values)});
}

const State::Channel* State::find(std::string_view name) const {
  for (const auto& channel : channels_) {
    if (channel.name == name) return &channel;
  }
  return nullptr;
}

bool State::has(std::string_view name) const {
  return find(name) != nullptr;
}

std::span<const float> State::at(std::string_view name) const {
  const Channel* channel = find(name);
  if (channel == nullptr) no_such("channel", name);
  return channel->values;
}

std::span<float> State::at(std::string_view name) {
  const auto values = std::as_const(*this).at(name);
  return {const_cast<float*>(values.data()), values.size()};
}

std::size_t State::broadcast_bytes() const {
  std::size_t bytes = 0;
  for (const auto& channel : channels_) {
    if (channel.broadcast) bytes += channel.values.size() * sizeof(float);
  }
  return bytes;
}

void State::write(Files& files, const std::filesystem::path& path) const {
  std::vector<TensorView> tensors;
  for (const auto& channel : channels_) {
    auto views = views_of(*channel.layout, channel.values, prefix_of(channel.name));
    tensors.insert(tensors.end(), views.begin(), views.end());
  }
  std::map<std::string, std::string, std::less<>> metadata{{"format", "parley 1"}};
  for (const auto& [name, value] : scalars) metadata["scalar/" + name] = fmt::format("{:a}", value);
  write_safetensors(files, path, tensors, metadata);
}

void State::restore(const TensorFile& file, const std::string& name) {
  std::vector<Flat> values;
  for (const auto& channel : channels_) {
    values.push_back(assemble(file, *channel.layout, name, prefix_of(channel.name)));
  }
  auto numbers = scalars;
  for (auto& [key, value] : numbers) {
    const auto found = file.metadata.find("scalar/" + key);
    if (found == file.metadata.end()) fail("{}: scalar '{}' is missing", name, key);
    value = std::strtod(found->second.c_str(), nullptr);
  }
  for (std::size_t i = 0; i < values.size(); ++i) channels_[i].values = std::move(values[i]);
  scalars = std::move(numbers);
}

Broadcast Broadcast::with(std::string_view name, std::span<const float> values) const {
  assert(values.size() == at(name).size() && replaced_.empty());
  Broadcast changed = *this;
  changed.replaced_ = name;
  changed.replacement_ = values;
  return changed;
}

std::span<const float> Broadcast::at(std::string_view name) const {
  if (name == replaced_) return replacement_;
  for (const auto& channel : state_->channels()) {
    if (channel.name == name && channel.broadcast) return channel.values;
  }
  no_such("broadcast channel", name);
}

double Broadcast::scalar(std::string_view name) const {
  const auto found = state_->scalars.find(name);
  if (found == state_->scalars.end()) no_such("scalar", name);
  return found->second;
}

}  // namespace parley
