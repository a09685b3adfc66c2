// Who answers a server's invitations, one at a time, on a thread of its own, and keeps the last answer: a node's own
// training (wire/trainer), or the fold of those behind a relay (wire/relay).
//
// Threads:  ask() from any; `ready` is called on the worker's thread, or on that of ask().
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parley/base/bytes.h"
#include "parley/engine/client_results.h"

namespace parley::wire {

// A client, and the round of its last answer that counted; 0: none.
struct AskedClient {
  std::size_t client = 0, last_accepted = 0;

  bool operator==(const AskedClient&) const = default;
};

// What a node is asked.
struct Question {
  std::size_t round = 0, client = 0, cohort = 0;
  std::uint64_t seed = 0;
  std::size_t last_accepted = 0;
  std::size_t steps = 0;                  // at most; 0: as the settings say
  bool test = false;                      // to test the broadcast model, and not to train
  bool test_own = false;                  // to test also what training leaves
  std::vector<AskedClient> relayed = {};  // of a relay: those behind it who are asked
  Bytes broadcast = {};

  bool operator==(const Question&) const = default;
};

// What came of it.
struct Outcome {
  std::size_t round = 0;
  Bytes update;
  double epochs = 0.0;
  double seconds = 0.0;  // of training
  bool forgot = false;   // the client remembers things, its answers counted before, and nothing of that is there
  std::string refusal;   // why there is no update
  // What was asked for of tests; nothing: the node has no test data.
  std::optional<ClientResult> tested;
  bool test = false;  // this is all that was asked for
};

class Worker {
 public:
  using Ready = std::function<void(const std::shared_ptr<const Outcome>&)>;
  explicit Worker(Ready ready) : ready_(std::move(ready)) {}
  virtual ~Worker() = default;

  // Has it answered; at once when it is the question that was answered last. A question that has not been begun is
  // dropped for a newer one.
  void ask(Question question);

 protected:
  // For the last class to be constructed, and the first to be destroyed.
  void begin();
  void end();
  // Whether the question that is being answered is of no interest any more.
  bool is_outdated() const;
  // Null: there is nothing to say.
  virtual std::shared_ptr<const Outcome> answer(const Question& question) = 0;

 private:
  void work();

  const Ready ready_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Question> waiting_, current_;
  std::shared_ptr<const Outcome> last_;  // of current_, once it is there
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace parley::wire
