#include "parley/engine/threads.h"

namespace parley {

void ThreadExecutor::run(const RoundInProgress& round) {
  workers_.run(round.round.cohort.size(), [&](ClientSide& side, std::size_t position) {
    round.fold.answer(position, [&](Answer& answer) {
      const Invitation invitation = round.invitation(position);
      side.answer(invitation, data_of_(invitation.client), store_.load(invitation.client), answer);
      round.check(answer.update);
      if (answer.record) store_.stage(invitation.client, std::move(*answer.record));
    });
  });
}

}  // namespace parley
