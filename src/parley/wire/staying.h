// A peer whose model stays at home: what lockstep.cc (dpsgd) and gossiping.cc have in common.
//
// Each peer has weights of its own. When it has done its part it fetches everybody's, and their mean is the model that
// the run ends with: the same bytes everywhere when all are there.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "parley/engine/peer/nodes.h"
#include "parley/wire/station.h"
#include "parley/wire/weights.h"

namespace parley::wire {

class Staying : public Station {
 public:
  // `parts`: rounds or trainings that are this peer's to do. `long_poll`: how long others may wait here for what is not
  // there yet.
  Staying(const PeerSetup& given, const Log& to, std::size_t parts, std::chrono::milliseconds long_poll);
  bool run() final;

  grpc::Status Fetch(grpc::ServerContext* context, const pb::PeerFetch* wanted,
                     grpc::ServerWriter<pb::PeerWeights>* writer) final;

 protected:
  // One part. False when it is to stop.
  virtual bool advance() = 0;
  // Now and then, while others are waited for.
  virtual void meanwhile() {}

  struct Trained {
    Flat after;  // empty: training failed
    double loss = 0.0;
  };
  // From the given weights; `part` names the streams.
  Trained train(std::size_t part, const Flat& theta);
  // On the share of its data that this peer keeps to test on; nothing where there are no classes.
  std::optional<double> accuracy(const Flat& theta);

  // From each of these nodes what it offers in this round, or, with `start`, what it begins with. Who cannot be reached
  // for as long as the peer has patience is passed over; who is only slow is waited for.
  struct Gathered {
    std::map<std::size_t, Flat> weights;
    std::optional<Weights> later;  // somebody is rounds ahead, and this is where it is
    std::size_t ahead = 0;         // who
    std::set<std::size_t> passed_over;
    bool stopped = false;
  };
  Gathered gather(const std::vector<std::size_t>& nodes, std::size_t round, bool start);

  // On disk, then for others to see. What was offered so far is dropped.
  void keep(Home home);
  // What this peer puts into the round that it is in.
  void offer(Flat weights);
  const Home& home() const { return home_; }  // only this peer's own thread changes it
  pb::PeerHello hello() override;
  // A line of trainings.jsonl.
  void note(Json line) const;

  const std::size_t parts;

 private:
  struct Parcel {
    pb::PeerWeights::Kind kind = pb::PeerWeights::PENDING;
    Weights weights = {};
  };
  Parcel parcel_for(const pb::PeerFetch& wanted) const;
  Parcel await_parcel(const pb::PeerFetch& wanted);
  std::vector<std::size_t> progress() override;
  void greeted(const pb::PeerHello& hello) override;

  // Nothing when there was no answer, or none that makes sense.
  std::optional<Parcel> fetch(std::size_t node, const pb::PeerFetch& wanted);
  std::optional<Parcel> exchange(std::size_t node, const pb::PeerFetch& wanted);
  bool gives_up(std::size_t node);
  std::vector<std::size_t> others() const;
  bool finish();
  std::optional<Flat> model_of_another(const Gathered& last);
  void write_model(const Flat& model);
  void read_model();
  void farewell();

  using Time = std::chrono::steady_clock::time_point;

  NodeData nodes_;
  ServerSide server_;  // for its schema: nobody serves here
  ClientSide side_;
  HomeFile file_;
  const std::chrono::milliseconds long_poll_;
  std::map<std::size_t, Time> silent_;  // since when nothing was heard of whom
  std::set<std::size_t> away_;          // who was passed over, and has not been back

  // Under Station::mutex:
  Home home_;
  std::optional<Flat> offer_;    // in the round that this peer is in
  std::optional<Flat> model_;    // that the run has ended with
  std::set<std::string> ended_;  // who says that it has it
  std::set<std::string> told_;   // whom this peer has told that it has it
};

// How weights are sent: what comes, and then the bytes.
template <class Writer>
bool send_weights(Writer& writer, pb::PeerWeights first, const Bytes& bytes) {
  first.set_length(bytes.size());
  bool open = writer.Write(first);
  for (std::size_t at = 0; open && at < bytes.size(); at += kChunk) {
    pb::PeerWeights part;
    part.set_chunk(reinterpret_cast<const char*>(bytes.data()) + at, std::min(kChunk, bytes.size() - at));
    open = writer.Write(part);
  }
  return open;
}

std::unique_ptr<Station> make_lockstep(const PeerSetup& setup, const Log& log);
std::unique_ptr<Station> make_gossiping(const PeerSetup& setup, const Log& log);

}  // namespace parley::wire
