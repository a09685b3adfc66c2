// A model that walks from node to node: what it carries along, and how it grows (Kiss 2021, ch. 6, Alg. 6).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "parley/engine/experiment.h"
#include "parley/engine/peer/belief.h"
#include "parley/store/run_folder.h"
#include "parley/update/update.h"

namespace parley {

enum class Route { benefit, random, fresh, cyclic };

// [method] of mm, smm and cyclic; what a method does not offer has these values.
struct WalkOptions {
  std::size_t models = 1;      // K'
  std::size_t candidates = 5;  // neighbours that are asked for their benefit
  // Half of them at most: who always asks all of them goes to and fro between the best two.
  std::size_t asked_of(std::size_t neighbours) const { return std::min((neighbours + 1) / 2, candidates); }
  double discount = 0.05;      // ξ
  std::size_t buffer = 1;      // σ at the start
  std::size_t max_buffer = 1;  // σ_max
  std::size_t patience = 15;   // θ
  double smoothing = 0.1;
  Route route = Route::cyclic;
  double flip = 0.0;

  // Throws InputError.
  explicit WalkOptions(const Options& method);
};

struct Traveller {
  State state;  // as a server would hold it: theta, and the slots of the server step
  std::uint64_t seed = 0;
  std::size_t host = 0;           // where it is, or is on its way to
  std::size_t sender = 0;         // who sent it there, and keeps a copy until it has left again
  std::size_t round = 1;          // r: one more than the times its buffer was emptied
  std::size_t moves = 0;          // names the streams of its choices
  std::size_t visits = 0;         // that ended well
  std::size_t round_began = 0;    // its visits when the buffer was last emptied
  std::size_t buffer_size = 1;    // σ
  std::vector<Update> buffer;     // in the order of the visits
  std::vector<double> belief;     // p, by class
  double average_accuracy = -1;   // moving, over new nodes; negative before the first
  double best_accuracy = -1;      // of that average
  std::size_t since_best = 0;     // moves
  std::vector<std::size_t> seen;  // by node: the number of its last visit there, from 1; 0 for never

  // A visit: `before` is w_r at the new node, `after` what was learned there, `update` the result.
  void absorb(const NodeTest& before, const NodeTest& after, Update update, const WalkOptions& options);
  bool full() const { return buffer.size() >= buffer_size; }
  // w_{r+1} = Σ n w' / Σ n, by the method's server half. Throws RunError when that is not finite.
  void empty_buffer(const Experiment& experiment, const SharedSchema& schema);
  // What a move sends: the weights, the sum so far if there is one, and the belief.
  std::size_t bytes() const;

  // What a node promises this model (benefit(), by what the node says it holds).
  using Ask = std::function<double(std::size_t node)>;
  // The next of these neighbours, drawn by Stream(seed, "route", moves); REQUIRES at least one. Asks each candidate
  // once, and nobody where the route does not depend on it.
  std::size_t choose(const std::vector<std::size_t>& neighbours, const WalkOptions& options, const Ask& ask) const;

  // For a checkpoint: vectors in a record, the rest as JSON.
  ClientRecord record() const;
  Json progress() const;
  void restore(const ClientRecord& record, const Json& progress, const SharedSchema& schema);

 private:
  void watch_accuracy(double accuracy, const WalkOptions& options);
};

// The channel of a model among those that travel, and the weights of all of them: what a run ends with.
std::string member_name(std::size_t model);
State ensemble(const std::vector<Traveller>& travellers, const std::shared_ptr<const Layout>& layout);

}  // namespace parley
