// A node's work: trains, or tests, on the data that it has.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "parley/engine/client_side.h"
#include "parley/store/client_store.h"
#include "parley/wire/node.h"
#include "parley/wire/worker.h"

namespace parley::wire {

// What a client remembers, in versions: the record after each of its answers, of which only the server's next
// invitation says which counted.
class NodeRecords {
 public:
  NodeRecords(std::filesystem::path folder, std::string run);
  // What the client knew after the last answer that counted. Later versions are dropped, earlier ones too.
  std::optional<ClientRecord> recall(std::size_t client, std::size_t last_accepted);
  void keep(std::size_t client, std::size_t round, ClientRecord record);
  // What recall() would give, and nothing is dropped: the server may still go back behind it.
  std::optional<ClientRecord> look_up(std::size_t client, std::size_t last_accepted) const;

 private:
  std::filesystem::path folder_;
  std::string run_;
  std::unique_ptr<ClientStore> store_;
  std::optional<std::size_t> pending_;  // the version whose fate is not known yet
};

class Trainer final : public Worker {
 public:
  Trainer(OwnExperiment own, const std::filesystem::path& folder, const std::string& run, Ready ready);
  ~Trainer() override { end(); }

 private:
  std::shared_ptr<const Outcome> answer(const Question& question) override;
  void train(const Question& question, const Broadcast& broadcast, Outcome& outcome);
  void test(const Question& question, const Broadcast& broadcast, Outcome& outcome);
  OwnData own_data() const;

  const OwnExperiment own_;
  const SharedSchema schema_;
  NodeRecords records_;
  ClientSide side_;
};

}  // namespace parley::wire
