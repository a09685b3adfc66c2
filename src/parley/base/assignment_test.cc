#include "parley/base/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "parley/base/random.h"

namespace parley {
namespace {

double total(const std::vector<double>& cost, const std::vector<std::size_t>& column_of, std::size_t columns) {
  double sum = 0;
  for (std::size_t row = 0; row < column_of.size(); ++row) sum += cost[row * columns + column_of[row]];
  return sum;
}

double least_by_trying_all(const std::vector<double>& cost, std::size_t rows, std::size_t columns) {
  std::vector<std::size_t> order(columns);
  std::iota(order.begin(), order.end(), std::size_t{0});
  double least = std::numeric_limits<double>::infinity();
  do {
    least = std::min(least, total(cost, {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rows)}, columns));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Assignment, IsTheBestOfAllChoices) {
  Stream stream(1, "test");
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t columns = 1 + stream.below(6), rows = stream.below(columns + 1);
    std::vector<double> cost(rows * columns);
    // Few different whole numbers, negative ones too: ties are where a wrong search goes astray.
    for (auto& c : cost) c = trial % 2 == 0 ? static_cast<double>(stream.below(4)) - 2 : stream.normal();
    const auto chosen = assign(cost, rows, columns);
    ASSERT_EQ(chosen.size(), rows);
    ASSERT_EQ(std::set(chosen.begin(), chosen.end()).size(), rows) << "a column was given twice";
    EXPECT_NEAR(total(cost, chosen, columns), least_by_trying_all(cost, rows, columns), 1e-12);
  }
}

TEST(Assignment, FindsAHiddenPermutationOfManyRows) {
  constexpr std::size_t kSize = 300;
  Stream stream(2, "test");
  std::vector<std::size_t> hidden(kSize);
  std::iota(hidden.begin(), hidden.end(), std::size_t{0});
  stream.shuffle(std::span(hidden));
  std::vector<double> cost(kSize * kSize);
  for (auto& c : cost) c = stream.uniform(1.0, 2.0);
  for (std::size_t row = 0; row < kSize; ++row) cost[row * kSize + hidden[row]] = 0.0;
  EXPECT_EQ(assign(cost, kSize, kSize), hidden);
}

TEST(Assignment, LeavesDearColumnsOut) {
  EXPECT_EQ(assign(std::vector<double>{5, 1, 9, 5, 1, 2}, 2, 3), (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(assign({}, 0, 3).empty());
}

}  // namespace
}  // namespace parley
