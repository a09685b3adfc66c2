// A node's work: answers one invitation at a time, on a thread of its own, and keeps the last answer.
//
// Threads:  ask() and forget() from any; `ready` is called on the trainer's thread.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "parley/engine/client_side.h"
#include "parley/store/client_store.h"
#include "parley/wire/node.h"

namespace parley::wire {

// What a client remembers, in versions: the record after each of its answers, of which only the server's next
// invitation says which counted.
class NodeRecords {
 public:
  NodeRecords(std::filesystem::path folder, std::string run);
  // What the client knew after the last answer that counted. Later versions are dropped, earlier ones too.
  std::optional<ClientRecord> recall(std::size_t client, std::size_t last_accepted);
  void keep(std::size_t client, std::size_t round, ClientRecord record);

 private:
  std::filesystem::path folder_;
  std::string run_;
  std::unique_ptr<ClientStore> store_;
  std::optional<std::size_t> pending_;  // the version whose fate is not known yet
};

// What a node is asked.
struct Question {
  std::size_t round = 0, client = 0, cohort = 0;
  std::uint64_t seed = 0;
  std::size_t last_accepted = 0;
  Bytes broadcast;

  bool operator==(const Question&) const = default;
};

// What came of it.
struct Outcome {
  std::size_t round = 0;
  Bytes update;
  double epochs = 0.0;
  bool forgot = false;  // the client remembers things, its answers counted before, and nothing of that is there
  std::string refusal;  // why there is no update
};

class Trainer {
 public:
  using Ready = std::function<void(const std::shared_ptr<const Outcome>&)>;
  Trainer(OwnExperiment own, const std::filesystem::path& folder, const std::string& run, Ready ready);
  ~Trainer();

  // Has it answered; at once when it is the question that was answered last. A question that has not been begun is
  // dropped for a newer one.
  void ask(Question question);

 private:
  void work();
  std::shared_ptr<const Outcome> answer(const Question& question);

  const OwnExperiment own_;
  const SharedSchema schema_;
  NodeRecords records_;
  ClientSide side_;
  const Ready ready_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Question> waiting_, current_;
  std::shared_ptr<const Outcome> last_;  // of current_, once it is there
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace parley::wire
