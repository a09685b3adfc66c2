// What an update of this round must look like. Published by the method, checked for every update before the sum.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace parley {

// How a channel or scalar enters the sum.
enum class Weighting {
  by_weight,  // Σ weight·x : an average over examples (or over clients, when the weights are uniform)
  plain,      // Σ x
  each,       // no sum: the server keeps every client's own, which costs it that much memory a client
};

struct ChannelSpec {
  std::string name;
  std::size_t size = 0;
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
  // As many numbers at the end are statistics too: running means and variances that travel behind the weights.
  std::size_t measured = 0;
};

struct ScalarSpec {
  std::string name;
  Weighting weighting = Weighting::by_weight;
};

struct Schema {
  std::vector<ChannelSpec> channels;
  std::vector<ScalarSpec> scalars;

  // Position by name; asking for one that is not there is a bug.
  std::size_t channel(const std::string& name) const;
  std::size_t scalar(const std::string& name) const;
};

}  // namespace parley
