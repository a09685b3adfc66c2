#include "parley/engine/fold.h"

namespace parley {

void BlockSum::add(const Update* update) {
  if (update != nullptr) block_.add(*update);
  if (++next_ % kFoldBlock == 0 && block_.count() > 0) {
    total_.merge(block_);
    block_.clear();
  }
}

Sum BlockSum::take() {
  if (block_.count() > 0) total_.merge(block_);
  return std::move(total_);
}

std::unique_ptr<Answer> OrderedFold::borrow() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<Answer>();
  auto answer = std::move(free_.back());
  free_.pop_back();
  return answer;
}

void OrderedFold::push(std::size_t position, std::unique_ptr<Answer> answer, std::optional<std::string> refusal) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return stopped_ || position < next_ + window_; });
  if (stopped_) return;
  waiting_[position] = {std::move(answer), std::move(refusal)};
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; first = waiting_.begin()) {
    fold(first->first, first->second);
    if (first->second.answer) free_.push_back(std::move(first->second.answer));
    waiting_.erase(first);
    ++next_;
  }
  lock.unlock();
  moved_.notify_all();
}

void OrderedFold::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  moved_.notify_all();
}

void OrderedFold::fold(std::size_t position, const Finished& finished) {
  if (finished.refusal) refused_.push_back({position, *finished.refusal});
  Answer* const accepted = finished.refusal ? nullptr : finished.answer.get();
  sum_.add(accepted != nullptr ? &accepted->update : nullptr);
  if (settled_) settled_(position, accepted);
}

}  // namespace parley
