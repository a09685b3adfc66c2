// The engine of a run whose server does not wait for all (FedBuff, Nguyen et al. 2022): a round ends when the buffer is
// full, with the answers that are there, and those that are still at work answer a model that has meanwhile moved on.
// Their answers count later, for less (engine/staleness).
//
//   θ ← θ + step( Σ w_k·s(τ_k)·Δ_k / Σ w_k )   over the buffer, τ_k models behind
//
// As many clients as a cohort has are at work at any time. Who has answered gets the next model, or another client in
// its place: nobody answers one model twice. So a buffer as large as the cohort is a run with ordinary rounds, byte for
// byte.
//
// Order and failure as in engine.h.
#pragma once

#include <map>

#include "parley/engine/engine.h"
#include "parley/engine/errands.h"
#include "parley/engine/evaluator.h"
#include "parley/engine/experiment.h"
#include "parley/engine/server_side.h"

namespace parley {

std::unique_ptr<Errands> simulate(const ErrandTools& tools);

class Buffered final : public Engine {
 public:
  // The experiment and the store must outlive it.
  Buffered(const Experiment& experiment, ClientStore& store, std::size_t threads,
           const MakeErrands& make_errands = simulate);

  State& state() override { return server_.state(); }
  RoundReport round(std::size_t number, const RoundProgress& done = {}) override;
  Evaluation evaluate(const Dataset& data) override { return evaluator_.evaluate(members(), data); }
  MeanPrediction predict(const Dataset& data) override { return evaluator_.predict(members(), data); }
  std::map<std::string, double> measure(std::size_t round, bool last) override {
    return evaluator_.measure(server_.state(), members(), round, last);
  }
  Json client_table() const override { return evaluator_.client_table(); }
  Json progress() const override;
  void restore(const Json& progress) override;

 private:
  Members members() const { return {server_.state().at("theta")}; }
  Invitation invitation(std::size_t client, std::size_t version) const;
  // Has as many clients at work as there may be, the new ones on model `number`. Gives back how many are new.
  std::size_t send_to_work(std::size_t number);
  void forget_old_models();
  void stage_old_models();

  const Experiment& experiment_;
  ClientStore& store_;
  ServerSide server_;
  Workers workers_;
  Evaluator evaluator_;
  std::unique_ptr<Errands> errands_;
  Roster roster_;
  std::size_t at_once_, buffer_;
  double power_;
  std::map<std::size_t, std::size_t> at_work_;  // client -> the model it was sent
  std::map<std::size_t, Broadcast> models_;     // those that somebody is at work on
};

// Throws InputError when the experiment asks for buffered rounds with a method whose answers cannot be late.
void require_fit_for_buffer(const Experiment& experiment);

}  // namespace parley
