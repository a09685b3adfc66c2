#include "parley/engine/mpi/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <thread>

#include "parley/base/errors.h"
#include "parley/engine/evaluator.h"

namespace parley::mpi {
namespace {

// --- Messages of any length: MPI counts in int ---

constexpr std::size_t kPiece = std::size_t{1} << 30;

void send(std::size_t to, const Bytes& message) {
  const std::uint64_t size = message.size();
  MPI_Send(&size, 1, MPI_UINT64_T, static_cast<int>(to), 0, MPI_COMM_WORLD);
  for (std::size_t at = 0; at < message.size(); at += kPiece) {
    const auto count = static_cast<int>(std::min(kPiece, message.size() - at));
    MPI_Send(message.data() + at, count, MPI_BYTE, static_cast<int>(to), 0, MPI_COMM_WORLD);
  }
}

Bytes receive(std::size_t from) {
  std::uint64_t size = 0;
  MPI_Recv(&size, 1, MPI_UINT64_T, static_cast<int>(from), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  Bytes message(size);
  for (std::size_t at = 0; at < message.size(); at += kPiece) {
    const auto count = static_cast<int>(std::min(kPiece, message.size() - at));
    MPI_Recv(message.data() + at, count, MPI_BYTE, static_cast<int>(from), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return message;
}

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
  std::optional<ClientRecord> record;
};

struct RankRound {
  Broadcast broadcast;
  std::size_t cohort;  // of the whole round
  std::uint64_t seed;
  bool test_own;
  std::vector<Question> questions;
};

Bytes encode(const RankRound& round) {
  ByteBuffer to;
  put(to, static_cast<std::uint64_t>(round.cohort));
  put(to, round.seed);
  put(to, static_cast<std::uint8_t>(round.test_own));
  put(to, static_cast<std::uint64_t>(round.questions.size()));
  for (const auto& question : round.questions) {
    put(to, static_cast<std::uint64_t>(question.client));
    put_record(to, question.record);
  }
  put_all(to, round.broadcast.encode());
  return std::move(to.bytes);
}

RankRound decode_round(const Bytes& message) {
  ByteReader from(message);
  const auto cohort = from.take<std::uint64_t>();
  const auto seed = from.take<std::uint64_t>();
  const bool test_own = from.take<std::uint8_t>() != 0;
  std::vector<Question> questions(from.take<std::uint64_t>());
  for (auto& question : questions) {
    question.client = from.take<std::uint64_t>();
    question.record = take_record(from);
  }
  return {Broadcast::decode(from.raw(from.left())), cohort, seed, test_own, std::move(questions)};
}

// A folded block with what became of its positions.
struct FoldedBlock {
  Sum sum;
  std::vector<Settlement> settlements;
  std::vector<std::pair<std::size_t, ClientRecord>> records;  // to be stored, by client
};

Bytes encode(const FoldedBlock& block) {
  ByteBuffer to;
  put(to, static_cast<std::uint32_t>(block.settlements.size()));
  for (const auto& settlement : block.settlements) {
    put(to, static_cast<std::uint64_t>(settlement.client));
    put(to, static_cast<std::uint8_t>(settlement.refusal.has_value()));
    put_text(to, settlement.refusal.value_or(""));
    put(to, static_cast<std::uint64_t>(settlement.steps));
    put(to, static_cast<std::uint64_t>(settlement.wire_bytes));
    put(to, settlement.epochs);
    put_text(to, settlement.own ? to_json(ClientResults{settlement.own}).dump() : "");
  }
  put(to, static_cast<std::uint32_t>(block.records.size()));
  for (const auto& [client, record] : block.records) {
    put(to, static_cast<std::uint64_t>(client));
    put_record(to, record);
  }
  put_all(to, block.sum.encode());
  return std::move(to.bytes);
}

FoldedBlock decode_block(const Bytes& message, const SharedSchema& schema) {
  ByteReader from(message);
  std::vector<Settlement> settlements(from.take<std::uint32_t>());
  for (auto& settlement : settlements) {
    settlement.client = from.take<std::uint64_t>();
    const bool refused = from.take<std::uint8_t>() != 0;
    std::string reason = from.take_text();
    if (refused) settlement.refusal = std::move(reason);
    settlement.steps = from.take<std::uint64_t>();
    settlement.wire_bytes = from.take<std::uint64_t>();
    settlement.epochs = from.take<double>();
    if (const std::string own = from.take_text(); !own.empty()) {
      settlement.own = results_from_json(Json::parse(own)).at(0);
    }
  }
  std::vector<std::pair<std::size_t, ClientRecord>> records(from.take<std::uint32_t>());
  for (auto& [client, record] : records) {
    client = from.take<std::uint64_t>();
    record = take_record(from).value();
  }
  return {Sum::decode(from.raw(from.left()), schema), std::move(settlements), std::move(records)};
}

// --- A rank's part of a round ---

// Answers the questions on all workers, and hands over each folded block, in order, one at a time.
void answer_share(RankRound& round, Workers& workers, const DataOf& data_of, const SharedSchema& schema,
                  std::size_t window, const std::function<void(FoldedBlock)>& hand_over) {
  std::vector<Settlement> settled;
  std::vector<std::optional<ClientRecord>> next(round.questions.size());
  std::vector<std::pair<std::size_t, ClientRecord>> records;
  OrderedFold fold(
      schema, window,
      [&](std::size_t position, Settlement& settlement) {
        settlement.client = round.questions[position].client;
        if (next[position]) records.emplace_back(settlement.client, std::move(*next[position]));
        settled.push_back(std::move(settlement));
      },
      [&](Sum& block) {
        hand_over({block, std::exchange(settled, {}), std::exchange(records, {})});
      });
  workers.run(round.questions.size(), [&](ClientSide& side, std::size_t position) {
    fold.answer(position, [&](Answer& answer) {
      Question& question = round.questions[position];
      side.answer({round.broadcast, question.client, round.cohort, round.seed, round.test_own},
                  data_of(question.client), std::move(question.record), answer);
      answer.update.check(*schema);
      next[position] = std::move(answer.record);
    });
  });
  static_cast<void>(fold.take());  // hands over the last block
}

// Blocks of rank 0's own workers on their way to its fold; a worker that is too far ahead waits.
class BlockQueue {
 public:
  void push(FoldedBlock block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return blocks_.size() < kMost || closed_; });
    blocks_.push_back(std::move(block));
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
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FoldedBlock> blocks_;
  std::exception_ptr error_;
  bool closed_ = false;
};

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
    for (std::size_t rank = 1; rank < session_.ranks(); ++rank) send(rank, encode(questions_for(rank, round)));
    const SharedSchema schema = round.fold.schema();
    RankRound own = questions_for(0, round);
    BlockQueue queue;
    std::thread worker([&] {
      try {
        answer_share(own, workers_, data_of_, schema, window(),
                     [&](FoldedBlock block) { queue.push(std::move(block)); });
      } catch (...) {
        queue.fail_with(std::current_exception());
      }
    });
    try {
      for (std::size_t b = 0; b < blocks_of(cohort); ++b) {
        const std::size_t rank = b % session_.ranks();
        FoldedBlock block = rank == 0 ? queue.pop() : decode_block(receive(rank), schema);
        for (auto& [client, record] : block.records) store_.stage(client, std::move(record));
        round.fold.push_block(block.sum, block.settlements);
      }
    } catch (...) {
      queue.close();
      worker.join();
      throw;
    }
    worker.join();
  }

