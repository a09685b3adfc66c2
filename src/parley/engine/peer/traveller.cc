#include "parley/engine/peer/traveller.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/cohort.h"
#include "parley/engine/fold.h"
#include "parley/engine/server_side.h"

namespace parley {
namespace {

Route route_of(const std::string& name) {
  if (name == "benefit") return Route::benefit;
  if (name == "random") return Route::random;
  if (name == "fresh") return Route::fresh;
  assert(name == "cyclic");
  return Route::cyclic;
}

std::string channel_name(std::size_t update, const std::string& channel) {
  return fmt::format("update {}/{}", update, channel);
}

}  // namespace

WalkOptions::WalkOptions(const Options& method) : models(static_cast<std::size_t>(method.integer("models"))) {
  if (method.has("route")) {
    route = route_of(method.text("route"));
    candidates = static_cast<std::size_t>(method.integer("candidates"));
    discount = method.real("discount");
    flip = method.real("flip");
  }
  if (method.has("buffer")) {
    buffer = static_cast<std::size_t>(method.integer("buffer"));
    max_buffer = static_cast<std::size_t>(method.integer("max_buffer"));
    patience = static_cast<std::size_t>(method.integer("patience"));
    smoothing = method.real("smoothing");
  }
  if (max_buffer < buffer) {
    fail("method.max_buffer = {}: less than method.buffer = {}, at which the buffer starts; raise it", max_buffer,
         buffer);
  }
}

void Traveller::watch_accuracy(double accuracy, const WalkOptions& options) {
  average_accuracy =
      average_accuracy < 0.0 ? accuracy : (1.0 - options.smoothing) * average_accuracy + options.smoothing * accuracy;
  if (average_accuracy > best_accuracy) {
    best_accuracy = average_accuracy;
    since_best = 0;
  } else if (++since_best >= options.patience) {
    buffer_size = std::min(buffer_size + 1, options.max_buffer);
    since_best = 0;
  }
}

void Traveller::absorb(const NodeTest& before, const NodeTest& after, Update update, const WalkOptions& options) {
  watch_accuracy(before.accuracy, options);
  update_belief(belief, after.f1, options.discount);
  seen[update.client] = ++visits;
  buffer.push_back(std::move(update));
}

// In the order in which a server would sum the same clients, largest first: then the result does not depend on the
// path, and a walk over everyone is a round of federated averaging, bit for bit.
void Traveller::empty_buffer(const Experiment& experiment, const SharedSchema& schema) {
  std::ranges::stable_sort(buffer, [&](const Update& a, const Update& b) {
    return folds_before(a.client, experiment.sizes[a.client], b.client, experiment.sizes[b.client]);
  });
  ServerSide server(experiment.server_setup(), std::move(state));
  OpenRound open{.number = round, .cohort = {}, .broadcast = Broadcast(server.state(), round)};
  BlockSum sum(schema);
  for (const Update& update : buffer) {
    open.cohort.push_back(update.client);
    sum.add(&update);
  }
  FoldedRound folded{sum.take(), {}};
  server.close(open, folded);
  state = std::move(server.state());
  buffer.clear();
  round_began = visits;
  ++round;
}

std::size_t Traveller::bytes() const {
  const std::size_t weights = Broadcast(state).wire_bytes();
  return (buffer.empty() ? weights : 2 * weights) + belief.size() * sizeof(float);
}

std::size_t Traveller::choose(const std::vector<std::size_t>& neighbours, const WalkOptions& options,
                              const Ask& ask) const {
  assert(!neighbours.empty());
  Stream stream(seed, "route", moves);
  std::vector<std::size_t> drawn = neighbours;
  stream.shuffle(std::span(drawn));  // so that the first of equals is a random one
  const auto best = [&](const auto& score) { return *std::ranges::max_element(drawn, {}, score); };
  switch (options.route) {
    case Route::random: break;
    case Route::fresh: return best([&](std::size_t node) { return seen[node] <= round_began; });
    case Route::cyclic: {
      // Where it was longest ago; of nodes it has never seen, the next in number.
      const auto ahead = [&](std::size_t node) { return (node + seen.size() - host) % seen.size(); };
      return *std::ranges::min_element(drawn, {}, [&](std::size_t node) { return std::pair(seen[node], ahead(node)); });
    }
    case Route::benefit: {
      drawn.resize(options.asked_of(drawn.size()));
      std::vector<double> promised;
      for (const std::size_t node : drawn) promised.push_back(ask(node));
      return drawn[static_cast<std::size_t>(std::ranges::max_element(promised) - promised.begin())];
    }
  }
  return drawn.front();
}

ClientRecord Traveller::record() const {
  ClientRecord result;
  for (const auto& channel : state.channels()) result[channel.name] = channel.values;
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    for (const auto& spec : buffer[i].schema().channels) result[channel_name(i, spec.name)] = buffer[i][spec.name];
  }
  return result;
}

Json Traveller::progress() const {
  Json updates = Json::array();
  for (const auto& update : buffer) {
    updates.push_back({{"client", update.client}, {"weight", update.weight}, {"scalars", update.scalars()}});
  }
  Json scalars = Json::object();
  for (const auto& [name, scalar] : state.scalars()) scalars[name] = scalar.value;
  return {{"host", host},
          {"sender", sender},
          {"round", round},
          {"moves", moves},
          {"visits", visits},
          {"round_began", round_began},
          {"buffer_size", buffer_size},
          {"buffer", updates},
          {"belief", belief},
          {"average_accuracy", average_accuracy},
          {"best_accuracy", best_accuracy},
          {"since_best", since_best},
          {"seen", seen},
          {"scalars", scalars}};
}

void Traveller::restore(const ClientRecord& record, const Json& progress, const SharedSchema& schema) {
  progress.at("host").get_to(host);
  progress.at("sender").get_to(sender);
  progress.at("round").get_to(round);
  progress.at("moves").get_to(moves);
  progress.at("visits").get_to(visits);
  progress.at("round_began").get_to(round_began);
  progress.at("buffer_size").get_to(buffer_size);
  progress.at("belief").get_to(belief);
  progress.at("average_accuracy").get_to(average_accuracy);
  progress.at("best_accuracy").get_to(best_accuracy);
  progress.at("since_best").get_to(since_best);
  progress.at("seen").get_to(seen);
  for (const auto& [name, value] : progress.at("scalars").items()) state.scalar(name) = value.get<double>();
  for (const auto& channel : state.channels())
    std::ranges::copy(record.at(channel.name), state.at(channel.name).begin());
  buffer.clear();
  for (const auto& saved : progress.at("buffer")) {
    Update& update = buffer.emplace_back(schema);
    saved.at("client").get_to(update.client);
    saved.at("weight").get_to(update.weight);
    saved.at("scalars").get_to(update.scalars());
    for (const auto& spec : schema->channels) {
      update[spec.name] = record.at(channel_name(buffer.size() - 1, spec.name));
    }
  }
}

std::string member_name(std::size_t model) {
  return model == 0 ? "theta" : fmt::format("model{}", model);
}

State ensemble(const std::vector<Traveller>& travellers, const std::shared_ptr<const Layout>& layout) {
  State state;
  for (std::size_t k = 0; k < travellers.size(); ++k) {
    const auto theta = travellers[k].state.at("theta");
    state.add(member_name(k), layout, k == 0, Flat(theta.begin(), theta.end()));
  }
  return state;
}

}  // namespace parley
