#include "parley/engine/mpi/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <thread>

#include "parley/base/errors.h"
#include "parley/base/fingerprint.h"
#include "parley/base/timeline.h"
#include "parley/engine/evaluator.h"
#include "parley/engine/inputs.h"
#include "parley/engine/mpi/shared_data.h"

namespace parley::mpi {
namespace {

// --- Messages of any length: MPI counts in int ---

constexpr std::size_t kPiece = std::size_t{1} << 30;

// move(first byte, count) for each piece.
template <class Message, class Move>
void in_pieces(Message& message, const Move& move) {
  for (std::size_t at = 0; at < message.size(); at += kPiece) {
    move(message.data() + at, static_cast<int>(std::min(kPiece, message.size() - at)));
  }
}

// Waits without keeping a core from the workers, who may need it: MPI's own waiting spins.
template <class Ready>
void wait_until(const Ready& ready) {
  constexpr int kPatience = 200;  // polls, some ten microseconds
  for (int polls = 0; !ready(); ++polls) {
    if (polls > kPatience) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// A message that is on its way while its sender goes on.
class Outbox {
 public:
  Outbox() = default;
  ~Outbox() { wait(); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // An empty message to fill; waits until the last one has gone. Its memory is kept from message to message.
  ByteBuffer& next() {
    wait();
    message_.bytes.clear();
    return message_;
  }
  void send(std::size_t to) {
    size_ = message_.bytes.size();
    const int rank = static_cast<int>(to);
    MPI_Isend(&size_, 1, MPI_UINT64_T, rank, 0, MPI_COMM_WORLD, &requests_.emplace_back());
    in_pieces(message_.bytes, [&](const std::byte* from, int count) {
      MPI_Isend(from, count, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &requests_.emplace_back());
    });
  }

 private:
  void wait() {
    wait_until([&] {
      int gone = 0;
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &gone, MPI_STATUSES_IGNORE);
      return gone != 0;
    });
    requests_.clear();
  }

  ByteBuffer message_;
  std::uint64_t size_ = 0;
  std::vector<MPI_Request> requests_;
};

void send(std::size_t to, Bytes message) {
  Outbox box;
  box.next().bytes = std::move(message);
  box.send(to);
}

// Into memory that is kept from message to message: new pages cost as much as what is written to them.
void receive(std::size_t from, Bytes& message) {
  const int rank = static_cast<int>(from);
  wait_until([&] {
    int there = 0;
    MPI_Iprobe(rank, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    return there != 0;
  });
  std::uint64_t size = 0;
  MPI_Recv(&size, 1, MPI_UINT64_T, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  message.resize(size);
  in_pieces(message, [&](std::byte* to, int count) {
    MPI_Recv(to, count, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
}

// The message of one rank, the first unless said, on all ranks of `group`: they pass it on among them, so that it takes
// the first the time of log2(ranks) messages, not of as many as there are ranks.
void tell_all(Bytes& message, MPI_Comm group, int teller = 0) {
  std::uint64_t size = message.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, teller, group);
  message.resize(size);
  in_pieces(message, [&](std::byte* at, int count) { MPI_Bcast(at, count, MPI_BYTE, teller, group); });
}
// The teller's text, on all ranks.
std::string tell_all(std::string_view text, int teller) {
  const auto bytes = std::as_bytes(std::span(text));
  Bytes message(bytes.begin(), bytes.end());
  tell_all(message, MPI_COMM_WORLD, teller);
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

std::string machine_name() {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  MPI_Get_processor_name(name, &length);
  return {name, static_cast<std::size_t>(length)};
}

// The ranks of this machine.
class Neighbours {
 public:
  Neighbours() { MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &group_); }
  ~Neighbours() { MPI_Comm_free(&group_); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  bool first() const { return ask(MPI_Comm_rank) == 0; }
  bool alone() const { return ask(MPI_Comm_size) == 1; }
  void tell(Bytes& message) const { tell_all(message, group_); }
  void wait_for_all() const { MPI_Barrier(group_); }

 private:
  int ask(int (*what)(MPI_Comm, int*)) const {
    int answer = 0;
    what(group_, &answer);
    return answer;
  }
  MPI_Comm group_ = MPI_COMM_NULL;
};

// --- What they say ---

void put_record(ByteBuffer& to, const std::optional<ClientRecord>& record) {
  put(to, static_cast<std::uint8_t>(record.has_value()));
  if (!record) return;
  put(to, static_cast<std::uint32_t>(record->size()));
  for (const auto& [name, values] : *record) {
    put_text(to, name);
    put(to, static_cast<std::uint64_t>(values.size()));
    put_all(to, values);
  }
}

std::optional<ClientRecord> take_record(ByteReader& from) {
  if (from.take<std::uint8_t>() == 0) return {};
  ClientRecord record;
  for (auto left = from.take<std::uint32_t>(); left > 0; --left) {
    Flat& values = record[from.take_text()];
    values.resize(from.take<std::uint64_t>());
    from.take_all(std::span(values));
  }
  return record;
}

// Block b of a cohort: positions [8b, 8b + 8) as far as there are any.
std::size_t blocks_of(std::size_t cohort) {
  return (cohort + kFoldBlock - 1) / kFoldBlock;
}

// The positions of the blocks that a rank folds, in order.
std::vector<std::size_t> share_of(std::size_t rank, std::size_t ranks, std::size_t cohort) {
  std::vector<std::size_t> positions;
  for (std::size_t block = rank; block < blocks_of(cohort); block += ranks) {
    for (std::size_t p = block * kFoldBlock; p < std::min((block + 1) * kFoldBlock, cohort); ++p)
      positions.push_back(p);
  }
  return positions;
}

// One position as a rank is asked: what it needs besides the broadcast.
struct Question {
  std::size_t client;
  std::size_t steps;  // as an invitation's
  std::optional<ClientRecord> record;
};

// A rank's part of a round.
struct Share {
  std::size_t cohort;  // of the whole round
  std::uint64_t seed;
  bool test_own;
  std::vector<Question> questions;
};

// What rank 0 asks for; an empty message ends the others.
enum class Request : std::uint8_t { round, test };

Bytes encode(const Share& share) {
  ByteBuffer to;
  put(to, static_cast<std::uint8_t>(Request::round));
  put(to, static_cast<std::uint64_t>(share.cohort));
  put(to, share.seed);
  put(to, static_cast<std::uint8_t>(share.test_own));
  put(to, static_cast<std::uint64_t>(share.questions.size()));
  for (const auto& question : share.questions) {
    put(to, static_cast<std::uint64_t>(question.client));
    put(to, static_cast<std::uint64_t>(question.steps));
    put_record(to, question.record);
  }
  return std::move(to.bytes);
}

Share take_share(ByteReader& from) {
  const auto cohort = from.take<std::uint64_t>();
  const auto seed = from.take<std::uint64_t>();
  const bool test_own = from.take<std::uint8_t>() != 0;
  std::vector<Question> questions(from.take<std::uint64_t>());
  for (auto& question : questions) {
    question.client = from.take<std::uint64_t>();
    question.steps = from.take<std::uint64_t>();
    question.record = take_record(from);
  }
  from.finish();
  return {cohort, seed, test_own, std::move(questions)};
}

// By name, so that a new member is not forgotten: this then no longer compiles.
void put_evaluation(ByteBuffer& to, const Evaluation& evaluation) {
  const auto& [examples, loss_sum, correct, brier_sum, covered, set_sizes, class_total, class_correct, bins, confusion,
               targets] = evaluation;
  put(to, static_cast<std::uint64_t>(examples));
  put(to, loss_sum);
  put(to, static_cast<std::uint64_t>(correct));
  put(to, brier_sum);
  put(to, static_cast<std::uint64_t>(covered));
  put(to, static_cast<std::uint64_t>(set_sizes));
  put_all(to, bins);
  for (const auto* counts : {&class_total, &class_correct, &confusion}) {
    put(to, static_cast<std::uint64_t>(counts->size()));
    put_all(to, *counts);
  }
  put(to, static_cast<std::uint64_t>(targets.size()));
  put_all(to, targets);
}

Evaluation take_evaluation(ByteReader& from) {
  Evaluation evaluation;
  evaluation.examples = from.take<std::uint64_t>();
  evaluation.loss_sum = from.take<double>();
  evaluation.correct = from.take<std::uint64_t>();
  evaluation.brier_sum = from.take<double>();
  evaluation.covered = from.take<std::uint64_t>();
  evaluation.set_sizes = from.take<std::uint64_t>();
  from.take_all(std::span<Evaluation::Bin>(evaluation.bins));
  for (auto* counts : {&evaluation.class_total, &evaluation.class_correct, &evaluation.confusion}) {
    counts->resize(from.take<std::uint64_t>());
    from.take_all(std::span(*counts));
  }
  evaluation.targets.resize(from.take<std::uint64_t>());
  from.take_all(std::span(evaluation.targets));
  return evaluation;
}

void put_result(ByteBuffer& to, const std::optional<ClientResult>& result) {
  put(to, static_cast<std::uint8_t>(result.has_value()));
  if (!result) return;
  put_evaluation(to, result->evaluation);
  put(to, static_cast<std::uint8_t>(result->ood_auroc.has_value()));
  put(to, result->ood_auroc.value_or(0.0));
}

std::optional<ClientResult> take_result(ByteReader& from) {
  if (from.take<std::uint8_t>() == 0) return {};
  ClientResult result{.evaluation = take_evaluation(from), .ood_auroc = {}};
  const bool has_auroc = from.take<std::uint8_t>() != 0;
  const auto auroc = from.take<double>();
  if (has_auroc) result.ood_auroc = auroc;
  return result;
}

// What became of the positions of a block that was folded; its sum follows in a message.
struct Outcome {
  std::vector<Settlement> settlements;
  std::vector<std::pair<std::size_t, ClientRecord>> records;  // to be stored, by client
};

void put_outcome(ByteBuffer& to, const Outcome& outcome) {
  put(to, static_cast<std::uint32_t>(outcome.settlements.size()));
  for (const auto& settlement : outcome.settlements) {
    put(to, static_cast<std::uint64_t>(settlement.client));
    put(to, static_cast<std::uint8_t>(settlement.refusal.has_value()));
    put_text(to, settlement.refusal.value_or(""));
    put(to, static_cast<std::uint64_t>(settlement.steps));
    put(to, static_cast<std::uint64_t>(settlement.wire_bytes));
    put(to, settlement.epochs);
    put_result(to, settlement.own);
  }
  put(to, static_cast<std::uint32_t>(outcome.records.size()));
  for (const auto& [client, record] : outcome.records) {
    put(to, static_cast<std::uint64_t>(client));
    put_record(to, record);
  }
}

Outcome take_outcome(ByteReader& from) {
  std::vector<Settlement> settlements(from.take<std::uint32_t>());
  for (auto& settlement : settlements) {
    settlement.client = from.take<std::uint64_t>();
    const bool refused = from.take<std::uint8_t>() != 0;
    std::string reason = from.take_text();
    if (refused) settlement.refusal = std::move(reason);
    settlement.steps = from.take<std::uint64_t>();
    settlement.wire_bytes = from.take<std::uint64_t>();
    settlement.epochs = from.take<double>();
    settlement.own = take_result(from);
  }
  std::vector<std::pair<std::size_t, ClientRecord>> records(from.take<std::uint32_t>());
  for (auto& [client, record] : records) {
    client = from.take<std::uint64_t>();
    record = take_record(from).value();
  }
  return {std::move(settlements), std::move(records)};
}

// --- A rank's part of a round ---

// Takes a folded block; it may keep the sum, and leave another of the same schema.
using HandOver = std::function<void(Sum& sum, Outcome outcome)>;

// Answers the questions on all workers, and hands over each folded block, in order, one at a time.
void answer_share(const Broadcast& broadcast, Share& share, Workers& workers, const DataOf& data_of,
                  const SharedSchema& schema, std::size_t window, const HandOver& hand_over) {
  std::vector<Settlement> settled;
  std::vector<std::optional<ClientRecord>> next(share.questions.size());
  std::vector<std::pair<std::size_t, ClientRecord>> records;
  OrderedFold fold(
      schema, window,
      [&](std::size_t position, Settlement& settlement) {
        settlement.client = share.questions[position].client;
        if (next[position]) records.emplace_back(settlement.client, std::move(*next[position]));
        settled.push_back(std::move(settlement));
      },
      [&](Sum& block) {
        hand_over(block, {std::exchange(settled, {}), std::exchange(records, {})});
      });
  workers.run(share.questions.size(), [&](ClientSide& side, std::size_t position) {
    fold.answer(position, [&](Answer& answer) {
      Question& question = share.questions[position];
      side.answer({broadcast, question.client, share.cohort, share.seed, share.test_own, question.steps},
                  data_of(question.client), std::move(question.record), answer);
      answer.update.check(*schema);
      next[position] = std::move(answer.record);
    });
  });
  static_cast<void>(fold.take());  // hands over the last block
}

struct FoldedBlock {
  Sum sum;
  Outcome outcome;
};

// Blocks of rank 0's own workers on their way to its fold; a worker that is too far ahead waits.
class BlockQueue {
 public:
  explicit BlockQueue(SharedSchema schema) : schema_(std::move(schema)) {}

  // Leaves a sum in the place of the one it takes, used before where there is one.
  void push(Sum& sum, Outcome outcome) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return blocks_.size() < kMost || closed_; });
    Sum next = used_.empty() ? Sum(schema_) : std::move(used_.back());
    if (!used_.empty()) used_.pop_back();
    blocks_.push_back({std::exchange(sum, std::move(next)), std::move(outcome)});
    changed_.notify_all();
  }
  // Throws what ended the other side before it had this block.
  FoldedBlock pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !blocks_.empty() || error_; });
    if (blocks_.empty()) std::rethrow_exception(error_);
    FoldedBlock block = std::move(blocks_.front());
    blocks_.pop_front();
    changed_.notify_all();
    return block;
  }
  void give_back(Sum sum) {
    const std::lock_guard lock(mutex_);
    used_.push_back(std::move(sum));
  }
  void fail_with(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    changed_.notify_all();
  }
  // Nobody pops any more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t kMost = 2;
  const SharedSchema schema_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FoldedBlock> blocks_;
  std::vector<Sum> used_;
  std::exception_ptr error_;
  bool closed_ = false;
};

// The chunks of the test set that a rank evaluates: [first, second).
std::pair<std::size_t, std::size_t> tests_of(std::size_t rank, std::size_t ranks, std::size_t chunks) {
  return {chunks * rank / ranks, chunks * (rank + 1) / ranks};
}

class RankExecutor final : public Executor {
 public:
  RankExecutor(const Session& session, Workers& workers, DataOf data_of, ClientStore& store)
      : session_(session), workers_(workers), data_of_(std::move(data_of)), store_(store) {}
  ~RankExecutor() override {
    for (std::size_t rank = 1; rank < session_.ranks(); ++rank) send(rank, {});
  }

  std::size_t window() const override { return 2 * workers_.size() + 4; }

  void run(const RoundInProgress& round) override {
    const std::size_t cohort = round.round.cohort.size();
    for (std::size_t rank = 1; rank < session_.ranks(); ++rank) send(rank, encode(share_for(rank, round)));
    Bytes broadcast = round.round.broadcast.encode();
    tell_all(broadcast, MPI_COMM_WORLD);
    const SharedSchema schema = round.fold.schema();
    Share own = share_for(0, round);
    BlockQueue queue(schema);
    std::thread worker([&] {
      try {
        answer_share(round.round.broadcast, own, workers_, data_of_, schema, window(),
                     [&](Sum& sum, Outcome outcome) { queue.push(sum, std::move(outcome)); });
      } catch (...) {
        queue.fail_with(std::current_exception());
      }
    });
    try {
      for (std::size_t b = 0; b < blocks_of(cohort); ++b) {
        const std::size_t rank = b % session_.ranks();
        rank == 0 ? push_own(queue, round) : push_of(rank, round);
      }
    } catch (...) {
      queue.close();
      worker.join();
      throw;
    }
    worker.join();
  }

  std::vector<Evaluation> test(std::span<const float> theta, std::size_t chunks, const TestChunks& here) override {
    const std::size_t ranks = session_.ranks();
    if (chunks < 2) return here(0, chunks);
    for (std::size_t rank = 1; rank < ranks; ++rank) send(rank, {std::byte{static_cast<std::uint8_t>(Request::test)}});
    const auto weights = std::as_bytes(theta);
    Bytes told(weights.begin(), weights.end());
    tell_all(told, MPI_COMM_WORLD);
    const auto [begin, end] = tests_of(0, ranks, chunks);
    std::vector<Evaluation> parts = here(begin, end);
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      receive(rank, message_);
      ByteReader from(message_);
      if (const std::string failed = from.take_text(); !failed.empty()) fail<RunError>("{}", failed);
      while (from.left() > 0) parts.push_back(take_evaluation(from));
    }
    return parts;
  }

 private:
  void stage(Outcome& outcome) {
    for (auto& [client, record] : outcome.records) store_.stage(client, std::move(record));
  }
  void push_own(BlockQueue& queue, const RoundInProgress& round) {
    FoldedBlock block = queue.pop();
    const Span span("merge");
    stage(block.outcome);
    round.fold.push_block(block.sum, block.outcome.settlements);
    queue.give_back(std::move(block.sum));
  }
  void push_of(std::size_t rank, const RoundInProgress& round) {
    receive(rank, message_);
    const Span span("merge");
    ByteReader from(message_);
    Outcome outcome = take_outcome(from);
    stage(outcome);
    round.fold.push_block(from.raw(from.left()), outcome.settlements);
  }
  Share share_for(std::size_t rank, const RoundInProgress& round) const {
    const Invitation first = round.invitation(0);
    Share asked{first.cohort, first.seed, first.test_own, {}};
    for (const std::size_t position : share_of(rank, session_.ranks(), round.round.cohort.size())) {
      const std::size_t client = round.round.cohort[position];
      asked.questions.push_back({client, round.invitation(position).steps, store_.load(client)});
    }
    return asked;
  }

  const Session& session_;
  Workers& workers_;
  DataOf data_of_;
  ClientStore& store_;
  Bytes message_;
};

// What a rank answers to Request::test: why it could not, or nothing and its parts.
void put_tests(ByteBuffer& to, Evaluator& evaluator, const Members& members, const Dataset& test,
               const Session& session) {
  const auto [begin, end] = tests_of(session.rank(), session.ranks(), chunks_of(test));
  std::vector<Evaluation> parts;
  std::string failed;
  try {
    parts = evaluator.evaluate_chunks(members, test, begin, end);
  } catch (const RunError& error) {
    failed = error.what();
  }
  put_text(to, failed);
  for (const auto& part : parts) put_evaluation(to, part);
}

}  // namespace

Session::Session(int& argc, char**& argv) {
  int provided = 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
    fail<RunError>("MPI could not be started");
  }
  if (provided < MPI_THREAD_SERIALIZED) fail<RunError>("this MPI library cannot be used from threads; use another");
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  rank_ = static_cast<std::size_t>(rank);
  ranks_ = static_cast<std::size_t>(ranks);
}

