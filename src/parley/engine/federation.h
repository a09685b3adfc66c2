// The engine of a run with a server: every round is opened and closed by the server side, and answered by the client
// sides that an executor runs.
//
// Order and failure as in engine.h.
#pragma once

#include "parley/engine/engine.h"
#include "parley/engine/evaluator.h"
#include "parley/engine/experiment.h"
#include "parley/engine/server_side.h"
#include "parley/engine/threads.h"
#include "parley/engine/time_budget.h"

namespace parley {

// What the answers of a round did and cost, into its report.
void describe_answers(const OpenRound& round, const FoldedRound& folded, RoundReport& report);

class Federation final : public Engine {
 public:
  // The experiment and the store must outlive the federation.
  Federation(const Experiment& experiment, ClientStore& store, std::size_t threads,
             const MakeExecutor& make_executor = on_threads);

  State& state() override { return server_.state(); }
  const State& state() const { return server_.state(); }
  Evaluator& evaluator() { return evaluator_; }
  std::size_t workers() const { return workers_.size(); }

  RoundReport round(std::size_t number, const RoundProgress& done = {}) override;
  Evaluation evaluate(const Dataset& data) override;
  MeanPrediction predict(const Dataset& data) override { return evaluator_.predict(members(), data); }
  std::map<std::string, double> measure(std::size_t round, bool last) override {
    return evaluator_.measure(server_.state(), members(), round, last);
  }
  Json client_table() const override { return evaluator_.client_table(); }
  Json progress() const override;
  void restore(const Json& progress) override;

 private:
  Members members() const { return {server_.state().at("theta")}; }
  std::size_t candidates() const;  // that a round's cohort is chosen from

  const Experiment& experiment_;
  Roster roster_;
  ServerSide server_;
  Workers workers_;
  Evaluator evaluator_;
  std::unique_ptr<Executor> executor_;
  TimeBudget budget_;
};

}  // namespace parley
