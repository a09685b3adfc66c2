// What the server knows: named flat vectors and scalars. A checkpoint is exactly this.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parley/tensor/flat.h"
#include "parley/tensor/layout.h"
#include "parley/tensor/safetensors.h"

namespace parley {

class State {
 public:
  struct Channel {
    std::string name;  // "theta", "precision", "server_m", …
    std::shared_ptr<const Layout> layout;
    bool broadcast;  // sent to the clients
    Flat values;
  };

  void add(std::string name, std::shared_ptr<const Layout> layout, bool broadcast, Flat values);
  // The values of a channel; asking for one that is not there is a bug.
  std::span<float> at(std::string_view name);
  std::span<const float> at(std::string_view name) const;
  bool has(std::string_view name) const;
  const std::vector<Channel>& channels() const { return channels_; }

  std::map<std::string, double, std::less<>> scalars;

  // Bytes a client receives.
  std::size_t broadcast_bytes() const;

  // As tensors: "theta" by the layout's own names, any other channel behind "name/"; scalars in the metadata, exactly.
  void write(Files& files, const std::filesystem::path& path) const;
  // Fills the values of a state that has the right channels. Checks everything before it changes anything; throws
  // InputError naming file and tensor.
  void restore(const TensorFile& file, const std::string& name);

 private:
  const Channel* find(std::string_view name) const;
  std::vector<Channel> channels_;
};

// What a client may see of the state.
class Broadcast {
 public:
  explicit Broadcast(const State& state) : state_(&state) {}
  std::span<const float> at(std::string_view name) const;
  double scalar(std::string_view name) const;
  // The same with other values for one channel, which must outlive it: what a client sees that keeps parts of the model
  // to itself.
  Broadcast with(std::string_view name, std::span<const float> values) const;

 private:
  const State* state_;
  std::string_view replaced_;
  std::span<const float> replacement_;
};

}  // namespace parley
