#include "parley/engine/mpi/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <thread>

#include "parley/base/errors.h"
#include "parley/base/fingerprint.h"
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

void send(std::size_t to, const Bytes& message) {
  const std::uint64_t size = message.size();
  MPI_Send(&size, 1, MPI_UINT64_T, static_cast<int>(to), 0, MPI_COMM_WORLD);
  in_pieces(message, [&](const std::byte* from, int count) {
    MPI_Send(from, count, MPI_BYTE, static_cast<int>(to), 0, MPI_COMM_WORLD);
  });
}

Bytes receive(std::size_t from) {
  std::uint64_t size = 0;
  MPI_Recv(&size, 1, MPI_UINT64_T, static_cast<int>(from), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  Bytes message(size);
  in_pieces(message, [&](std::byte* to, int count) {
    MPI_Recv(to, count, MPI_BYTE, static_cast<int>(from), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
  return message;
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

Bytes encode(const Share& share) {
  ByteBuffer to;
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

Share decode_share(const Bytes& message) {
  ByteReader from(message);
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
void answer_share(const Broadcast& broadcast, Share& share, Workers& workers, const DataOf& data_of,
                  const SharedSchema& schema, std::size_t window, const std::function<void(FoldedBlock)>& hand_over) {
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
        hand_over({block, std::exchange(settled, {}), std::exchange(records, {})});
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
    for (std::size_t rank = 1; rank < session_.ranks(); ++rank) send(rank, encode(share_for(rank, round)));
    Bytes broadcast = round.round.broadcast.encode();
    tell_all(broadcast, MPI_COMM_WORLD);
    const SharedSchema schema = round.fold.schema();
    Share own = share_for(0, round);
    BlockQueue queue;
    std::thread worker([&] {
      try {
        answer_share(round.round.broadcast, own, workers_, data_of_, schema, window(),
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

void serve(const Session&, const Experiment& experiment, std::size_t threads) {
  const SharedSchema schema = share(experiment.method->schema());
  Workers workers(experiment.client_setup(schema), threads);
  const ClientStore nothing(ClientStore::Keep::memory, {}, real_files());
  const Evaluator evaluator(experiment, workers, nothing);
  while (true) {
    const Bytes message = receive(0);
    if (message.empty()) return;
    Share share = decode_share(message);
    Bytes broadcast;
    tell_all(broadcast, MPI_COMM_WORLD);
    answer_share(
        Broadcast::decode(broadcast), share, workers, [&](std::size_t client) { return evaluator.data_of(client); },
        schema, 2 * workers.size() + 4, [](const FoldedBlock& block) { send(0, encode(block)); });
  }
}

}  // namespace parley::mpi
