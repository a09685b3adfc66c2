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
    std::string sent_while = {};  // a scalar: sent only in rounds in which it is not 0; empty: in all
  };

  void add(std::string name, std::shared_ptr<const Layout> layout, bool broadcast, Flat values);
  // One that clients see only while a scalar of the state is not 0; it costs the other rounds nothing.
  void add_sent_while(std::string scalar, std::string name, std::shared_ptr<const Layout> layout, Flat values);
  // Whether clients are sent it now.
  bool sends(const Channel& channel) const;
  // The values of a channel. Throws std::logic_error for one that is not there, which is a bug, as scalar() does.
  std::span<float> at(std::string_view name);
  std::span<const float> at(std::string_view name) const;
  bool has(std::string_view name) const;
  const std::vector<Channel>& channels() const { return channels_; }

  struct Scalar {
    double value;
    bool broadcast;  // sent to the clients
  };
  void add_scalar(std::string name, bool broadcast, double value);
  double& scalar(std::string_view name);
  double scalar(std::string_view name) const;
  const std::map<std::string, Scalar, std::less<>>& scalars() const { return scalars_; }

  // As tensors: "theta" by the layout's own names, any other channel behind "name/"; scalars in the metadata, exactly.
  // Returns the file's checksum.
  std::string write(Files& files, const std::filesystem::path& path) const;
  // Fills the values of a state that has the right channels. Checks everything before it changes anything; throws
  // InputError naming file and tensor, or a file that carries no checksum.
  void restore(const TensorFile& file, const std::string& name);

 private:
  const Channel* find(std::string_view name) const;
  std::vector<Channel> channels_;
  std::map<std::string, Scalar, std::less<>> scalars_;
};

}  // namespace parley
