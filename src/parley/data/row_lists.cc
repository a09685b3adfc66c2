#include "parley/data/row_lists.h"

namespace parley {

RowLists::RowLists(const std::vector<std::vector<std::uint32_t>>& lists) {
  for (const auto& list : lists) push_back(list);
}

void RowLists::push_back(List list) {
  rows_.insert(rows_.end(), list.begin(), list.end());
  offsets_.push_back(rows_.size());
}

RowLists RowLists::by_owner(std::span<const std::uint32_t> owners, std::size_t lists) {
  RowLists result;
  auto& offsets = result.offsets_;
  offsets.assign(lists + 1, 0);
  // Counted one place ahead; the sums are then where the lists begin, and filling a list moves its place to its end.
  std::size_t held = 0;
  for (const std::size_t owner : owners) {
    held += owner != kNobody;
    if (owner + 2 <= lists) ++offsets[owner + 2];
  }
  for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  result.rows_.resize(held);
  for (std::uint32_t row = 0; row < owners.size(); ++row) {
    if (owners[row] != kNobody) result.rows_[offsets[owners[row] + 1]++] = row;
  }
  return result;
}

}  // namespace parley
