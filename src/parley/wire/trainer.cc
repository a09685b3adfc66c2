#include "parley/wire/trainer.h"

#include <chrono>

#include "parley/base/errors.h"

namespace parley::wire {

NodeRecords::NodeRecords(std::filesystem::path folder, std::string run)
    : folder_(std::move(folder)), run_(std::move(run)) {}

std::optional<ClientRecord> NodeRecords::recall(std::size_t client, std::size_t last_accepted) {
  if (store_ && pending_ && *pending_ <= last_accepted) store_->sweep();
  // A store that was told of a version which did not count would take the one before it for stale.
  if (!store_ || pending_)
    store_ = std::make_unique<ClientStore>(ClientStore::Keep::memory, folder_, real_files(), run_);
  pending_.reset();
  store_->open_at(last_accepted);
  return store_->load(client);
}

std::optional<ClientRecord> NodeRecords::look_up(std::size_t client, std::size_t last_accepted) const {
  ClientStore store(ClientStore::Keep::memory, folder_, real_files(), run_);
  store.read_at(last_accepted);
  return store.load(client);
}

void NodeRecords::keep(std::size_t client, std::size_t round, ClientRecord record) {
  store_->stage(client, std::move(record));
  store_->commit(round);
  store_->save(round);
  pending_ = round;
}

Trainer::Trainer(OwnExperiment own, const std::filesystem::path& folder, const std::string& run, Ready ready)
    : Worker(std::move(ready)),
      own_(std::move(own)),
      schema_(share(own_.experiment->method->schema())),
      records_(folder, run),
      side_(own_.experiment->client_setup(schema_)) {
  begin();
}

std::shared_ptr<const Outcome> Trainer::answer(const Question& question) {
  auto outcome = std::make_shared<Outcome>();
  outcome->round = question.round;
  try {
    const Broadcast broadcast = Broadcast::decode(question.broadcast);
    if (broadcast.number() != question.round) {
      fail("the broadcast is of round {}, the invitation of round {}", broadcast.number(), question.round);
    }
    outcome->test = question.test;
    question.test ? test(question, broadcast, *outcome) : train(question, broadcast, *outcome);
  } catch (const Error& error) {
    outcome->refusal = error.what();
  }
  return outcome;
}

void Trainer::train(const Question& question, const Broadcast& broadcast, Outcome& outcome) {
  auto record = records_.recall(question.client, question.last_accepted);
  const bool fresh = !record;
  Answer answer;
  const auto began = std::chrono::steady_clock::now();
  side_.answer({.broadcast = broadcast,
                .client = question.client,
                .cohort = question.cohort,
                .seed = question.seed,
                .test_own = question.test_own,
                .steps = question.steps},
               own_data(), std::move(record), answer);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  answer.update.check(*schema_);
  outcome.forgot = fresh && answer.record && question.last_accepted > 0;
  if (answer.record) records_.keep(question.client, question.round, std::move(*answer.record));
  outcome.epochs = answer.epochs;
  outcome.tested = std::move(answer.own);
  outcome.update = answer.update.encode();
}

// As Evaluator does in a simulation.
void Trainer::test(const Question& question, const Broadcast& broadcast, Outcome& outcome) {
  const OwnData data = own_data();
  if (data.test.size() == 0) return;
  ClientMemory memory(records_.look_up(question.client, question.last_accepted));
  const ClientTask task =
      side_.task({.broadcast = broadcast, .client = question.client, .cohort = 0, .seed = question.seed}, data.train,
                 memory, side_.shared());
  outcome.tested = test_networks(
      task.model, data.test, {}, 1, [&](std::size_t) { personal_of(*own_.experiment->method).load_shared(task); },
      side_.buffer());
}

OwnData Trainer::own_data() const {
  const Federated& federated = own_.experiment->federated;
  OwnData data{.train = federated.partition.view(*federated.data.train, own_.row)};
  if (federated.own_test_data) data.test = federated.own_test_view(own_.row);
  return data;
}

}  // namespace parley::wire
