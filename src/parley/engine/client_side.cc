#include "parley/engine/client_side.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/base/timeline.h"

namespace parley {

ClientSide::ClientSide(const ClientSetup& setup, std::size_t worker)
    : setup_(setup),
      local_(setup.local),
      worker_(worker),
      shared_(setup.new_model()),
      trained_(personal_of(*setup.method).model(setup.new_model)),
      trainer_(setup.new_optimizer()) {}

ClientTask ClientSide::task(const Invitation& invitation, const View& data, ClientMemory& memory, Model& model) {
  local_ = setup_.local;
  if (invitation.steps > 0) local_.max_steps = std::min(invitation.steps, local_.steps(data.size()));
  return {.round = invitation.broadcast.number(),
          .client = invitation.client,
          .cohort = invitation.cohort,
          .seed = invitation.seed,
          .broadcast = invitation.broadcast,
          .data = data,
          .model = model,
          .trainer = trainer_,
          .local = local_,
          .memory = memory,
          .initial = setup_.initial};
}

void ClientSide::answer(const Invitation& invitation, const OwnData& data, std::optional<ClientRecord> record,
                        Answer& answer, Model* model) {
  const Span span("client", invitation.client);
  Update& update = answer.update;
  update.shape(setup_.schema);
  update.round = invitation.broadcast.number();
  update.client = invitation.client;
  update.weight = setup_.uniform_weights ? 1.0 : static_cast<double>(data.train.size());
  ClientMemory memory(std::move(record));
  const ClientTask task = this->task(invitation, data.train, memory, model != nullptr ? *model : trained());
  {
    const Span training("train", invitation.client);
    setup_.method->client(task, update);
  }
  answer.own = invitation.test_own ? test_own(task, data, update) : std::nullopt;
  apply_stages(invitation, memory, update);
  answer.record = memory.take();
  answer.epochs = static_cast<double>(update.training.examples) / static_cast<double>(data.train.size());
}

void ClientSide::apply_stages(const Invitation& invitation, ClientMemory& memory, Update& update) const {
  for (std::size_t i = 0; i < setup_.stages->size(); ++i) {
    const Span span("stage", invitation.client);
    const std::string prefix = stage_prefix(i);
    Stream noise(invitation.seed, fmt::format("stage {}", i), update.round, update.client);
    (*setup_.stages)[i]->forward({.broadcast = invitation.broadcast,
                                  .memory = memory,
                                  .prefix = prefix,
                                  .noise = noise,
                                  .secrets = setup_.secrets},
                                 update);
  }
}

std::optional<ClientResult> ClientSide::test_own(const ClientTask& task, const OwnData& data, const Update& update) {
  const Personal& personal = personal_of(*setup_.method);
  if (data.test.size() == 0 || !setup_.method->trains()) return {};
  const Span span("own test", task.client);
  update.check(*setup_.schema);  // a model that diverged is refused for that, and not for what it predicts
  try {
    return test_networks(
        task.model, data.test, data.ood, personal.networks(),
        [&](std::size_t network) { personal.load_own(task, network); }, buffer_);
  } catch (const RunError& error) {
    fail<RefusedUpdate>("its own model cannot be tested: {}", error.what());
  }
}

}  // namespace parley
