// What an update of this round must look like. Published by the method, checked for every update before the sum.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parley/tensor/layout.h"

namespace parley {

// How a channel or scalar enters the sum.
enum class Weighting {
  by_weight,  // Σ weight·x : an average over examples (or over clients, when the weights are uniform)
  plain,      // Σ x
  each,       // channels only: no sum, the server keeps every client's own, which costs it that much memory per client
};

struct ChannelSpec {
  std::string name;
  // A number for each parameter of the model, in its order; or, without a layout, `count` numbers of the method's own.
  std::shared_ptr<const Layout> layout = {};
  std::size_t count = 0;
  Weighting weighting = Weighting::by_weight;
  // The broadcast channel that this one is a changed copy of ("theta" for weights after training). What was learned is
  // the difference: stages that clip, quantise or noise work on that. Empty: the channel is itself a difference.
  std::string relative_to = {};
  // Another channel of the update that multiplies this one, element by element, as it is summed: Σ weight·times·x. Its
  // mean is then taken over that channel's sum. A client's weights times its precision are the Gaussian product.
  std::string times = {};
  // Which numbers are acceptable beside being finite; a precision is positive, a count whole and not negative.
  enum class Bound { any, non_negative, positive, count } bound = Bound::any;
  // What was measured, not learned (a precision, a Fisher): stages that clip or quantise what was learned leave it
  // alone.
  bool statistic = false;
  // Reads the channel from bytes that the method packed in a way of its own (Packing::own). Throws InputError.
  std::function<void(std::span<const std::byte> packed, std::span<float> values)> unpack = {};

  std::size_t size() const { return layout ? layout->size() : count; }
  // As many numbers at the end are statistics too: running means and variances that travel behind the weights.
  std::size_t measured() const { return layout ? layout->size() - layout->trainable() : 0; }
};

struct ScalarSpec {
  std::string name;
  Weighting weighting = Weighting::by_weight;
};

struct Schema {
  std::vector<ChannelSpec> channels;
  std::vector<ScalarSpec> scalars = {};

  // Position by name. Throws std::logic_error for a name that is not there: a bug of whoever asks.
  std::size_t channel(std::string_view name) const;
  std::size_t scalar(std::string_view name) const;
};

// One schema serves all updates and sums of a run.
using SharedSchema = std::shared_ptr<const Schema>;
// Throws std::logic_error when two channels or scalars have one name, `times` names no channel, or a scalar is `each`.
SharedSchema share(Schema schema);

}  // namespace parley
