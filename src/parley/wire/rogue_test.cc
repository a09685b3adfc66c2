// A whole federation in one process, over gRPC on loopback, in which one node is not what it says: it joins as the
// others do, and then sends whatever a test makes up.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <thread>

#include "parley/base/temp_folder.h"
#include "parley/engine/test_experiment.h"
#include "parley/wire/federation.grpc.pb.h"
#include "parley/wire/node.h"
#include "parley/wire/serve.h"

namespace parley::wire {
namespace {

constexpr std::size_t kRogue = 3;
constexpr const char* kSmall = R"(
[run]
rounds = 1
[data]
name = "synthetic"
rows = 80
features = 4
classes = 3
[partition]
kind = "iid"
clients = 4
[model]
name = "mlp"
hidden = [3]
)";

// What the rogue answers to a Take, or to an Invitation.
struct Tricks {
  std::function<void(const pb::Invitation&, pb::ToServer&)> offer;
  std::function<void(const pb::Take&, pb::ToServer&)> send;
};

class Rogue {
 public:
  Rogue(const Experiment& experiment, int port, Tricks tricks) : tricks_(std::move(tricks)) {
    thread_ = std::jthread([this, &experiment, port] { run(experiment, port); });
  }
  // What the server said of its answers.
  std::vector<std::string> reasons() {
    thread_.join();
    return reasons_;
  }

 private:
  void run(const Experiment& experiment, int port) {
    const auto stub = pb::Federation::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->Join(&context);
    pb::ToServer hello;
    hello.mutable_hello()->set_protocol(kProtocol);
    hello.mutable_hello()->set_name("rogue");
    stream->Write(hello);
    pb::ToNode message;
    while (stream->Read(&message)) answer(experiment, message, *stream);
    static_cast<void>(stream->Finish());
  }
  void answer(const Experiment& experiment, const pb::ToNode& message,
              grpc::ClientReaderWriter<pb::ToServer, pb::ToNode>& stream) {
    pb::ToServer reply;
    if (message.has_terms()) {
      const Agreement agreement = agreement_of(experiment);
      pb::Facts& facts = *reply.mutable_facts();
      facts.set_client(kRogue);
      facts.set_examples(experiment.sizes[kRogue]);
      facts.set_layout(agreement.layout);
      facts.set_initial(agreement.initial);
      facts.set_settings(agreement.settings);
      facts.set_task(agreement.task);
    } else if (message.has_invitation()) {
      tricks_.offer(message.invitation(), reply);
    } else if (message.has_take()) {
      tricks_.send(message.take(), reply);
    } else if (message.has_verdict()) {
      reasons_.push_back(message.verdict().reason());
    } else if (message.has_refusal()) {
      reasons_.push_back(message.refusal().reason());
    }
    if (reply.what_case() != pb::ToServer::WHAT_NOT_SET) stream.Write(reply);
  }

  Tricks tricks_;
  std::vector<std::string> reasons_;
  std::jthread thread_;
};

// One round with three honest nodes. Gives back what the rogue was told, and puts what the run's metrics say into
// `metrics`.
std::vector<std::string> federate_with(const Tricks& tricks, std::vector<Json>& metrics,
                                       const std::string& deadline = "60") {
  const TempFolder folder;
  const Log log;
  const auto experiment = std::make_shared<const Experiment>(experiment_of(kSmall, {"serve.deadline=" + deadline}));
  std::vector<std::jthread> honest;
  std::unique_ptr<Rogue> rogue;
  const auto listening = [&](int port, Hub&) {
    for (std::size_t k = 0; k < kRogue; ++k) {
      honest.emplace_back([&, port, k] {
        const std::string name = "honest-" + std::to_string(k);
        Node({.server = "127.0.0.1:" + std::to_string(port),
              .tls = {},
              .name = name,
              .folder = folder / name,
              .prepare =
                  [&, k](const auto&, const auto&) {
                    return OwnExperiment{experiment, k};
                  }},
             log)
            .run();
      });
    }
    rogue = std::make_unique<Rogue>(*experiment, port, tricks);
  };
  metrics = serve({.settings = experiment->settings,
                   .catalogue = &catalogue(),
                   .folder = folder / "run",
                   .address = "127.0.0.1:0",
                   .farewell = std::chrono::milliseconds(300),  // the rogue does not come back
                   .listening = listening},
                  log)
                .metrics;
  return rogue->reasons();
}

void expect_refused(const Tricks& tricks, const std::string& reason) {
  std::vector<Json> metrics;
  const auto told = federate_with(tricks, metrics);
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_EQ(metrics[0]["clients"], 3);
  EXPECT_NE(metrics[0]["refused"].dump().find("client 3: " + reason), std::string::npos) << metrics[0].dump();
  ASSERT_FALSE(told.empty());
  EXPECT_NE(told[0].find(reason), std::string::npos) << told[0];
}

void offer_bytes(const pb::Invitation& invitation, pb::ToServer& reply, std::size_t length) {
  reply.mutable_offer()->set_round(invitation.round());
  reply.mutable_offer()->set_length(length);
}

void chunk(const pb::Take& take, pb::ToServer& reply, const std::string& bytes) {
  reply.mutable_chunk()->set_round(take.round());
  reply.mutable_chunk()->set_bytes(bytes);
}

TEST(Rogue, GarbageIsRefusedAndTheRoundGoesOn) {
  expect_refused({.offer = [](const auto& invitation, auto& reply) { offer_bytes(invitation, reply, 64); },
                  .send = [](const auto& take, auto& reply) { chunk(take, reply, std::string(64, '\x5a')); }},
                 "this is not an update");
}

TEST(Rogue, AnAbsurdLengthIsRefused) {
  expect_refused(
      {.offer = [](const auto& invitation, auto& reply) { offer_bytes(invitation, reply, std::size_t{1} << 62); },
       .send = [](const auto&, auto&) {}},
      "it announced an answer of 4611686018427387904 bytes");
}

// An update that is well formed, but says something of itself that is not so.
void expect_refused(std::size_t client, double weight, const std::string& reason) {
  const auto experiment = experiment_of(kSmall, {});
  Update update(share(experiment.method->schema()));
  update.client = client;
  update.weight = weight;
  const std::size_t length = update.encode().size();
  expect_refused({.offer = [length](const auto& invitation, auto& reply) { offer_bytes(invitation, reply, length); },
                  .send =
                      [&](const auto& take, auto& reply) {
                        update.round = take.round();
                        const Bytes bytes = update.encode();
                        chunk(take, reply, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
                      }},
                 reason);
}

TEST(Rogue, WhoAnswersForAnotherIsRefused) {
  expect_refused(0, 1.0, "it answers for client 0, and is client 3");
}

TEST(Rogue, WhoWantsToWeighMoreThanItHoldsIsRefused) {
  expect_refused(kRogue, 1e30, "it wants to weigh 1e+30; it joined with");
}

// The stream ends, and the rogue does not come back.
TEST(Rogue, AMessageLongerThanAnyIsNotRead) {
  std::vector<Json> metrics;
  federate_with(
      {.offer = [](const auto& invitation, auto& reply) { offer_bytes(invitation, reply, 64); },
       .send = [](const auto& take, auto& reply) { chunk(take, reply, std::string(kLongestMessage + 1, 'x')); }},
      metrics, "1");
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_NE(metrics[0]["refused"].dump().find("client 3: no answer within 1 s"), std::string::npos);
}

}  // namespace
}  // namespace parley::wire
