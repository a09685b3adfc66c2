#include "parley/wire/worker.h"

namespace parley::wire {

void Worker::begin() {
  thread_ = std::thread([this] { work(); });
}

void Worker::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Worker::is_outdated() const {
  const std::lock_guard lock(mutex_);
  return ending_ || waiting_;
}

void Worker::ask(Question question) {
  std::shared_ptr<const Outcome> known;
  {
    const std::lock_guard lock(mutex_);
    if (current_ == question) {
      waiting_.reset();
      if (!last_) return;  // it is being answered
      known = last_;
    } else {
      waiting_ = std::move(question);
    }
  }
  if (known) return ready_(known);
  changed_.notify_all();
}

void Worker::work() {
  while (true) {
    Question question;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || waiting_; });
      if (ending_) return;
      current_ = std::move(*waiting_);
      waiting_.reset();
      last_.reset();
      question = *current_;
    }
    const auto outcome = answer(question);
    {
      const std::lock_guard lock(mutex_);
      last_ = outcome;
      if (!outcome) current_.reset();
      if (!outcome || waiting_) continue;  // the server has gone on
    }
    ready_(outcome);
  }
}

}  // namespace parley::wire
