// Gossip learning (Hegedűs et al. 2019): now and then every node sends its model to a random neighbour, which merges it
// with its own by age and trains the result.
//
// A message that comes while a node trains waits until it has finished; one to a dead node is lost. A round is a number
// of trainings (peer.visits), by default one for each node.
#pragma once

#include <map>

#include "parley/engine/peer/events.h"
#include "parley/engine/peer/residents.h"

namespace parley {

class Gossip final : public Residents {
 public:
  Gossip(const Experiment& experiment, ClientStore& store, std::size_t threads);

  RoundReport round(std::size_t number, const RoundProgress& done) override;
  Json progress() const override;
  void restore(const Json& progress) override;

 private:
  struct Message {
    std::size_t to = 0;
    std::size_t age = 0;
    Flat weights;
    bool waiting = false;  // it is there, and the node is busy
  };

  void wake(std::size_t node, RoundReport& report);
  void arrive(const PeerEvent& event, RoundReport& report);
  // Until the node has finished training. Of several that come meanwhile it keeps the last: the others are older, and
  // a node that trains for long would drown in them.
  void wait(std::size_t node, std::size_t message);
  // Begins to train what the node holds, unless it dies before that is done.
  void begin(std::size_t node, RoundReport& report);
  void leave(std::size_t node, RoundReport& report);
  void train_begun();
  void stage();

  double period_;
  std::size_t model_bytes_;  // of a message
  std::size_t visits_a_round_;
  EventQueue events_;
  std::map<std::size_t, Message> messages_;  // on their way, by number
  std::size_t sent_ = 0;
  std::vector<std::size_t> age_;                 // by node: trainings behind its weights
  std::vector<std::size_t> trainings_;           // by node: begun so far; names the streams
  std::vector<double> free_;                     // by node: when it has finished training
  std::vector<bool> begun_;                      // by node: training has begun and its result is not used yet
  std::vector<std::optional<Trained>> trained_;  // by node: that result, once it is known
};

}  // namespace parley
