#include "parley/engine/peer/hosting.h"

#include <algorithm>

#include "parley/engine/word_embedding.h"

namespace parley {
namespace {

std::size_t visits_of(const Experiment& experiment, const WalkOptions& options) {
  const auto visits = static_cast<std::size_t>(experiment.settings.peer.integer("visits"));
  return visits > 0 ? visits : options.models;
}

}  // namespace

Hosting::Hosting(const Experiment& experiment, std::size_t workers)
    : experiment_(experiment),
      options_(experiment.settings.method),
      nodes_(experiment),
      visits_a_round_(visits_of(experiment, options_)),
      server_(experiment.server_setup()),
      thinned_(workers) {}

std::vector<std::size_t> Hosting::first_hosts() const {
  std::vector<std::size_t> order = experiment_.network->living(0.0), hosts;
  Stream(experiment_.seed(), "hosts").shuffle(std::span(order));
  for (std::size_t k = 0; k < options_.models; ++k) hosts.push_back(order[k % order.size()]);
  return hosts;
}

Traveller Hosting::new_traveller(std::size_t number, std::size_t host) const {
  const std::uint64_t seed = experiment_.seed();
  Traveller traveller{.seed = number == 0 ? seed : Stream(seed, "model", 0, number).bits(),
                      .host = host,
                      .sender = host,
                      .buffer_size = options_.buffer,
                      .belief = std::vector<double>(experiment_.federated.data.train->classes),
                      .seen = std::vector<std::size_t>(experiment_.clients())};
  Flat weights = experiment_.initial;
  if (number > 0 && experiment_.settings.model.text("init").empty() && !experiment_.new_model()->pretrained()) {
    Stream stream(traveller.seed, "initial weights");
    initialise(*experiment_.layout, weights, stream);
    use_word_vectors(experiment_.settings, *experiment_.layout, weights);
  }
  ServerSetup setup = experiment_.server_setup();
  setup.initial = weights;
  traveller.state = starting_state(setup);
  return traveller;
}

std::vector<bool> Hosting::says_present(std::size_t node) const {
  return presence(nodes_.train(node), options_.flip, Stream(experiment_.seed(), "presence", 0, node));
}

Model& Hosting::thinned(ClientSide& side, std::size_t thinning) {
  Options options = experiment_.settings.model;
  const bool drops = options.has("dropout") && options.real("dropout") > 0.0;
  if (!drops || thinning == 1) return side.shared();
  auto& model = thinned_[side.worker()][thinning];
  if (!model) {
    options.set("dropout", options.real("dropout") / static_cast<double>(thinning));
    model = experiment_.make_model(options, experiment_.task);
  }
  return *model;
}

VisitResult Hosting::visit(ClientSide& side, const Traveller& traveller) {
  VisitResult visit;
  Model& network = thinned(side, traveller.buffer_size);
  const View test = nodes_.test(traveller.host);
  try {
    std::ranges::copy(traveller.state.at("theta"), network.parameters().begin());
    visit.before = test_classes(network, test, side.buffer());
    visit.update = train_at({traveller.round, traveller.host, traveller.seed, traveller.state, &network}, nodes_, side);
    visit.after = test_classes(network, test, side.buffer());
  } catch (const RefusedUpdate& refused) {
    visit.refusal = refused.what();
  }
  return visit;
}

void Hosting::take_leave(Traveller& traveller, VisitResult visit) const {
  if (!visit.refusal.empty()) return;
  traveller.absorb(visit.before, visit.after, std::move(visit.update), options_);
  if (traveller.full()) traveller.empty_buffer(experiment_, schema());
}

}  // namespace parley
