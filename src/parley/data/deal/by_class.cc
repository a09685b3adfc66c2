// Partitions that skew the labels.
#include <algorithm>
#include <cmath>

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
    fail(
        "partition.min_size: {} rows cannot give {} clients {} rows each; lower it or "
        "partition.clients",
        data.size(), clients, min_size);
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
  fail(
      "partition.min_size: no draw in {} gave every one of {} clients {} rows at alpha = {}; lower "
      "min_size or raise "
      "alpha",
      kTries, count, min_size, options.real("alpha"));
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

namespace {

// Mass eta on the dominant class, the rest over the others by clipped |N(0.5, 1)| weights.
std::vector<double> eta_mix(std::size_t classes, std::size_t dominant, double eta, Stream& stream) {
  std::vector<double> mix(classes, 0.0);
  double total = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    if (c != dominant) total += mix[c] = std::min(std::abs(0.5 + stream.normal()), 1.0);
  }
  for (auto& weight : mix) weight *= (1.0 - eta) / std::max(total, 1e-300);
  mix[dominant] = eta;
  return mix;
}

// So many rows of the pool at random, each at most once; all of them where it has no more.
void draw_from(Rows& pool, std::size_t count, Stream& stream, Rows& rows) {
  const std::size_t taken = std::min(count, pool.size());
  for (std::size_t i = 0; i < taken; ++i) {
    std::swap(pool[i], pool[i + stream.below(pool.size() - i)]);
    rows.push_back(pool[i]);
  }
}

// Clients draw for themselves, so two may hold the same row, and together they need not hold every class alike. Of the
// dominant class a client draws eta of its rows: no client has more than the smallest class can give it.
std::vector<Rows> draw_independently(std::vector<Rows> pools, const Options& options, std::size_t rows,
                                     Stream& stream) {
  const double eta = options.real("eta"), sigma = options.real("size_sigma");
  std::vector<Rows> clients(client_count(options));
  const double most = static_cast<double>(std::ranges::min_element(pools, {}, &Rows::size)->size()) / eta;
  for (Rows& own : clients) {
    const double mean = static_cast<double>(rows) / static_cast<double>(clients.size());
    const auto size = std::floor(std::min(mean * std::exp(sigma * stream.normal()), most));
    const std::size_t dominant = stream.below(pools.size());
    const auto mix = eta_mix(pools.size(), dominant, eta, stream);
    for (std::size_t c = 0; c < pools.size(); ++c) {
      draw_from(pools[c], static_cast<std::size_t>(std::llround(mix[c] * size)), stream, own);
    }
  }
  return clients;
}

}  // namespace

Partition eta_skew(const Dataset& data, const Options& options, Stream& stream) {
  std::vector<Rows> pools = class_pools(data, "eta_skew", stream);
  if (options.text("dominant") == "random") {
    std::erase_if(pools, [](const Rows& pool) { return pool.empty(); });
    return finish(draw_independently(std::move(pools), options, data.size(), stream));
  }
  std::vector<std::vector<double>> mixes;
  for (std::size_t k = 0; k < client_count(options); ++k) {
    mixes.push_back(eta_mix(pools.size(), k % pools.size(), options.real("eta"), stream));
  }
  return finish(deal_by_mix(std::move(pools), mixes, stream));
}

}  // namespace parley::deal
