// Partitions that do not look at the labels.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/data/deal/deal.h"

namespace parley::deal {

Partition iid(const Dataset& data, const Options& options, Stream& stream) {
  std::vector<Rows> clients(client_count(options));
  deal_equally(shuffled_rows(data, stream), clients);
  return finish(std::move(clients));
}

Partition lognormal(const Dataset& data, const Options& options, Stream& stream) {
  std::vector<Rows> clients(client_count(options));
  std::vector<double> exponents(clients.size());
  for (auto& exponent : exponents) exponent = options.real("sigma") * stream.normal();
  // Relative to the largest, so that no sigma overflows.
  const double largest = *std::max_element(exponents.begin(), exponents.end());
  std::vector<double> shares;
  for (const auto exponent : exponents) shares.push_back(std::exp(exponent - largest));
  deal_by_shares(shuffled_rows(data, stream), shares, clients);
  return finish(std::move(clients));
}

Partition permuted(const Dataset& data, const Options& options, Stream& stream) {
  Partition partition = iid(data, options, stream);
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    Rows order(data.features());
    std::iota(order.begin(), order.end(), 0u);
    stream.shuffle(std::span(order));
    partition.permutations.push_back(std::move(order));
  }
  return partition;
}

Partition by_user(const Dataset& data, const Options& options, Stream& stream) {
  if (data.users.empty()) {
    fail(
        "partition.kind = \"by_user\" needs the owner of each row, but the data set '{}' has none; "
        "use "
        "digits_by_writer, har, vsn, eeg, shakespeare, sentiment140, leaf, csv with user_column, or set data.users",
        data.name);
  }
  std::map<std::int32_t, Rows> rows_of;
  for (std::uint32_t i = 0; i < data.users.size(); ++i) rows_of[data.users[i]].push_back(i);
  const auto least = static_cast<std::size_t>(options.integer("min_rows"));
  std::erase_if(rows_of, [&](const auto& user) { return user.second.size() < least; });
  if (rows_of.empty()) fail("partition.min_rows: no user has {}; lower it", counted(least, "row"));

  std::vector<Rows> groups;
  const auto group_size = static_cast<std::size_t>(options.integer("users_per_client"));
  std::size_t in_group = group_size;
  for (const auto& [user, rows] : rows_of) {
    if (in_group == group_size) {
      groups.emplace_back();
      in_group = 0;
    }
    groups.back().insert(groups.back().end(), rows.begin(), rows.end());
    ++in_group;
  }
  const auto wanted = static_cast<std::size_t>(options.integer("clients"));
  if (wanted > groups.size()) {
    fail("partition.clients: {}, but only {} in groups of {}; expected at most {} (0 = all)", counted(wanted, "client"),
         counted(rows_of.size(), "user"), group_size, groups.size());
  }
  if (wanted > 0 && wanted < groups.size()) {
    // A random choice of clients, kept in the order of the users.
    Rows chosen(groups.size());
    std::iota(chosen.begin(), chosen.end(), 0u);
    stream.shuffle(std::span(chosen));
    chosen.resize(wanted);
    std::sort(chosen.begin(), chosen.end());
    std::vector<Rows> kept;
    for (const auto group : chosen) kept.push_back(std::move(groups[group]));
    groups = std::move(kept);
  }
  return finish(std::move(groups));
}

}  // namespace parley::deal
