#include "parley/engine/peer/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parley/base/counted.h"
#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

}  // namespace

std::vector<Option> Network::declared() {
  const Range share{.low = 0.0, .high = 1.0, .high_excluded = true};
  return {
      {"visits", std::int64_t{0}, "visits to nodes per round; 0 means one for each model", at_least(0)},
      {"test_share", 0.1, "part of a node's data kept to test visitors on; 0 tests on what they train on", share},
      {"failures", 0.0, "share of the nodes that die", share},
      {"arrivals", 0.0, "share of the nodes that join late", share},
      {"horizon", 100.0, "simulated seconds within which nodes die or join", above(0.0)},
  };
}

Network::Network(const Options& peer, const Pace& pace, const Options& graph, const GraphRegistry& kinds,
                 const std::vector<std::size_t>& sizes, std::uint64_t seed)
    : pace_(pace) {
  const std::size_t clients = sizes.size();
  Stream stream(seed, "graph");
  for (std::size_t client = 0; client < clients; ++client) {
    if (sizes[client] > 0) nodes_.push_back(client);
  }
  const std::string& kind = graph.text("kind");
  if (kind == "file") {  // which names clients, those without data among them
    graph_ = kinds.at(kind).make(graph, clients, stream);
    for (auto& links : graph_) std::erase_if(links, [&](std::size_t other) { return sizes[other] == 0; });
  } else {
    const Graph among = kinds.at(kind).make(graph, nodes_.size(), stream);
    graph_.resize(clients);
    for (std::size_t a = 0; a < among.size(); ++a) {
      for (const std::size_t b : among[a]) graph_[nodes_[a]].insert(nodes_[b]);
    }
  }
  if (const std::size_t lost = find_cut_off(graph_, nodes_); lost != nodes_.front()) {
    fail("graph.kind = \"{}\": no path leads from client {} to client {}{}; {}, or use \"complete\"", kind,
         nodes_.front(), lost,
         nodes_.size() < clients
             ? fmt::format(" ({} no part)",
                           counted(clients - nodes_.size(), "client without data takes", "clients without data take"))
             : "",
         kind == "file" ? "add links" : "raise graph.degree");
  }
  draw_lifetimes(peer, seed);
}

// Those who join late come from the other end of the order than those who die: a network may lose some nodes and gain
// others, and only when the shares overlap does a node do both.
void Network::draw_lifetimes(const Options& peer, std::uint64_t seed) {
  joins_.assign(graph_.size(), 0.0);
  dies_.assign(graph_.size(), kForever);
  std::vector<std::size_t> order = nodes_;
  Stream stream(seed, "lifetimes");
  stream.shuffle(std::span(order));
  const auto count = [&](const char* key) {
    return static_cast<std::size_t>(std::round(peer.real(key) * static_cast<double>(order.size())));
  };
  const double horizon = peer.real("horizon");
  const std::size_t late = std::min(count("arrivals"), order.size() - 1);
  for (std::size_t i = 0; i < late; ++i) joins_[order[order.size() - 1 - i]] = stream.uniform(0.0, horizon);
  for (std::size_t i = 0; i < count("failures"); ++i) dies_[order[i]] = stream.uniform(joins_[order[i]], horizon);
}

std::vector<std::size_t> Network::neighbours(std::size_t node, double time) const {
  std::vector<std::size_t> result;
  std::ranges::copy_if(graph_[node], std::back_inserter(result), [&](std::size_t other) { return alive(other, time); });
  return result;
}

std::vector<std::size_t> Network::living(double time) const {
  std::vector<std::size_t> result;
  std::ranges::copy_if(nodes_, std::back_inserter(result), [&](std::size_t node) { return alive(node, time); });
  return result;
}

double Network::next_presence(double time) const {
  double first = kForever;
  for (const std::size_t node : nodes_) {
    if (dies_[node] > time) first = std::min(first, std::max(time, joins_[node]));
  }
  return first;
}

}  // namespace parley
