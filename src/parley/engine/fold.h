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

// Adds what comes in order, block by block.
class BlockSum {
 public:
  explicit BlockSum(const SharedSchema& schema) : total_(schema), block_(schema) {}

  // The next position, with its update or, for one that was refused, with none.
  void add(const Update* update);
  Sum take();

 private:
  Sum total_, block_;
  std::size_t next_ = 0;
};

struct Refusal {
  std::size_t position;  // in the cohort
  std::string reason;
};

struct FoldedRound {
  Sum sum;
  std::vector<Refusal> refused;  // in cohort order
};

// Threads:  borrow() and push() from any. Memory: at most `window` answers wait for their turn; push() blocks a worker
//           that is further ahead. Whose turn it is never waits.
class OrderedFold {
 public:
  // Called in cohort order, one at a time, after a client has been folded (with its answer) or refused (with none).
  using Settled = std::function<void(std::size_t position, Answer* accepted)>;

  OrderedFold(const SharedSchema& schema, std::size_t window, Settled settled)
      : window_(window), settled_(std::move(settled)), sum_(schema) {}

  // An answer to fill, recycled where possible.
  std::unique_ptr<Answer> borrow();
  // Once for each position: an answer that has been checked, or the reason why there is none.
  void push(std::size_t position, std::unique_ptr<Answer> answer, std::optional<std::string> refusal);
  // Lets waiting workers go when the round has failed.
  void stop();
  // After the last push.
  FoldedRound take() { return {sum_.take(), std::move(refused_)}; }

 private:
  struct Finished {
    std::unique_ptr<Answer> answer;
    std::optional<std::string> refusal;
  };

  void fold(std::size_t position, const Finished& finished);

  const std::size_t window_;
  const Settled settled_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t next_ = 0;
  bool stopped_ = false;
  std::map<std::size_t, Finished> waiting_;
  std::vector<std::unique_ptr<Answer>> free_;
  BlockSum sum_;
  std::vector<Refusal> refused_;
};

}  // namespace parley
