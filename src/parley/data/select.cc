#include "parley/data/select.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/base/random.h"

namespace parley {
namespace {

template <class T>
std::vector<T> gather(std::span<const T> from, std::span<const std::uint32_t> rows, std::size_t width) {
  std::vector<T> result;
  if (from.empty()) return result;
  result.reserve(rows.size() * width);
  for (const auto row : rows) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(row * width);
    result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return result;
}

// {rest, part} by a mark on each row.
std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>> split(const std::vector<bool>& held_out) {
  std::vector<std::uint32_t> rest, part;
  for (std::uint32_t i = 0; i < held_out.size(); ++i) (held_out[i] ? part : rest).push_back(i);
  return {std::move(rest), std::move(part)};
}

// Marks round(fraction · n) random ones of `rows`, between `least` and n − 1 of them.
void mark_some(std::vector<std::uint32_t> rows, double fraction, std::size_t least, Stream& stream,
               std::vector<bool>& marks) {
  if (rows.size() < 2) return;
  stream.shuffle(std::span(rows));
  const auto wanted = static_cast<std::size_t>(std::llround(fraction * static_cast<double>(rows.size())));
  const std::size_t count = std::clamp(wanted, least, rows.size() - 1);
  for (std::size_t i = 0; i < count; ++i) marks[rows[i]] = true;
}

}  // namespace

Dataset select_rows(const Dataset& data, std::span<const std::uint32_t> rows) {
  Dataset result;
  result.name = data.name;
  result.shape = data.shape;
  result.content = data.content;
  result.transform = data.transform;
  result.classes = data.classes;
  result.class_names = data.class_names;
  result.columns = data.columns;
  result.target_size = data.target_size;
  std::visit([&](const auto& values) { result.values = gather(std::span(values), rows, data.features()); },
             data.values);
  result.labels = gather(std::span(data.labels), rows, 1);
  result.targets = gather(std::span(data.targets), rows, data.target_size);
  result.users = gather(std::span(data.users), rows, 1);
  return result;
}

Dataset limit_rows(Dataset data, std::size_t count) {
  const std::size_t size = data.size();
  if (count == 0 || count >= size) return data;
  const bool sorted = data.classes > 1 && std::is_sorted(data.labels.begin(), data.labels.end());
  std::vector<std::uint32_t> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = static_cast<std::uint32_t>(sorted ? i * size / count : i);
  }
  return select_rows(data, rows);
}

std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>> hold_out_row_numbers(std::size_t size,
                                                                                       double fraction,
                                                                                       std::uint64_t seed) {
  Stream stream(seed, "data.hold_out");
  std::vector<std::uint32_t> rows(size);
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<bool> marks(size);
  mark_some(std::move(rows), fraction, 1, stream, marks);
  return split(marks);
}

std::pair<Dataset, Dataset> hold_out_of_all(const Dataset& data, double fraction, std::uint64_t seed) {
  if (data.size() < 2) fail("{}: {} row; expected two or more to hold some out for testing", data.name, data.size());
  const auto [rest, part] = hold_out_row_numbers(data.size(), fraction, seed);
  return {select_rows(data, rest), select_rows(data, part)};
}

std::pair<Dataset, Dataset> hold_out_of_each_user(const Dataset& data, double fraction, std::uint64_t seed) {
  std::map<std::int32_t, std::vector<std::uint32_t>> rows_of;
  for (std::uint32_t i = 0; i < data.users.size(); ++i) rows_of[data.users[i]].push_back(i);
  std::vector<bool> marks(data.size());
  for (const auto& [user, rows] : rows_of) {
    Stream stream(seed, "data.hold_out", 0, static_cast<std::uint64_t>(user));
    mark_some(rows, fraction, 0, stream, marks);
  }
  const auto [rest, part] = split(marks);
  return {select_rows(data, rest), select_rows(data, part)};
}

}  // namespace parley
