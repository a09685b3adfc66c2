// Who can talk to whom: undirected graphs over the clients, none linked to itself.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "parley/base/random.h"
#include "parley/base/registry.h"

namespace parley {

// The neighbours of each node, in rising order.
using Graph = std::vector<std::set<std::size_t>>;

// `nodes` is at least 1. Throws InputError when there is no such graph of that many nodes.
using MakeGraph = std::function<Graph(const Options& options, std::size_t nodes, Stream& stream)>;
using GraphRegistry = Registry<MakeGraph>;

// Every kind of graph, in one list.
GraphRegistry graphs();

// A node of `members` that no path joins to the first of them, or that first one when there is none.
std::size_t find_cut_off(const Graph& graph, const std::vector<std::size_t>& members);

}  // namespace parley
