#include "parley/wire/relay.h"

#include <algorithm>
#include <map>

#include "parley/base/errors.h"
#include "parley/store/run_folder.h"
#include "parley/wire/folded.h"
#include "parley/wire/keys.h"
#include "parley/wire/serve.h"
#include "parley/wire/server.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;

// Has those behind a relay answered, and folds what they say.
class Folder final : public Worker {
 public:
  Folder(Hub& hub, const Log& log, const RoundRules& rules, SharedSchema schema, Ready ready)
      : Worker(std::move(ready)), hub_(hub), log_(log), rules_(rules), schema_(std::move(schema)) {
    begin();
  }
  ~Folder() override { end(); }

 private:
  std::shared_ptr<const Outcome> answer(const Question& question) override {
    auto outcome = std::make_shared<Outcome>();
    outcome->round = question.round;
    try {
      fold(question, *outcome);
    } catch (const Stopped&) {
      return nullptr;  // the server asks again, this relay or the next
    } catch (const Error& error) {
      outcome->refusal = error.what();
    }
    return outcome;
  }

  void fold(const Question& question, Outcome& outcome) {
    const Broadcast broadcast = Broadcast::decode(question.broadcast);
    OpenRound round{.number = question.round, .cohort = {}, .broadcast = broadcast};
    std::map<std::size_t, std::size_t> last_accepted;
    for (const auto& [client, last] : question.relayed) {
      round.cohort.push_back(client);
      if (last > 0) last_accepted[client] = last;
    }
    std::vector<Settlement> settlements;
    OrderedFold fold(schema_, rules_.window, [&](std::size_t position, Settlement& settled) {
      settled.client = round.cohort[position];
      outcome.epochs += settled.epochs;
      settlements.push_back(std::move(settled));
    });
    hub_.open_round(question.round, question.cohort, question.seed, broadcast);
    const RoundInProgress in_progress{.round = round,
                                      .invitation =
                                          [&](std::size_t position) {
                                            return Invitation{.broadcast = broadcast,
                                                              .client = round.cohort[position],
                                                              .cohort = question.cohort,
                                                              .seed = question.seed};
                                          },
                                      .check = [&](const Update& update) { update.check(*schema_); },
                                      .fold = fold};
    play_round(hub_, log_, rules_, in_progress, last_accepted, [this] { return is_outdated(); });
    hub_.close_round();
    FoldedRound folded = fold.take();
    outcome.update = encode(question.round, {std::move(settlements), std::move(folded.sum)});
  }

  Hub& hub_;
  const Log& log_;
  const RoundRules rules_;
  const SharedSchema schema_;
};

}  // namespace

struct Relay::Parts {
  RelaySetup setup;
  const Log& log;
  RevocationList revoked;
  DataCache cache;
  std::mutex mutex;
  std::atomic<bool> stopping = false;
  std::optional<ServerTerms> agreed;
  std::shared_ptr<const Experiment> experiment;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<Hub> hub;
  std::unique_ptr<Server> server;
  std::unique_ptr<Node> node;

  Parts(RelaySetup given, const Log& to) : setup(std::move(given)), log(to), revoked(setup.revoked) {}

  OwnExperiment prepare(const ServerTerms& terms);
  void open(const ServerTerms& terms);
};

// Once: builds what the server trains, and lets the relay's own nodes join.
void Relay::Parts::open(const ServerTerms& terms) {
  if (!terms.rows) {
    fail(
        "{}: its nodes have data of their own (serve.nodes), and join it themselves; a relay stands for clients of a "
        "[partition]",
        setup.server);
  }
  Config config = Config::parse(terms.config, "the server's settings");
  config.drop("evaluate");  // the server's business
  experiment = std::make_shared<const Experiment>(build(resolve(config, *setup.catalogue), *setup.catalogue, cache));
  std::vector<std::size_t> sizes(experiment->clients());
  for (const std::size_t client : setup.clients) {
    if (client >= sizes.size() || experiment->sizes[client] == 0) {
      fail("--clients: the partition deals no examples to a client {}; it has {} clients", client, sizes.size());
    }
    sizes[client] = experiment->sizes[client];
  }
  const Agreement agreement = agreement_of(*experiment);
  journal = std::make_unique<Journal>(setup.folder / "journal.sqlite", agreement.settings);
  JoinTerms own{.config = terms.config, .agreement = agreement, .rows = true, .sizes = std::move(sizes)};
  own.no_relays = "it is a relay, and so is who it dials; join the server itself";
  const std::lock_guard lock(mutex);
  hub = std::make_unique<Hub>(std::move(own), longest_update(share(experiment->method->schema())), *journal, log,
                              [this](const std::string& serial) { return revoked.contains(serial); });
  if (stopping) hub->stop();
  server = std::make_unique<Server>(*hub, setup.address, setup.server_tls);
  journal->audit("started", "", 0, setup.address);
  if (setup.listening) setup.listening(server->port());
}

OwnExperiment Relay::Parts::prepare(const ServerTerms& terms) {
  if (agreed && *agreed != terms) fail("{}: the server has other settings now; start this relay again", setup.server);
  if (!agreed) open(terms);
  agreed = terms;
  if (!hub->await_complete()) throw Stopped("stopped before all of its nodes had joined; start again to go on");
  return {experiment, setup.clients.front()};
}

Relay::Relay(RelaySetup setup, const Log& log) {
  make_folder(setup.folder);
  parts_ = std::make_unique<Parts>(std::move(setup), log);
  Parts& parts = *parts_;
  parts.node = std::make_unique<Node>(
      NodeSetup{.server = parts.setup.server,
                .tls = parts.setup.node_tls,
                .name = parts.setup.name,
                .folder = parts.setup.folder,
                .prepare = [&parts](const ServerTerms& terms, const Whole&) { return parts.prepare(terms); },
                .relayed = parts.setup.clients,
                .make_worker =
                    [&parts](const OwnExperiment& own, Worker::Ready ready) {
                      RoundRules rules = parts.setup.rules;
                      rules.uniform_weights = own.experiment->settings.server.text("weighting") == "uniform";
                      return std::make_unique<Folder>(*parts.hub, parts.log, rules,
                                                      share(own.experiment->method->schema()), std::move(ready));
                    }},
      log);
}

Relay::~Relay() = default;

void Relay::run() {
  const auto leave = [&](bool finished) {
    if (!parts_->hub) return;
    say_farewell(*parts_->hub, finished ? 12s : 1s, finished,
                 finished ? "the run is over" : "the relay stops; it may be back");
  };
  try {
    parts_->node->run();
  } catch (const Error&) {
    leave(false);
    throw;
  }
  leave(!parts_->stopping);
}

void Relay::stop() {
  const std::lock_guard lock(parts_->mutex);
  parts_->stopping = true;
  parts_->node->stop();
  if (parts_->hub) parts_->hub->stop();
}

}  // namespace parley::wire
