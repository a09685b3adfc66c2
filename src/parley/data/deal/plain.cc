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
  Owners owners(data, client_count(options));
  deal_equally(shuffled_rows(data, stream), owners);
  return owners.settle();
}

Partition lognormal(const Dataset& data, const Options& options, Stream& stream) {
  Owners owners(data, client_count(options));
  std::vector<double> exponents(owners.clients());
  for (auto& exponent : exponents) exponent = options.real("sigma") * stream.normal();
  // Relative to the largest, so that no sigma overflows.
  const double largest = *std::max_element(exponents.begin(), exponents.end());
  std::vector<double> shares;
  for (const auto exponent : exponents) shares.push_back(std::exp(exponent - largest));
  deal_by_shares(shuffled_rows(data, stream), shares, owners);
  return owners.settle();
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

namespace {

// A random choice of groups to be clients, in the order of the groups; kNobody for the others.
Rows clients_of_groups(std::size_t groups, std::size_t wanted, Stream& stream) {
  Rows chosen(groups), client_of(groups, RowLists::kNobody);
  std::iota(chosen.begin(), chosen.end(), 0u);
  if (wanted < groups) {
    stream.shuffle(std::span(chosen));
    chosen.resize(wanted);
    std::sort(chosen.begin(), chosen.end());
  }
  for (std::uint32_t client = 0; client < chosen.size(); ++client) client_of[chosen[client]] = client;
  return client_of;
}

}  // namespace

Partition by_user(const Dataset& data, const Options& options, Stream& stream) {
  if (data.users.empty()) {
    fail(
        "partition.kind = \"by_user\" needs the owner of each row, but the data set '{}' has none; "
        "use "
        "digits_by_writer, har, vsn, eeg, shakespeare, sentiment140, leaf, csv with user_column, or set data.users",
        data.name);
  }
  std::map<std::int32_t, std::size_t> rows_of;
  for (const auto user : data.users) ++rows_of[user];
  const auto least = static_cast<std::size_t>(options.integer("min_rows"));
  std::erase_if(rows_of, [&](const auto& user) { return user.second < least; });
  if (rows_of.empty()) fail("partition.min_rows: no user has {}; lower it", counted(least, "row"));

  const auto group_size = static_cast<std::size_t>(options.integer("users_per_client"));
  const std::size_t groups = (rows_of.size() + group_size - 1) / group_size;
  const auto wanted = static_cast<std::size_t>(options.integer("clients"));
  if (wanted > groups) {
    fail("partition.clients: {}, but only {} in groups of {}; expected at most {} (0 = all)", counted(wanted, "client"),
         counted(rows_of.size(), "user"), group_size, groups);
  }
  const Rows client_of = clients_of_groups(groups, wanted > 0 ? wanted : groups, stream);
  std::size_t user_number = 0;
  for (auto& [user, client] : rows_of) client = client_of[user_number++ / group_size];
  Owners owners(data, wanted > 0 ? wanted : groups);
  for (std::uint32_t row = 0; row < data.users.size(); ++row) {
    const auto found = rows_of.find(data.users[row]);
    if (found != rows_of.end()) owners.give(row, found->second);
  }
  return owners.settle();
}

}  // namespace parley::deal
