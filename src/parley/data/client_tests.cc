#include "parley/data/client_tests.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "parley/base/errors.h"
#include "parley/data/deal/deal.h"

namespace parley {

using deal::Rows;

Partition hold_out_of_each_client(Partition& partition, double part, Stream& stream) {
  RowLists kept, held;
  Rows rows;
  for (const auto all : partition.clients) {
    rows.assign(all.begin(), all.end());
    std::size_t count = 0;
    if (rows.size() >= 2) {
      const auto wanted = static_cast<std::size_t>(std::llround(part * static_cast<double>(rows.size())));
      count = std::clamp<std::size_t>(wanted, 1, rows.size() - 1);
      stream.shuffle(std::span(rows));
    }
    const auto stay = std::span(rows).first(rows.size() - count), go = std::span(rows).last(count);
    std::ranges::sort(stay);
    std::ranges::sort(go);
    kept.push_back(stay);
    held.push_back(go);
  }
  partition.clients = std::move(kept);
  return {.clients = std::move(held), .permutations = partition.permutations};
}

Partition deal_test_by_user(const Dataset& train, const Dataset& test, const Partition& partition) {
  std::map<std::int32_t, std::size_t> client_of;
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    for (const auto row : partition.clients[k]) client_of[train.users[row]] = k;
  }
  deal::Owners owners(test, partition.clients.size());
  bool any = false;
  for (std::uint32_t row = 0; row < test.users.size(); ++row) {
    const auto found = client_of.find(test.users[row]);
    if (found == client_of.end()) continue;
    owners.give(row, found->second);
    any = true;
  }
  if (!any) {
    fail(
        "evaluate.clients: the test set of '{}' has rows of none of the clients' users, so no client has test data of "
        "its own; hold back a part of each client's rows with partition.holdout = 0.2",
        train.name);
  }
  return owners.settle();
}

Partition deal_test_alike(const Dataset& train, const Dataset& test, const Partition& partition, Stream& stream) {
  const std::size_t classes = std::max<std::size_t>(train.classes, 1);
  std::vector<Rows> pools(classes);
  for (const auto row : deal::shuffled_rows(test, stream)) {
    pools[train.classes > 0 ? static_cast<std::size_t>(test.labels[row]) : 0].push_back(row);
  }
  const std::size_t clients = partition.clients.size();
  std::vector<std::vector<double>> shares(classes, std::vector<double>(clients, 0.0));
  for (std::size_t k = 0; k < clients; ++k) {
    for (const auto row : partition.clients[k]) {
      shares[train.classes > 0 ? static_cast<std::size_t>(train.labels[row]) : 0][k] += 1.0;
    }
  }
  deal::Owners owners(test, clients);
  for (std::size_t c = 0; c < classes; ++c) {
    const bool held = std::ranges::any_of(shares[c], [](double share) { return share > 0.0; });
    if (held) deal::deal_by_shares(pools[c], shares[c], owners);  // a class that nobody trains on is nobody's test
  }
  Partition dealt = owners.settle();
  dealt.permutations = partition.permutations;
  return dealt;
}

}  // namespace parley