Session::~Session() {
  MPI_Finalize();
}

std::string Session::library() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view all(text, static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

TrainTest Session::once_a_machine(const std::function<TrainTest()>& load) const {
  const Neighbours neighbours;
  if (neighbours.alone()) return load();
  Bytes message;  // stays empty when the first failed
  if (neighbours.first()) {
    std::optional<LaidOut> laid_out;
    std::exception_ptr failed;
    try {
      laid_out = lay_out(load());
      message = std::move(laid_out->message);
    } catch (...) {
      failed = std::current_exception();
    }
    neighbours.tell(message);
    if (failed) std::rethrow_exception(failed);
    neighbours.wait_for_all();
    return laid_out->data;
  }
  neighbours.tell(message);
  if (message.empty()) return load();  // for its reasons
  const auto found = look_up(message);
  neighbours.wait_for_all();
  return found ? *found : load();
}

void Session::require_same_inputs(const Experiment& experiment) const {
  Json own = fingerprints_of_inputs(experiment);
  own["the settings"] = fingerprint(experiment.settings.to_toml());
  const Json first = Json::parse(tell_all(own.dump(), 0));
  std::string unlike;
  for (const auto& [name, fingerprint] : own.items()) {
    if (unlike.empty() && (!first.contains(name) || first[name] != fingerprint)) unlike = name;
  }
  int culprit = unlike.empty() ? 0 : static_cast<int>(rank_);
  MPI_Allreduce(MPI_IN_PLACE, &culprit, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (culprit == 0) return;
  fail("{}: not those of rank 0; give every machine the same files",
       tell_all(fmt::format("rank {} of {} on {}: {}", rank_, ranks_, machine_name(), unlike), culprit));
}

void Session::abort(int exit_code) const {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();  // MPI_Abort does not come back
}

MakeExecutor executor(const Session& session) {
  return [&session](Workers& workers, DataOf data_of, ClientStore& store) {
    return std::make_unique<RankExecutor>(session, workers, std::move(data_of), store);
  };
}

void serve(const Session& session, const Experiment& experiment, std::size_t threads) {
  const SharedSchema schema = share(experiment.method->schema());
  Workers workers(experiment.client_setup(schema), threads);
  const ClientStore nothing(ClientStore::Keep::memory, {}, real_files());
  Evaluator evaluator(experiment, workers, nothing);
  Outbox outbox;
  Flat theta(experiment.layout->size());
  Bytes message, told;
  const auto hand_over = [&](const Sum& sum, const Outcome& outcome) {
    ByteBuffer& to = outbox.next();
    put_outcome(to, outcome);
    sum.encode(to);
    outbox.send(0);
  };
  while (true) {
    receive(0, message);
    if (message.empty()) return;
    ByteReader from(message);
    const auto request = static_cast<Request>(from.take<std::uint8_t>());
    tell_all(told, MPI_COMM_WORLD);
    if (request == Request::test) {
      ByteReader(told).take_all(std::span(theta));
      put_tests(outbox.next(), evaluator, {theta}, *experiment.federated.data.test, session);
      outbox.send(0);
      continue;
    }
    Share share = take_share(from);
    answer_share(
        Broadcast::decode(told), share, workers, [&](std::size_t client) { return evaluator.data_of(client); }, schema,
        2 * workers.size() + 4, hand_over);
  }
}

}  // namespace parley::mpi
