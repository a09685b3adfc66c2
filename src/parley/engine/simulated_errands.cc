#include "parley/engine/simulated_errands.h"

#include <algorithm>

#include "parley/base/errors.h"

namespace parley {

void SimulatedErrands::train(ClientSide& side, const Asked& asked, Work& work) const {
  const Invitation& invitation = asked.invitation;
  const std::size_t client = invitation.client;
  work.began = asked.began;
  Answer& answer = *work.answer;
  try {
    side.answer(invitation, tools_.data_of(client), tools_.store.load(client), answer);
  } catch (const RefusedUpdate& refused) {
    work.refusal = refused.what();
  }
  const std::size_t bytes_up = work.refusal ? 0 : answer.update.wire_bytes();
  work.done = work.began + tools_.pace.turn_seconds(client, invitation.broadcast.wire_bytes(),
                                                    answer.update.training.steps, bytes_up);
}

void SimulatedErrands::train() {
  std::vector<Work*> places;
  for (const Asked& asked : asked_) {
    places.push_back(&work_.try_emplace(asked.invitation.client, asked.invitation.broadcast).first->second);
  }
  tools_.workers.run(asked_.size(),
                     [&](ClientSide& side, std::size_t index) { train(side, asked_[index], *places[index]); });
  asked_.clear();
}

std::vector<Errands::Ready> SimulatedErrands::await(std::size_t wanted) {
  train();
  std::vector<std::pair<double, std::size_t>> all;
  for (const auto& [client, work] : work_) all.push_back({work.done, client});
  std::ranges::sort(all);
  all.resize(std::min(wanted, all.size()));
  std::vector<Ready> ready;
  for (const auto& [time, client] : all) ready.push_back({client, work_.at(client).answers});
  now_ = std::max(now_, all.back().first);
  return ready;
}

void SimulatedErrands::hand_over(std::size_t /*round*/, std::span<const Ready> order, const Admit& admit,
                                 OrderedFold& fold) {
  for (std::size_t position = 0; position < order.size(); ++position) {
    Work work = std::move(work_.extract(order[position].client).mapped());
    if (!work.refusal) {
      try {
        admit(position, work.answer->update);
        if (work.answer->record) tools_.store.stage(order[position].client, std::move(*work.answer->record));
      } catch (const RefusedUpdate& refused) {
        work.refusal = refused.what();
      }
    }
    fold.push(position, std::move(work.answer), std::move(work.refusal));
  }
}

Json SimulatedErrands::progress() const {
  Json at_work = Json::array();
  for (const auto& [client, work] : work_) at_work.push_back({client, work.answers.number(), work.began});
  return {{"now", now_}, {"at_work", std::move(at_work)}};
}

void SimulatedErrands::restore(const Json& progress, const Invite& invite) {
  progress.at("now").get_to(now_);
  for (const auto& entry : progress.at("at_work")) {
    asked_.push_back(
        {invite(entry.at(0).get<std::size_t>(), entry.at(1).get<std::size_t>()), entry.at(2).get<double>()});
  }
}

}  // namespace parley
