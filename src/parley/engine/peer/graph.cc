#include "parley/engine/peer/graph.h"

#include <nlohmann/json.hpp>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/nesting.h"

namespace parley {
namespace {

using nlohmann::json;

void link(Graph& graph, std::size_t a, std::size_t b) {
  graph[a].insert(b);
  graph[b].insert(a);
}

void unlink(Graph& graph, std::size_t a, std::size_t b) {
  graph[a].erase(b);
  graph[b].erase(a);
}

Graph complete(const Options&, std::size_t nodes, Stream&) {
  Graph graph(nodes);
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t b = 0; b < a; ++b) link(graph, a, b);
  }
  return graph;
}

// Nodes in a circle, each linked to the `degree` nearest; with an odd degree also to the one opposite.
Graph lattice(std::size_t nodes, std::size_t degree) {
  Graph graph(nodes);
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t step = 1; step <= degree / 2; ++step) link(graph, a, (a + step) % nodes);
    if (degree % 2 == 1) link(graph, a, (a + nodes / 2) % nodes);
  }
  return graph;
}

Graph ring(const Options&, std::size_t nodes, Stream&) {
  if (nodes < 3) fail("graph.kind = \"ring\": {} clients make no ring; use \"complete\"", nodes);
  return lattice(nodes, 2);
}

std::size_t degree_below(const Options& options, std::size_t nodes) {
  const auto degree = static_cast<std::size_t>(options.integer("degree"));
  if (degree >= nodes) {
    fail("graph.degree = {}: each of {} clients has at most {} neighbours; lower it, or use graph.kind = \"complete\"",
         degree, nodes, nodes - 1);
  }
  return degree;
}

std::vector<std::pair<std::size_t, std::size_t>> edges_of(const Graph& graph) {
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (std::size_t a = 0; a < graph.size(); ++a) {
    for (const std::size_t b : graph[a]) {
      if (a < b) edges.emplace_back(a, b);
    }
  }
  return edges;
}

// Exchanging the ends of two links keeps every degree; enough exchanges forget the lattice.
Graph random_regular(const Options& options, std::size_t nodes, Stream& stream) {
  const std::size_t degree = degree_below(options, nodes);
  if (nodes * degree % 2 == 1) {
    fail("graph.degree = {}: {} clients cannot all have an odd number of neighbours; make one of the two even", degree,
         nodes);
  }
  Graph graph = lattice(nodes, degree);
  auto edges = edges_of(graph);
  constexpr std::size_t kExchangesAnEdge = 10;
  for (std::size_t i = 0; i < kExchangesAnEdge * edges.size(); ++i) {
    auto& [a, b] = edges[stream.below(edges.size())];
    auto& [c, d] = edges[stream.below(edges.size())];
    if (stream.below(2) == 1) std::swap(c, d);
    if (a == c || a == d || b == c || b == d || graph[a].contains(d) || graph[c].contains(b)) continue;
    unlink(graph, a, b);
    unlink(graph, c, d);
    link(graph, a, d);
    link(graph, c, b);
    std::swap(b, d);
  }
  return graph;
}

Graph small_world(const Options& options, std::size_t nodes, Stream& stream) {
  const std::size_t degree = degree_below(options, nodes);
  if (degree % 2 == 1) fail("graph.degree = {}: a small world starts from a lattice; expected an even degree", degree);
  Graph graph = lattice(nodes, degree);
  for (const auto& [a, b] : edges_of(graph)) {
    if (stream.uniform() >= options.real("rewire") || graph[a].size() == nodes - 1) continue;
    std::size_t other = stream.below(nodes);
    while (other == a || graph[a].contains(other)) other = stream.below(nodes);
    unlink(graph, a, b);
    link(graph, a, other);
  }
  return graph;
}

Graph from_file(const Options& options, std::size_t nodes, Stream&) {
  const std::string& path = options.text("path");
  if (path.empty()) fail("graph.path: empty; expected a JSON file with a list of links, [[0, 1], [1, 2], …]");
  const std::string text = read_file(path);
  refuse_deep_json(text, path);
  const auto links = json::parse(text, nullptr, false);
  if (!links.is_array()) fail("{}: expected a list of links, [[0, 1], [1, 2], …]", path);
  Graph graph(nodes);
  for (std::size_t i = 0; i < links.size(); ++i) {
    const json& pair = links[i];
    const auto is_node = [&](const json& end) { return end.is_number_unsigned() && end.get<std::size_t>() < nodes; };
    if (!pair.is_array() || pair.size() != 2 || !is_node(pair[0]) || !is_node(pair[1]) || pair[0] == pair[1]) {
      fail("{}: link {} is {}; expected two different clients from 0 to {}", path, i, pair.dump(), nodes - 1);
    }
    link(graph, pair[0].get<std::size_t>(), pair[1].get<std::size_t>());
  }
  return graph;
}

}  // namespace

GraphRegistry graphs() {
  GraphRegistry registry("graph");
  const Option degree{"degree", std::int64_t{4}, "neighbours of a node", at_least(1)};
  registry.add({.name = "complete", .summary = "Everyone can talk to everyone."}, complete);
  registry.add({.name = "ring", .summary = "Each node has two neighbours."}, ring);
  registry.add({.name = "regular", .summary = "Random links, as many at every node.", .options = {degree}},
               random_regular);
  registry.add({.name = "small_world",
                .summary = "A lattice on a ring with some links thrown elsewhere.",
                .source = "Watts & Strogatz 1998",
                .options = {degree, {"rewire", 0.1, "chance that a link is thrown elsewhere", between(0.0, 1.0)}}},
               small_world);
  registry.add({.name = "file",
                .summary = "Links that another program wrote.",
                .options = {{"path", std::string(), "JSON file with a list of links: [[0, 1], [1, 2]]", {}, {}, true}}},
               from_file);
  return registry;
}

std::size_t find_cut_off(const Graph& graph, const std::vector<std::size_t>& members) {
  std::set<std::size_t> reached{members.front()};
  std::vector<std::size_t> open{members.front()};
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    for (const std::size_t next : graph[node]) {
      if (reached.insert(next).second) open.push_back(next);
    }
  }
  for (const std::size_t node : members) {
    if (!reached.contains(node)) return node;
  }
  return members.front();
}

}  // namespace parley
