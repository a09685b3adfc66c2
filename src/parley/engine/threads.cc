#include "parley/engine/threads.h"

#include "parley/base/errors.h"

namespace parley {

void ThreadExecutor::run(const RoundInProgress& round) {
  workers_.run(round.round.cohort.size(), [&](ClientSide& side, std::size_t position) {
    try {
      auto answer = round.fold.borrow();
      std::optional<std::string> refusal;
      try {
        const Invitation invitation = round.invitation(position);
        side.answer(invitation, data_of_(invitation.client), store_.load(invitation.client), *answer);
        round.check(answer->update);
        if (answer->record) store_.stage(invitation.client, std::move(*answer->record));
      } catch (const RefusedUpdate& refused) {
        refusal = refused.what();
      }
      round.fold.push(position, std::move(answer), std::move(refusal));
    } catch (...) {
      round.fold.stop();  // whatever failed, training or folding: nobody may wait for a turn that never comes
      throw;
    }
  });
}

}  // namespace parley
