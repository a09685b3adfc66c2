// Partitions that skew the labels.
#include <algorithm>
#include <cmath>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/data/deal/deal.h"

namespace parley::deal {
namespace {

constexpr int kTries = 1000;

std::size_t smallest(const std::vector<Rows>& clients) {
  std::size_t size = clients[0].size();
  for (const auto& rows : clients) size = std::min(size, rows.size());
  return size;
}

// A min_size that no draw can satisfy is refused before drawing.
std::size_t checked_min_size(const Dataset& data, const Options& options, std::size_t clients) {
  const auto min_size = static_cast<std::size_t>(options.integer("min_size"));
  if (min_size > data.size() / clients) {
    fail("partition.min_size: {} cannot give {} {} each; lower it or partition.clients", counted(data.size(), "row"),
         counted(clients, "client"), counted(min_size, "row"));
  }
  return min_size;
}

std::vector<std::size_t> present_classes(const std::vector<Rows>& pools) {
  std::vector<std::size_t> present;
  for (std::size_t c = 0; c < pools.size(); ++c) {
    if (!pools[c].empty()) present.push_back(c);
  }
  return present;
}

// Client k takes class k mod C; the clients of a class share it equally.
void deal_single_class(const std::vector<Rows>& pools, std::vector<Rows>& clients) {
  const std::vector<std::size_t> present = present_classes(pools);
  for (std::size_t i = 0; i < present.size(); ++i) {
    std::vector<Rows> parts((clients.size() + present.size() - 1 - i) / present.size());
    deal_equally(pools[present[i]], parts);
    for (std::size_t j = 0; j < parts.size(); ++j) {
      Rows& rows = clients[i + j * present.size()];
      rows.insert(rows.end(), parts[j].begin(), parts[j].end());
    }
  }
}

}  // namespace

Partition dirichlet(const Dataset& data, const Options& options, Stream& stream) {
  const std::size_t count = client_count(options);
  const std::vector<Rows> pools = class_pools(data, "dirichlet", stream);
  const std::size_t min_size = checked_min_size(data, options, count);
  const std::vector<double> alpha(count, options.real("alpha"));
  for (int tries = 0; tries < kTries; ++tries) {
    std::vector<Rows> clients(count);
    for (const auto& pool : pools) deal_by_shares(pool, stream.dirichlet(alpha), clients);
    if (smallest(clients) >= min_size) return finish(std::move(clients));
  }
  fail("partition.min_size: no draw in {} gave every one of {} {} at alpha = {}; lower min_size or raise alpha", kTries,
       counted(count, "client"), counted(min_size, "row"), options.real("alpha"));
}

Partition dirichlet_client(const Dataset& data, const Options& options, Stream& stream) {
  const std::size_t count = client_count(options);
  std::vector<Rows> pools = class_pools(data, "dirichlet_client", stream);
  checked_min_size(data, options, count);  // clients have equal sizes, so no draw can fall below it
  const std::vector<std::size_t> present = present_classes(pools);
  std::vector<double> alpha;
  for (const auto c : present) {
    const double prior = static_cast<double>(pools[c].size()) / static_cast<double>(data.size());
    alpha.push_back(options.real("alpha") * prior);
  }
  std::vector<std::vector<double>> mixes(count, std::vector<double>(pools.size(), 0.0));
  for (auto& mix : mixes) {
    const std::vector<double> draw = stream.dirichlet(alpha);
    for (std::size_t i = 0; i < present.size(); ++i) mix[present[i]] = draw[i];
  }
  return finish(deal_by_mix(std::move(pools), mixes, stream));
}

Partition shards(const Dataset& data, const Options& options, Stream& stream) {
  const std::size_t count = client_count(options);
  const auto per_client = static_cast<std::size_t>(options.integer("shards_per_client"));
  Rows sorted;
  for (const auto& pool : class_pools(data, "shards", stream)) sorted.insert(sorted.end(), pool.begin(), pool.end());
  std::vector<Rows> pieces(count * per_client);
  deal_equally(sorted, pieces);
  stream.shuffle(std::span(pieces));
  std::vector<Rows> clients(count);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Rows& rows = clients[i / per_client];
    rows.insert(rows.end(), pieces[i].begin(), pieces[i].end());
  }
  return finish(std::move(clients));
}

Partition single_class(const Dataset& data, const Options& options, Stream& stream) {
  std::vector<Rows> clients(client_count(options));
  deal_single_class(class_pools(data, "single_class", stream), clients);
  return finish(std::move(clients));
}

Partition mixed_class(const Dataset& data, const Options& options, Stream& stream) {
  std::vector<Rows> clients(client_count(options));
  std::vector<Rows> pools = class_pools(data, "mixed_class", stream);
  const double classes = static_cast<double>(present_classes(pools).size());
  const double mixed = 1.0 - options.real("fraction");
  // With fewer clients than classes some classes are nobody's own, and the iid part shrinks with
  // what is dealt.
  const double dealt = std::min(1.0, static_cast<double>(clients.size()) / std::max(classes, 1.0));
  Rows order = shuffled_rows(data, stream);
  order.resize(static_cast<std::size_t>(std::llround(mixed * dealt * static_cast<double>(data.size()))));
  std::vector<bool> taken(data.size());
  for (const auto row : order) taken[row] = true;
  for (auto& pool : pools) std::erase_if(pool, [&](std::uint32_t row) { return taken[row]; });
  deal_single_class(pools, clients);
  deal_equally(order, clients);
  return finish(std::move(clients));
}

Partition eta_skew(const Dataset& data, const Options& options, Stream& stream) {
  const std::size_t count = client_count(options);
  std::vector<Rows> pools = class_pools(data, "eta_skew", stream);
  const double eta = options.real("eta");
  std::vector<std::vector<double>> mixes(count, std::vector<double>(pools.size(), 0.0));
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t dominant = k % pools.size();
    double total = 0;
    for (std::size_t c = 0; c < pools.size(); ++c) {
      if (c != dominant) total += mixes[k][c] = std::min(std::abs(0.5 + stream.normal()), 1.0);
    }
    for (auto& weight : mixes[k]) weight *= (1.0 - eta) / std::max(total, 1e-300);
    mixes[k][dominant] = eta;
  }
  return finish(deal_by_mix(std::move(pools), mixes, stream));
}

}  // namespace parley::deal