 private:
  RankRound questions_for(std::size_t rank, const RoundInProgress& round) const {
    const Invitation first = round.invitation(0);
    RankRound asked{round.round.broadcast, first.cohort, first.seed, first.test_own, {}};
    for (const std::size_t position : share_of(rank, session_.ranks(), round.round.cohort.size())) {
      const std::size_t client = round.round.cohort[position];
      asked.questions.push_back({client, store_.load(client)});
    }
    return asked;
  }

  const Session& session_;
  Workers& workers_;
  DataOf data_of_;
  ClientStore& store_;
};

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

void Session::abort(int exit_code) const {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();  // MPI_Abort does not come back
}

MakeExecutor executor(const Session& session) {
  return [&session](Workers& workers, DataOf data_of, ClientStore& store) {
    return std::make_unique<RankExecutor>(session, workers, std::move(data_of), store);
  };
}

void serve(const Session&, const Experiment& experiment, std::size_t threads) {
  const SharedSchema schema = share(experiment.method->schema());
  Workers workers(experiment.client_setup(schema), threads);
  const ClientStore nothing(ClientStore::Keep::memory, {}, real_files());
  const Evaluator evaluator(experiment, workers, nothing);
  while (true) {
    const Bytes message = receive(0);
    if (message.empty()) return;
    RankRound round = decode_round(message);
    answer_share(
        round, workers, [&](std::size_t client) { return evaluator.data_of(client); }, schema, 2 * workers.size() + 4,
        [](const FoldedBlock& block) { send(0, encode(block)); });
  }
}

}  // namespace parley::mpi
