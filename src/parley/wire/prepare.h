// A node's experiment: what the server says is trained, on the data that the node has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parley/engine/catalogue.h"
#include "parley/wire/node.h"

namespace parley::wire {

struct NodeData {
  std::string file;                   // an experiment file of the node's own; empty: the server's settings
  std::vector<std::string> data;      // "key=value" of [data]
  std::optional<std::size_t> client;  // which client of the partition; none: all rows are the node's own
};

// The `prepare` of a NodeSetup. The catalogue must outlive it.
decltype(NodeSetup::prepare) preparer(NodeData data, const Catalogue& catalogue);

// Data come in the scales that the federation has agreed on.
void see_as(Experiment& experiment, const Scales& scales);

}  // namespace parley::wire
