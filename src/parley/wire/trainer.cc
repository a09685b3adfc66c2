#include "parley/wire/trainer.h"

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

void NodeRecords::keep(std::size_t client, std::size_t round, ClientRecord record) {
  store_->stage(client, std::move(record));
  store_->commit(round);
  store_->save(round);
  pending_ = round;
}

Trainer::Trainer(OwnExperiment own, const std::filesystem::path& folder, const std::string& run, Ready ready)
    : own_(std::move(own)),
      schema_(share(own_.experiment->method->schema())),
      records_(folder, run),
      side_(own_.experiment->client_setup(schema_)),
      ready_(std::move(ready)),
      thread_([this] { work(); }) {}

Trainer::~Trainer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Trainer::ask(Question question) {
  std::shared_ptr<const Outcome> known;
  {
    const std::lock_guard lock(mutex_);
    if (current_ == question) {
      waiting_.reset();
      if (!last_) return;  // it is being answered
      known = last_;
    } else {
      waiting_ = std::move(question);
    }
  }
  if (known) return ready_(known);
  changed_.notify_all();
}

void Trainer::work() {
  while (true) {
    Question question;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || waiting_; });
      if (ending_) return;
      current_ = std::move(*waiting_);
      waiting_.reset();
      last_.reset();
      question = *current_;
    }
    const auto outcome = answer(question);
    {
      const std::lock_guard lock(mutex_);
      last_ = outcome;
      if (waiting_) continue;  // the server has gone on
    }
    ready_(outcome);
  }
}

std::shared_ptr<const Outcome> Trainer::answer(const Question& question) {
  auto outcome = std::make_shared<Outcome>();
  outcome->round = question.round;
  try {
    const Broadcast broadcast = Broadcast::decode(question.broadcast);
    if (broadcast.number() != question.round) {
      fail("the broadcast is of round {}, the invitation of round {}", broadcast.number(), question.round);
    }
    const Federated& federated = own_.experiment->federated;
    auto record = records_.recall(question.client, question.last_accepted);
    const bool fresh = !record;
    Answer answer;
    side_.answer({.broadcast = broadcast, .client = question.client, .cohort = question.cohort, .seed = question.seed},
                 {.train = federated.partition.view(*federated.data.train, own_.row)}, std::move(record), answer);
    answer.update.check(*schema_);
    outcome->forgot = fresh && answer.record && question.last_accepted > 0;
    if (answer.record) records_.keep(question.client, question.round, std::move(*answer.record));
    outcome->epochs = answer.epochs;
    outcome->update = answer.update.encode();
  } catch (const Error& error) {
    outcome->refusal = error.what();
  }
  return outcome;
}

}  // namespace parley::wire
