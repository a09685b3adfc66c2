#include "parley/base/assignment.h"

#include <cassert>
#include <cstdint>
#include <limits>

namespace parley {
namespace {

constexpr std::size_t kNobody = SIZE_MAX;

// Rows come in one by one; each takes a column for itself by moving earlier rows along a cheapest path. The potentials
// u (rows) and v (columns) keep cost − u − v ≥ 0, with equality where a row has its column.
class Matching {
 public:
  Matching(std::span<const double> cost, std::size_t rows, std::size_t columns)
      : cost_(cost), columns_(columns), u_(rows), v_(columns), row_of_(columns, kNobody) {}

  void add(std::size_t row) {
    start_from(row);
    std::size_t last;  // the column reached last
    do {
      last = nearest_column();
      reached_[last] = true;
      if (row_of_[last] != kNobody) look_from(row_of_[last], distance_[last], last);
    } while (row_of_[last] != kNobody);
    raise_potentials(row, distance_[last]);
    shift_rows(row, last);
  }

  std::vector<std::size_t> columns_of_rows() const {
    std::vector<std::size_t> result(u_.size());
    for (std::size_t column = 0; column < columns_; ++column) {
      if (row_of_[column] != kNobody) result[row_of_[column]] = column;
    }
    return result;
  }

 private:
  void start_from(std::size_t row) {
    distance_.assign(columns_, std::numeric_limits<double>::infinity());
    before_.assign(columns_, kNobody);
    reached_.assign(columns_, false);
    look_from(row, 0.0, kNobody);
  }

  // Shortens the ways to the columns by going over `row`, which is `far` away and sits in the column `from`.
  void look_from(std::size_t row, double far, std::size_t from) {
    for (std::size_t column = 0; column < columns_; ++column) {
      if (reached_[column]) continue;
      const double way = far + cost_[row * columns_ + column] - u_[row] - v_[column];
      if (way >= distance_[column]) continue;
      distance_[column] = way;
      before_[column] = from;
    }
  }

  std::size_t nearest_column() const {
    std::size_t nearest = kNobody;
    for (std::size_t column = 0; column < columns_; ++column) {
      if (!reached_[column] && (nearest == kNobody || distance_[column] < distance_[nearest])) nearest = column;
    }
    return nearest;
  }

  // Before the rows shift: a reached column's row is the one it was reached over.
  void raise_potentials(std::size_t new_row, double total) {
    u_[new_row] += total;
    for (std::size_t column = 0; column < columns_; ++column) {
      if (!reached_[column]) continue;
      const double slack = total - distance_[column];
      v_[column] -= slack;
      if (row_of_[column] != kNobody) u_[row_of_[column]] += slack;
    }
  }

  // Every row on the path to the free column `last` takes the next column; the new one takes the first.
  void shift_rows(std::size_t new_row, std::size_t last) {
    std::size_t column = last;
    for (; before_[column] != kNobody; column = before_[column]) row_of_[column] = row_of_[before_[column]];
    row_of_[column] = new_row;
  }

  std::span<const double> cost_;
  std::size_t columns_;
  std::vector<double> u_, v_;
  std::vector<std::size_t> row_of_;  // of each column
  // The search for the new row's column:
  std::vector<double> distance_;
  std::vector<std::size_t> before_;  // the column before this one on its shortest way
  std::vector<bool> reached_;
};

}  // namespace

std::vector<std::size_t> assign(std::span<const double> cost, std::size_t rows, std::size_t columns) {
  assert(rows <= columns && cost.size() == rows * columns);
  Matching matching(cost, rows, columns);
  for (std::size_t row = 0; row < rows; ++row) matching.add(row);
  return matching.columns_of_rows();
}

}  // namespace parley
