#include "parley/update/state.h"

#include <cstdlib>
#include <ranges>
#include <utility>

#include "parley/base/errors.h"

namespace parley {
namespace {

// Channels and scalars alike.
template <class Names>
[[noreturn]] void no_such(const char* what, std::string_view name, const Names& names) {
  throw std::logic_error(unknown_name(what, name, {names.begin(), names.end()}));
}

std::string prefix_of(const std::string& channel) {
  return channel == "theta" ? "" : channel + "/";
}

}  // namespace

void State::add(std::string name, std::shared_ptr<const Layout> layout, bool broadcast, Flat values) {
  assert(!has(name) && values.size() == layout->size());
  channels_.push_back({std::move(name), std::move(layout), broadcast, std::move(values)});
}

void State::add_sent_while(std::string scalar, std::string name, std::shared_ptr<const Layout> layout, Flat values) {
  add(std::move(name), std::move(layout), true, std::move(values));
  channels_.back().sent_while = std::move(scalar);
}

bool State::sends(const Channel& channel) const {
  return channel.broadcast && (channel.sent_while.empty() || scalar(channel.sent_while) != 0.0);
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
  if (channel == nullptr) {
    no_such("channel of the state", name, std::views::transform(channels_, &Channel::name));
  }
  return channel->values;
}

std::span<float> State::at(std::string_view name) {
  const auto values = std::as_const(*this).at(name);
  return {const_cast<float*>(values.data()), values.size()};
}

void State::add_scalar(std::string name, bool broadcast, double value) {
  const bool fresh = scalars_.emplace(std::move(name), Scalar{value, broadcast}).second;
  assert(fresh);
  static_cast<void>(fresh);
}

double& State::scalar(std::string_view name) {
  const auto found = scalars_.find(name);
  if (found == scalars_.end()) no_such("scalar of the state", name, std::views::keys(scalars_));
  return found->second.value;
}

double State::scalar(std::string_view name) const {
  return const_cast<State&>(*this).scalar(name);
}

std::string State::write(Files& files, const std::filesystem::path& path) const {
  std::vector<TensorView> tensors;
  for (const auto& channel : channels_) {
    auto views = views_of(*channel.layout, channel.values, prefix_of(channel.name));
    tensors.insert(tensors.end(), views.begin(), views.end());
  }
  std::map<std::string, std::string, std::less<>> metadata{{"format", "parley 1"}};
  for (const auto& [name, scalar] : scalars_) metadata["scalar/" + name] = fmt::format("{:a}", scalar.value);
  return write_safetensors(files, path, tensors, metadata);
}

void State::restore(const TensorFile& file, const std::string& name) {
  file.require_checksum(name);
  std::vector<Flat> values;
  for (const auto& channel : channels_) {
    values.push_back(assemble(file, *channel.layout, name, prefix_of(channel.name)));
  }
  auto numbers = scalars_;
  for (auto& [key, scalar] : numbers) {
    const auto found = file.metadata.find("scalar/" + key);
    if (found == file.metadata.end()) fail("{}: scalar '{}' is missing", name, key);
    scalar.value = std::strtod(found->second.c_str(), nullptr);
  }
  for (std::size_t i = 0; i < values.size(); ++i) channels_[i].values = std::move(values[i]);
  scalars_ = std::move(numbers);
}

}  // namespace parley
