// The cut at the wire, for every method: a server made from a layout and options alone, and client sides in another
// process, which see nothing of it but the bytes of its broadcasts, and whose answers are bytes, give the model that
// the simulation gives, bit for bit.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "parley/base/errors.h"
#include "parley/engine/federation.h"
#include "parley/engine/test_experiment.h"
#include "parley/methods/aggregate.h"
#include "parley/methods/optimizer_state.h"

namespace parley {
namespace {

constexpr std::size_t kRounds = 3;

constexpr const char* kSmall = R"(
[data]
name = "synthetic"
rows = 150
features = 6
classes = 3
[partition]
kind = "dirichlet"
clients = 11
alpha = 0.5
[model]
name = "mlp"
hidden = [5]
[client]
batch = 10
lr = 0.05
[server]
participation = 0.8
)";

// --- Bytes through a pipe, whole messages with their length before them ---

void write_all(int to, const void* from, std::size_t count) {
  const char* bytes = static_cast<const char*>(from);
  while (count > 0) {
    const ssize_t written = write(to, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(3);
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

bool read_all(int from, void* to, std::size_t count) {
  char* bytes = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = read(from, bytes, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

void send(int to, const Bytes& message) {
  const std::uint64_t size = message.size();
  write_all(to, &size, sizeof size);
  write_all(to, message.data(), message.size());
}

// Nothing when the other side has hung up.
std::optional<Bytes> receive(int from) {
  std::uint64_t size = 0;
  if (!read_all(from, &size, sizeof size)) return {};
  Bytes message(size);
  if (!read_all(from, message.data(), message.size())) return {};
  return message;
}

// --- The other process: a model, the data, the clients' records; of the server it has bytes alone ---

// A question is the client, the size of the cohort and a broadcast; an answer is an update, or empty for a refusal. A
// question without a broadcast ends a round.
void answer_questions(const Experiment& experiment, int questions, int answers) {
  ClientSide side(experiment.client_setup(share(experiment.method->schema())));
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  std::size_t round = 0;
  while (const auto question = receive(questions)) {
    ByteReader reader(*question);
    const auto client = reader.take<std::uint64_t>(), cohort = reader.take<std::uint64_t>();
    if (reader.left() == 0) {
      store.commit(round);
      continue;
    }
    const Broadcast broadcast = Broadcast::decode(reader.raw(reader.left()));
    round = broadcast.number();
    Answer answer;
    side.answer({.broadcast = broadcast, .client = client, .cohort = cohort, .seed = experiment.seed()},
                {.train = experiment.federated.partition.view(*experiment.federated.data.train, client)},
                store.load(client), answer);
    if (answer.record) store.stage(client, std::move(*answer.record));
    send(answers, answer.update.encode());
  }
}

class OtherProcess {
 public:
  explicit OtherProcess(const Experiment& experiment) {
    int questions[2], answers[2];
    if (pipe(questions) != 0 || pipe(answers) != 0) throw RunError("no pipe");
    child_ = fork();
    if (child_ == 0) {
      close(questions[1]);
      close(answers[0]);
      answer_questions(experiment, questions[0], answers[1]);
      _exit(0);
    }
    close(questions[0]);
    close(answers[1]);
    questions_ = questions[1];
    answers_ = answers[0];
  }
  ~OtherProcess() {
    close(questions_);
    close(answers_);
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
  }
  OtherProcess(const OtherProcess&) = delete;

  Bytes ask(std::size_t client, std::size_t cohort, const Broadcast& broadcast) const {
    ByteBuffer question;
    put(question, std::uint64_t{client});
    put(question, std::uint64_t{cohort});
    put_all(question, broadcast.encode());
    send(questions_, question.bytes);
    return receive(answers_).value();
  }
  void end_round() const { send(questions_, Bytes(2 * sizeof(std::uint64_t))); }

 private:
  pid_t child_;
  int questions_, answers_;
};

// --- The server: what it knows of the model is its layout ---

Flat serve(const Experiment& known, const OtherProcess& clients) {
  const auto method =
      make_method(catalogue(), known.method_context(), known.make_optimizer(known.settings.client)->slots());
  ServerSetup setup = known.server_setup();
  setup.method = method.get();
  ServerSide server(setup);
  std::vector<std::size_t> sizes;
  for (const auto rows : known.federated.partition.clients) sizes.push_back(rows.size());
  const Roster roster(sizes);
  for (std::size_t number = 1; number <= kRounds; ++number) {
    const OpenRound round = server.open(number, roster);
    BlockSum sum(server.schema());
    for (const std::size_t client : round.cohort) {
      const Bytes answer = clients.ask(client, round.cohort.size(), round.broadcast);
      const Update update = Update::decode(answer, server.schema(), round.broadcast);
      server.check(round, update);
      sum.add(&update);
    }
    FoldedRound folded{sum.take(), {}};
    server.close(round, folded);
    clients.end_round();
  }
  const auto theta = server.state().at("theta");
  return {theta.begin(), theta.end()};
}

Flat simulate(const Experiment& experiment) {
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(experiment, store, 2);
  for (std::size_t round = 1; round <= kRounds; ++round) {
    federation.round(round);
    store.commit(round);
  }
  const auto theta = federation.state().at("theta");
  return {theta.begin(), theta.end()};
}

std::vector<std::string> every_method() {
  std::vector<std::string> all;
  const MethodRegistry registry = methods();
  for (const auto& entry : registry.entries()) {
    std::string& words = all.emplace_back("method.name=" + entry.about.name);
    for (const auto& [key, value] : entry.about.needs) {
      words += key == "model.norm" ? " model.name=normed" : " " + key + "=20";
    }
  }
  for (const char* more :
       {"method.name=fedavg client.optimizer=adam client.state=central client.lr=0.01",
        "method.name=fedavg client.optimizer=momentum client.state=worker",
        "method.name=fedavg stages.use=[\"clip\",\"quantise\"] stages.clip_norm=0.3 stages.quantise_bits=5",
        "method.name=scaffold stages.use=[\"sparsify\"] stages.sparsify_share=0.3",
        "method.name=laplace method.line_search=always method.warm=0 method.rank=3 server.participation=1",
        "method.name=fedavg server.step=adam server.lr=0.01", "method.name=fola method.curvature=input method.rank=2",
        "method.name=fola method.curvature=kfac method.lambda=1", "method.name=fola method.compress=0.3",
        "method.name=fola method.aggregation=mixture", "method.name=virtual method.prune=0.5",
        "method.name=fedavg model.name=normed aggregate.running_var=mixture"}) {
    all.push_back(more);
  }
  return all;
}

class AcrossProcesses : public testing::TestWithParam<std::string> {};

TEST_P(AcrossProcesses, TheModelIsTheSimulationsBitForBit) {
  std::vector<std::string> assignments;
  std::istringstream words(GetParam());
  for (std::string word; words >> word;) assignments.push_back(word);
  const Experiment experiment = experiment_of(kSmall, assignments);
  Flat served;
  {
    const OtherProcess clients(experiment);
    served = serve(experiment, clients);
  }
  EXPECT_EQ(served, simulate(experiment));
  EXPECT_NE(served, experiment.initial);
}

INSTANTIATE_TEST_SUITE_P(EveryMethod, AcrossProcesses, testing::ValuesIn(every_method()), [](const auto& test) {
  std::string name = test.param.substr(std::string("method.name=").size());
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace parley
