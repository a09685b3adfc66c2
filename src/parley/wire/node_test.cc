// A node, and a server that a test plays, over gRPC on loopback.
#include "parley/wire/node.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>

#include "parley/base/temp_folder.h"
#include "parley/engine/test_experiment.h"
#include "parley/wire/federation.grpc.pb.h"

namespace parley::wire {
namespace {

namespace pb = parley::wire::v1;
using namespace std::chrono_literals;
using Talk = grpc::ServerReaderWriter<pb::ToNode, pb::ToServer>;

// Answers when it is told to.
class HeldBack final : public Worker {
 public:
  HeldBack(std::latch& go, Ready ready) : Worker(std::move(ready)), go_(go) { begin(); }
  ~HeldBack() override { end(); }

 private:
  std::shared_ptr<const Outcome> answer(const Question& question) override {
    go_.wait();
    auto outcome = std::make_shared<Outcome>();
    outcome->round = question.round;
    outcome->update = Bytes(4);
    return outcome;
  }
  std::latch& go_;
};

// The first connection ends while the node trains, and it has an answer before the second one is agreed on.
class Server final : public pb::Federation::Service {
 public:
  Server(const Experiment& experiment, std::latch& go)
      : broadcast_(Broadcast(starting_state(experiment.server_setup()), 1).encode()), go_(go) {}

  // On the second connection.
  std::vector<pb::ToServer::WhatCase> heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  grpc::Status Join(grpc::ServerContext*, Talk* talk) override {
    const bool second = ++connections_ > 1;
    hear(*talk, second);
    if (second) {
      go_.count_down();
      std::this_thread::sleep_for(300ms);  // for the answer to come too early
    }
    say(*talk, [](pb::ToNode& to) { to.mutable_terms()->set_rows(true); });
    hear(*talk, second);
    say(*talk, [](pb::ToNode& to) { to.mutable_welcome()->add_sizes(20); });
    say(*talk, [&](pb::ToNode& to) {
      to.mutable_invitation()->set_round(1);
      to.mutable_invitation()->set_length(broadcast_.size());
    });
    say(*talk, [&](pb::ToNode& to) {
      to.mutable_chunk()->set_round(1);
      to.mutable_chunk()->set_bytes(broadcast_.data(), broadcast_.size());
    });
    if (!second) return grpc::Status::OK;
    hear(*talk, true);
    say(*talk, [](pb::ToNode& to) { to.mutable_goodbye()->set_finished(true); });
    return grpc::Status::OK;
  }
  void hear(Talk& talk, bool note) {
    pb::ToServer message;
    talk.Read(&message);
    const std::lock_guard lock(mutex_);
    if (note) heard_.push_back(message.what_case());
  }
  template <class Fill>
  void say(Talk& talk, Fill fill) {
    pb::ToNode message;
    fill(message);
    talk.Write(message);
  }

  const Bytes broadcast_;
  std::latch& go_;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::vector<pb::ToServer::WhatCase> heard_;
};

TEST(Node, OffersAnAnswerOnlyOnAConnectionOnWhichItWasAsked) {
  const TempFolder folder;
  const Log log(LogFormat::none);
  const auto experiment = std::make_shared<const Experiment>(experiment_of(kTwelveClients, {}));
  std::latch go(1);
  Server played(*experiment, go);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&played);
  const auto server = builder.BuildAndStart();
  Node node({.server = "127.0.0.1:" + std::to_string(port),
             .tls = {},
             .name = "a",
             .folder = folder.path(),
             .prepare =
                 [&](const ServerTerms&, const Whole&) {
                   return OwnExperiment{experiment, 0};
                 },
             .make_worker = [&](const OwnExperiment&,
                                Worker::Ready ready) { return std::make_unique<HeldBack>(go, std::move(ready)); }},
            log);
  node.run();
  server->Shutdown();
  using What = pb::ToServer::WhatCase;
  EXPECT_EQ(played.heard(), (std::vector<What>{What::kHello, What::kFacts, What::kOffer}));
}

}  // namespace
}  // namespace parley::wire
