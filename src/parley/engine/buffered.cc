#include "parley/engine/buffered.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/engine/cohort.h"
#include "parley/engine/federation.h"
#include "parley/engine/simulated_errands.h"
#include "parley/engine/staleness.h"

namespace parley {
namespace {

std::string record_key(std::size_t version, const std::string& channel) {
  return fmt::format("{}/{}", version, channel);
}

}  // namespace

std::unique_ptr<Errands> simulate(const ErrandTools& tools) {
  return std::make_unique<SimulatedErrands>(tools);
}

Buffered::Buffered(const Experiment& experiment, ClientStore& store, std::size_t threads,
                   const MakeErrands& make_errands)
    : experiment_(experiment),
      store_(store),
      server_(experiment.server_setup()),
      workers_(experiment.client_setup(server_.schema()), threads),
      evaluator_(experiment, workers_, store),
      errands_(make_errands({.workers = workers_,
                             .data_of = [this](std::size_t client) { return evaluator_.data_of(client); },
                             .store = store,
                             .pace = *experiment.pace})),
      roster_(experiment.sizes),
      at_once_(cohort_size(roster_.holders().size(), experiment.settings.server.real("participation"))),
      buffer_(static_cast<std::size_t>(experiment.settings.server.integer("buffer"))),
      power_(experiment.settings.server.real("discount")) {
  if (buffer_ == 0 || buffer_ > at_once_) buffer_ = at_once_;
}

Invitation Buffered::invitation(std::size_t client, std::size_t version) const {
  return {.broadcast = models_.at(version),
          .client = client,
          .cohort = buffer_,
          .seed = experiment_.seed(),
          .test_own = evaluator_.asks_clients()};
}

std::size_t Buffered::send_to_work(std::size_t number) {
  models_.emplace(number, Broadcast(server_.state(), number));
  std::vector<std::size_t> idle;
  std::ranges::copy_if(roster_.holders(), std::back_inserter(idle),
                       [&](std::size_t client) { return !at_work_.contains(client); });
  const std::size_t wanted = at_once_ - at_work_.size();
  const auto chosen = draw_at_random({.seed = experiment_.seed(), .round = number, .holders = idle, .wanted = wanted});
  for (const std::size_t client : chosen) {
    at_work_[client] = number;
    errands_->ask(invitation(client, number));
  }
  return chosen.size();
}

RoundReport Buffered::round(std::size_t number, const RoundProgress& done) {
  const double began = errands_->now();
  RoundReport report{.round = number};
  const std::size_t asked = send_to_work(number);
  auto ready = errands_->await(buffer_);
  std::ranges::sort(ready, [&](const auto& a, const auto& b) {
    return folds_before(a.client, experiment_.sizes[a.client], b.client, experiment_.sizes[b.client]);
  });
  OpenRound round{.number = number, .cohort = {}, .broadcast = models_.at(number)};
  std::size_t oldest = 0, ages = 0;
  for (const auto& who : ready) {
    round.cohort.push_back(who.client);
    oldest = std::max(oldest, number - who.version());
    ages += number - who.version();
  }
  const auto admit = [&](std::size_t position, Update& update) {
    const Broadcast& then = ready[position].answers;
    server_.check({.number = then.number(), .cohort = {}, .broadcast = then}, update);
    if (then.number() == number) return;
    bring_forward(update, then, round.broadcast, discount(number - then.number(), power_));
  };
  OrderedFold fold(server_.schema(), errands_->window(), [&](std::size_t position, Settlement& settled) {
    if (!settled.refusal) {
      report.epochs += settled.epochs;
      if (settled.own) evaluator_.remember(settled.client, std::move(*settled.own));
    }
    if (done) done(position + 1, round.cohort.size());
  });
  errands_->hand_over(number, ready, admit, fold);
  FoldedRound folded = fold.take();
  describe_answers(round, folded, report);
  report.simulated_seconds = errands_->now() - began;
  report.transmissions = asked + report.clients;
  report.bytes_down = round.broadcast.wire_bytes() * asked;
  ClosedRound closed = server_.close(round, folded);
  report.extra = std::move(closed.metrics);
  report.finished = closed.finished;
  report.extra["staleness"] = static_cast<double>(ages) / static_cast<double>(ready.size());
  report.extra["max_staleness"] = static_cast<double>(oldest);
  for (const auto& who : ready) at_work_.erase(who.client);
  forget_old_models();
  stage_old_models();
  return report;
}

void Buffered::forget_old_models() {
  std::erase_if(models_, [&](const auto& model) {
    return std::ranges::none_of(at_work_, [&](const auto& work) { return work.second == model.first; });
  });
}

// Where the store has nothing of a client's, so that a resumed run knows what those at work were sent.
void Buffered::stage_old_models() {
  if (models_.empty() || errands_->progress().is_null()) return;
  ClientRecord record;
  for (const auto& [version, broadcast] : models_) {
    for (const auto& channel : server_.state().channels()) {
      if (!channel.broadcast) continue;
      const auto values = broadcast.at(channel.name);
      record[record_key(version, channel.name)] = Flat(values.begin(), values.end());
    }
  }
  store_.stage(experiment_.clients(), std::move(record));
}

Json Buffered::progress() const {
  Json scalars = Json::object();
  for (const auto& [version, broadcast] : models_) {
    for (const auto& [name, scalar] : server_.state().scalars()) {
      if (scalar.broadcast) scalars[record_key(version, name)] = broadcast.scalar(name);
    }
  }
  return {{"evaluator", evaluator_.progress()}, {"errands", errands_->progress()}, {"scalars", std::move(scalars)}};
}

void Buffered::restore(const Json& progress) {
  evaluator_.restore(progress.at("evaluator"));
  const Json& errands = progress.at("errands");
  if (errands.is_null()) return;
  const auto record = store_.load(experiment_.clients());
  errands_->restore(errands, [&](std::size_t client, std::size_t version) {
    if (!models_.contains(version)) {
      State old = server_.state();
      for (const auto& channel : server_.state().channels()) {
        if (!channel.broadcast) continue;
        const std::string key = record_key(version, channel.name);
        if (!record || !record->contains(key)) {
          fail(
              "the model of round {}, on which client {} is at work, is missing from the checkpoint; begin again with "
              "--overwrite",
              version, client);
        }
        std::ranges::copy(record->at(key), old.at(channel.name).begin());
      }
      for (const auto& [name, scalar] : server_.state().scalars()) {
        if (scalar.broadcast) old.scalar(name) = progress.at("scalars").at(record_key(version, name)).get<double>();
      }
      models_.emplace(version, Broadcast(old, version));
    }
    at_work_[client] = version;
    return invitation(client, version);
  });
}

void require_fit_for_buffer(const Experiment& experiment) {
  const Settings& settings = experiment.settings;
  if (settings.server.text("rounds") != "buffered") return;
  const std::string& name = settings.method.text("name");
  if (settings.among_peers) fail("server.rounds = \"buffered\": {} has no server; use \"synchronous\"", name);
  if (experiment.method->cohort_rule() != nullptr) {
    fail("server.rounds = \"buffered\": {} chooses its own cohorts; use \"synchronous\"", name);
  }
  if (const std::string why = spoils_with_age(experiment.method->schema()); !why.empty()) {
    fail(
        "server.rounds = \"buffered\": an answer of {} is of no use once the model has moved on: {}; use "
        "\"synchronous\", or a method that averages weights, such as fedavg",
        name, why);
  }
}

}  // namespace parley
