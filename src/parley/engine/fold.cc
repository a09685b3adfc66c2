#include "parley/engine/fold.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "parley/base/errors.h"
#include "parley/base/pool.h"

namespace parley {
namespace {

// Takes finished updates in any order and adds them to the sum in cohort order.
class OrderedFold {
 public:
  OrderedFold(const Schema& schema, std::size_t window, const ClientDone& done)
      : window_(window), done_(done), total_(schema), block_(schema) {}

  // An empty update to fill, recycled where possible.
  std::unique_ptr<Update> borrow() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Update>();
    auto update = std::move(free_.back());
    free_.pop_back();
    return update;
  }

  // Blocks while the update is too far ahead of the fold, which bounds memory. The client that is next never waits.
  void hand_in(std::size_t position, std::unique_ptr<Update> update, std::optional<std::string> refusal) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return stopped_ || position < next_ + window_; });
    if (stopped_) return;
    waiting_[position] = {std::move(update), std::move(refusal)};
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; first = waiting_.begin()) {
      fold(first->first, first->second);
      free_.push_back(std::move(first->second.update));
      waiting_.erase(first);
      ++next_;
    }
    lock.unlock();
    moved_.notify_all();
  }

  // Lets waiting workers go when the round has failed.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    moved_.notify_all();
  }

  CohortResult take() {
    if (block_.count() > 0) total_.merge(block_);
    return {std::move(total_), std::move(refused_)};
  }

 private:
  struct Finished {
    std::unique_ptr<Update> update;
    std::optional<std::string> refusal;
  };

  void fold(std::size_t position, const Finished& finished) {
    if (finished.refusal) {
      refused_.push_back({position, *finished.refusal});
    } else {
      block_.add(*finished.update);
    }
    if ((position + 1) % kFoldBlock == 0 && block_.count() > 0) {
      total_.merge(block_);
      block_.clear();
    }
    if (done_) done_(position, !finished.refusal);
  }

  const std::size_t window_;
  const ClientDone& done_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t next_ = 0;
  bool stopped_ = false;
  std::map<std::size_t, Finished> waiting_;
  std::vector<std::unique_ptr<Update>> free_;
  Sum total_, block_;
  std::vector<Refusal> refused_;
};

}  // namespace

CohortResult train_and_fold(std::size_t workers, std::size_t cohort, const Schema& schema, const TrainOne& train,
                            const ClientDone& done) {
  OrderedFold fold(schema, 2 * workers + 4, done);
  run_jobs(workers, cohort, [&](std::size_t worker, std::size_t position) {
    try {
      auto update = fold.borrow();
      std::optional<std::string> refusal;
      try {
        update->shape(schema);
        train(worker, position, *update);
        Sum::check(schema, *update);
      } catch (const RefusedUpdate& refused) {
        refusal = refused.what();
      }
      fold.hand_in(position, std::move(update), std::move(refusal));
    } catch (...) {
      fold.stop();  // whatever failed, training or folding: nobody may wait for a turn that never comes
      throw;
    }
  });
  return fold.take();
}

}  // namespace parley
