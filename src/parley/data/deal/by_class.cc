// Partitions that skew the labels.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/data/deal/deal.h"

namespace parley::deal {
namespace {

constexpr int kTries = 1000;

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
void deal_single_class(const std::vector<Rows>& pools, Owners& owners) {
  const std::vector<std::size_t> present = present_classes(pools);
  for (std::size_t i = 0; i < present.size(); ++i) deal_equally(pools[present[i]], owners, i, present.size());
}

}  // namespace

Partition dirichlet(const Dataset& data, const Options& options, Stream& stream) {
  const std::size_t count = client_count(options);
  const std::vector<Rows> pools = class_pools(data, "dirichlet", stream);
  const std::size_t min_size = checked_min_size(data, options, count);
  const std::vector<double> alpha(count, options.real("alpha"));
  for (int tries = 0; tries < kTries; ++tries) {
    Owners owners(data, count);
    for (const auto& pool : pools) deal_by_shares(pool, stream.dirichlet(alpha), owners);
    if (min_size == 0 || owners.fewest_rows() >= min_size) return owners.settle();
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
  std::vector<double> mixes(count * pools.size());
  for (std::size_t k = 0; k < count; ++k) {
    const std::vector<double> draw = stream.dirichlet(alpha);
    for (std::size_t i = 0; i < present.size(); ++i) mixes[k * pools.size() + present[i]] = draw[i];
  }
  Owners owners(data, count);
  deal_by_mix(std::move(pools), mixes, stream, owners);
  return owners.settle();
}

Partition shards(const Dataset& data, const Options& options, Stream& stream) {
  const std::size_t count = client_count(options);
  const auto per_client = static_cast<std::size_t>(options.integer("shards_per_client"));
  Rows sorted;
  for (const auto& pool : class_pools(data, "shards", stream)) sorted.insert(sorted.end(), pool.begin(), pool.end());
  const std::size_t pieces = count * per_client;
  Rows order(pieces);  // which piece is dealt when
  std::iota(order.begin(), order.end(), 0u);
  stream.shuffle(std::span(order));
  Owners owners(data, count);
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t end = sorted.size() * (order[i] + std::size_t{1}) / pieces;
    for (std::size_t row = sorted.size() * order[i] / pieces; row < end; ++row)
      owners.give(sorted[row], i / per_client);
  }
  return owners.settle();
}

Partition single_class(const Dataset& data, const Options& options, Stream& stream) {
  Owners owners(data, client_count(options));
  deal_single_class(class_pools(data, "single_class", stream), owners);
  return owners.settle();
}

Partition mixed_class(const Dataset& data, const Options& options, Stream& stream) {
  Owners owners(data, client_count(options));
  std::vector<Rows> pools = class_pools(data, "mixed_class", stream);
  const double classes = static_cast<double>(present_classes(pools).size());
  const double mixed = 1.0 - options.real("fraction");
  // With fewer clients than classes some classes are nobody's own, and the iid part shrinks with
  // what is dealt.
  const double dealt = std::min(1.0, static_cast<double>(owners.clients()) / std::max(classes, 1.0));
  Rows order = shuffled_rows(data, stream);
  order.resize(static_cast<std::size_t>(std::llround(mixed * dealt * static_cast<double>(data.size()))));
  std::vector<bool> taken(data.size());
  for (const auto row : order) taken[row] = true;
  for (auto& pool : pools) std::erase_if(pool, [&](std::uint32_t row) { return taken[row]; });
  deal_single_class(pools, owners);
  deal_equally(order, owners);
  return owners.settle();
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
RowLists draw_independently(std::vector<Rows> pools, const Options& options, std::size_t rows, Stream& stream) {
  const double eta = options.real("eta"), sigma = options.real("size_sigma");
  const std::size_t clients = client_count(options);
  const double most = static_cast<double>(std::ranges::min_element(pools, {}, &Rows::size)->size()) / eta;
  const double mean = static_cast<double>(rows) / static_cast<double>(clients);
  RowLists drawn;
  Rows own;
  for (std::size_t k = 0; k < clients; ++k) {
    own.clear();
    const auto size = std::floor(std::min(mean * std::exp(sigma * stream.normal()), most));
    const std::size_t dominant = stream.below(pools.size());
    const auto mix = eta_mix(pools.size(), dominant, eta, stream);
    for (std::size_t c = 0; c < pools.size(); ++c) {
      draw_from(pools[c], static_cast<std::size_t>(std::llround(mix[c] * size)), stream, own);
    }
    std::ranges::sort(own);
    drawn.push_back(own);
  }
  return drawn;
}

}  // namespace

Partition eta_skew(const Dataset& data, const Options& options, Stream& stream) {
  std::vector<Rows> pools = class_pools(data, "eta_skew", stream);
  if (options.text("dominant") == "random") {
    std::erase_if(pools, [](const Rows& pool) { return pool.empty(); });
    return {.clients = draw_independently(std::move(pools), options, data.size(), stream), .permutations = {}};
  }
  const std::size_t count = client_count(options);
  std::vector<double> mixes;
  for (std::size_t k = 0; k < count; ++k) {
    const auto mix = eta_mix(pools.size(), k % pools.size(), options.real("eta"), stream);
    mixes.insert(mixes.end(), mix.begin(), mix.end());
  }
  Owners owners(data, count);
  deal_by_mix(std::move(pools), mixes, stream, owners);
  return owners.settle();
}

}  // namespace parley::deal
