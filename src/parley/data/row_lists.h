// Many lists of rows in one piece of memory: a million clients cost a million offsets, and no object each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace parley {

class RowLists {
 public:
  using List = std::span<const std::uint32_t>;
  static constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

  RowLists() = default;
  explicit RowLists(const std::vector<std::vector<std::uint32_t>>& lists);
  // Row r goes into list owners[r], or into none; each list is in rising order. REQUIRES owners below `lists`.
  static RowLists by_owner(std::span<const std::uint32_t> owners, std::size_t lists);

  std::size_t size() const { return offsets_.size() - 1; }
  bool empty() const { return size() == 0; }
  std::size_t rows() const { return rows_.size(); }  // of all lists
  List operator[](std::size_t list) const {
    return List(rows_).subspan(offsets_[list], offsets_[list + 1] - offsets_[list]);
  }
  void push_back(List list);

  class Iterator {
   public:
    using value_type = List;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const RowLists& lists, std::size_t list) : lists_(&lists), list_(list) {}
    List operator*() const { return (*lists_)[list_]; }
    Iterator& operator++() {
      ++list_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++list_;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const RowLists* lists_ = nullptr;
    std::size_t list_ = 0;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }
  bool operator==(const RowLists&) const = default;

 private:
  std::vector<std::uint32_t> rows_;
  std::vector<std::size_t> offsets_ = {0};  // where each list begins; then where the last one ends
};

}  // namespace parley
