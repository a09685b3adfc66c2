#include "parley/data/client_tests.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "parley/base/errors.h"
#include "parley/data/deal/deal.h"

namespace parley {

using deal::Rows;

Partition hold_out_of_each_client(Partition& partition, double part, Stream& stream) {
  std::vector<Rows> held(partition.clients.size());
  for (std::size_t k = 0; k < held.size(); ++k) {
    Rows& rows = partition.clients[k];
    if (rows.size() < 2) continue;
    const auto wanted = static_cast<std::size_t>(std::llround(part * static_cast<double>(rows.size())));
    const std::size_t count = std::clamp<std::size_t>(wanted, 1, rows.size() - 1);
    stream.shuffle(std::span(rows));
    held[k].assign(rows.end() - static_cast<std::ptrdiff_t>(count), rows.end());
    rows.resize(rows.size() - count);
    std::ranges::sort(rows);
  }
  Partition own = deal::finish(std::move(held));
  own.permutations = partition.permutations;
  return own;
}

Partition deal_test_by_user(const Dataset& train, const Dataset& test, const Partition& partition) {
  std::map<std::int32_t, std::size_t> client_of;
  for (std::size_t k = 0; k < partition.clients.size(); ++k) {
    for (const auto row : partition.clients[k]) client_of[train.users[row]] = k;
  }
  std::vector<Rows> own(partition.clients.size());
  bool any = false;
  for (std::uint32_t row = 0; row < test.users.size(); ++row) {
    const auto found = client_of.find(test.users[row]);
    if (found == client_of.end()) continue;
    own[found->second].push_back(row);
    any = true;
  }
  if (!any) {
    fail(
        "evaluate.clients: the test set of '{}' has rows of none of the clients' users, so no client has test data of "
        "its own; hold back a part of each client's rows with partition.holdout = 0.2",
        train.name);
  }
  return deal::finish(std::move(own));
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
  std::vector<Rows> own(clients);
  for (std::size_t c = 0; c < classes; ++c) {
    const bool held = std::ranges::any_of(shares[c], [](double share) { return share > 0.0; });
    if (held) deal::deal_by_shares(pools[c], shares[c], own);  // a class that nobody trains on is nobody's test
  }
  Partition dealt = deal::finish(std::move(own));
  dealt.permutations = partition.permutations;
  return dealt;
}

}  // namespace parley
