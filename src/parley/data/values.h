// Numbers that are written once and then only read.
//
// Copies share them. They may live elsewhere than in a vector: the processes of one machine can have one copy between
// them (engine/mpi).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace parley {

template <class T>
class Values {
 public:
  Values() = default;
  Values(std::vector<T> numbers) {  // implicit: a reader fills a vector and hands it over
    const auto own = std::make_shared<const std::vector<T>>(std::move(numbers));
    numbers_ = *own;
    owner_ = own;
  }
  // `owner` keeps them alive.
  Values(std::span<const T> numbers, std::shared_ptr<const void> owner) : numbers_(numbers), owner_(std::move(owner)) {}

  const T* data() const { return numbers_.data(); }
  std::size_t size() const { return numbers_.size(); }
  bool empty() const { return numbers_.empty(); }
  auto begin() const { return numbers_.begin(); }
  auto end() const { return numbers_.end(); }
  const T& operator[](std::size_t i) const { return numbers_[i]; }
  operator std::span<const T>() const { return numbers_; }

  friend bool operator==(const Values& a, const Values& b) { return std::ranges::equal(a.numbers_, b.numbers_); }

 private:
  std::span<const T> numbers_;
  std::shared_ptr<const void> owner_;
};

}  // namespace parley
