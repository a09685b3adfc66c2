#include "parley/engine/fold.h"

#include "parley/base/errors.h"
#include "parley/base/timeline.h"

namespace parley {
namespace {

Settlement settlement_of(Answer* answer, std::optional<std::string> refusal) {
  if (refusal) return {.client = answer != nullptr ? answer->update.client : 0, .refusal = std::move(refusal)};
  return {.client = answer->update.client,
          .steps = answer->update.training.steps,
          .wire_bytes = answer->update.wire_bytes(),
          .epochs = answer->epochs,
          .own = std::move(answer->own)};
}

}  // namespace

void Blocks::add(const Update* update) {
  if (update != nullptr) block_.add(*update);
  if (++next_ % kFoldBlock != 0) return;
  sink_(block_);
  block_.clear();
}

void Blocks::finish() {
  if (next_ % kFoldBlock != 0) sink_(block_);
}

Blocks::Sink merge_into(Sum& total) {
  return [&total](Sum& block) {
    if (block.count() > 0) total.merge(block);
  };
}

Sum BlockSum::take() {
  blocks_.finish();
  return std::move(total_);
}

OrderedFold::OrderedFold(const SharedSchema& schema, std::size_t window, Settled settled, Blocks::Sink sink)
    : window_(window),
      settled_(std::move(settled)),
      total_(schema),
      blocks_(schema, sink ? std::move(sink) : merge_into(total_)) {}

void OrderedFold::answer(std::size_t position, const std::function<void(Answer&)>& fill) {
  try {
    auto answer = borrow();
    std::optional<std::string> refusal;
    try {
      fill(*answer);
    } catch (const RefusedUpdate& refused) {
      refusal = refused.what();
    }
    push(position, std::move(answer), std::move(refusal));
  } catch (...) {
    stop();
    throw;
  }
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
  const Span span("fold");
  waiting_[position] = {std::move(answer), std::move(refusal)};
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; first = waiting_.begin()) {
    fold(first->second);
    if (first->second.answer) free_.push_back(std::move(first->second.answer));
    waiting_.erase(first);
  }
  lock.unlock();
  moved_.notify_all();
}

void OrderedFold::push_block(Sum& block, std::vector<Settlement>& settlements) {
  merge_into(total_)(block);
  settle(settlements);
}

void OrderedFold::push_block(std::span<const std::byte> block, std::vector<Settlement>& settlements) {
  total_.merge(block);
  settle(settlements);
}

void OrderedFold::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  moved_.notify_all();
}

// A block is handed over after its last position is settled, so that who takes it knows what became of all.
void OrderedFold::fold(Finished& finished) {
  Answer* const answer = finished.answer.get();
  const bool refused = finished.refusal.has_value();
  Settlement settlement = settlement_of(answer, std::move(finished.refusal));
  settle(settlement);
  blocks_.add(refused ? nullptr : &answer->update);
}

void OrderedFold::settle(Settlement& settlement) {
  if (settlement.refusal) refused_.push_back({next_, *settlement.refusal});
  if (settled_) settled_(next_, settlement);
  ++next_;
}

void OrderedFold::settle(std::vector<Settlement>& settlements) {
  for (Settlement& settlement : settlements) settle(settlement);
}

FoldedRound OrderedFold::take() {
  blocks_.finish();
  return {std::move(total_), std::move(refused_)};
}

}  // namespace parley
