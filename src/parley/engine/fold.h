// The ordered fold: takes answers as they come, in any order, and adds them up in cohort order.
//
// The sum does not depend on who answers first: updates are added in order within fixed blocks of kFoldBlock positions,
// and the blocks' sums are merged in order. A block is what an MPI rank or an edge server hands in.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parley/engine/client_side.h"
#include "parley/update/sum.h"

namespace parley {

inline constexpr std::size_t kFoldBlock = 8;

// Adds what comes in order, and hands over each block of kFoldBlock positions when it is full.
class Blocks {
 public:
  using Sink = std::function<void(Sum& block)>;  // may be empty, where all of a block were refused
  Blocks(const SharedSchema& schema, Sink sink) : block_(schema), sink_(std::move(sink)) {}

  // The next position, with its update or, for one that was refused, with none.
  void add(const Update* update);
  // Hands over what the last block has.
  void finish();

 private:
  Sum block_;
  Sink sink_;
  std::size_t next_ = 0;
};

// Merges blocks into a total, which must outlive the sink.
Blocks::Sink merge_into(Sum& total);

// The blocks' sum.
class BlockSum {
 public:
  explicit BlockSum(const SharedSchema& schema) : total_(schema), blocks_(schema, merge_into(total_)) {}
  void add(const Update* update) { blocks_.add(update); }
  Sum take();

 private:
  Sum total_;
  Blocks blocks_;
};

struct Refusal {
  std::size_t position;  // in the cohort
  std::string reason;
};

// What became of one position of the cohort.
struct Settlement {
  std::size_t client = 0;
  std::optional<std::string> refusal = {};  // why it was refused; nothing: it was accepted
  std::size_t steps = 0;
  std::size_t wire_bytes = 0;
  double epochs = 0.0;
  std::optional<ClientResult> own = {};
};

struct FoldedRound {
  Sum sum;
  std::vector<Refusal> refused;  // in cohort order
};

// Threads:  borrow() and push() from any. Memory: at most `window` answers wait for their turn; push() blocks a worker
//           that is further ahead. Whose turn it is never waits.
class OrderedFold {
 public:
  // Called in cohort order, one at a time, after a client has been folded or refused.
  using Settled = std::function<void(std::size_t position, Settlement& settlement)>;

  // A sink takes the blocks of whoever folds a part of a cohort; without one they are merged here.
  OrderedFold(const SharedSchema& schema, std::size_t window, Settled settled, Blocks::Sink sink = {});

  // Has `fill` make the answer of a position and pushes it, or the reason for which it threw a RefusedUpdate. Whatever
  // else is thrown, there or in folding, stops the fold: nobody may wait for a turn that never comes.
  void answer(std::size_t position, const std::function<void(Answer&)>& fill);
  // An answer to fill, recycled where possible.
  std::unique_ptr<Answer> borrow();
  // Once for each position: an answer that has been checked, or the reason why there is none.
  void push(std::size_t position, std::unique_ptr<Answer> answer, std::optional<std::string> refusal);
  // The next block, folded elsewhere, with what became of its positions; in cohort order, from one thread.
  void push_block(Sum& block, std::vector<Settlement>& settlements);
  // The same with the block's sum as it came, encoded.
  void push_block(std::span<const std::byte> block, std::vector<Settlement>& settlements);
  const SharedSchema& schema() const { return total_.shared_schema(); }
  // Lets waiting workers go when the round has failed.
  void stop();
  // After the last push.
  FoldedRound take();

 private:
  struct Finished {
    std::unique_ptr<Answer> answer;
    std::optional<std::string> refusal;
  };

  void fold(Finished& finished);
  void settle(Settlement& settlement);
  void settle(std::vector<Settlement>& settlements);

  const std::size_t window_;
  const Settled settled_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t next_ = 0;
  bool stopped_ = false;
  std::map<std::size_t, Finished> waiting_;
  std::vector<std::unique_ptr<Answer>> free_;
  Sum total_;
  Blocks blocks_;
  std::vector<Refusal> refused_;
};

}  // namespace parley
