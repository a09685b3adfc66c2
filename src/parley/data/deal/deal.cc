#include "parley/data/deal/deal.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parley/base/errors.h"

namespace parley::deal {
namespace {

// The index that `weights` gives a uniform draw; weights need not add up to 1. Returns
// weights.size() when all are 0.
std::size_t draw_index(std::span<const double> weights, Stream& stream) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(total > 0)) return weights.size();
  double left = stream.uniform() * total;
  std::size_t last = weights.size();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    if ((left -= weights[i]) < 0) break;
  }
  return last;
}

}  // namespace

std::size_t client_count(const Options& options) {
  const std::int64_t clients = options.integer("clients");
  constexpr std::size_t kUsual = 10;
  return clients == 0 ? kUsual : static_cast<std::size_t>(clients);
}

Rows shuffled_rows(const Dataset& data, Stream& stream) {
  Rows rows(data.size());
  std::iota(rows.begin(), rows.end(), 0u);
  stream.shuffle(std::span(rows));
  return rows;
}

std::vector<Rows> class_pools(const Dataset& data, const char* kind, Stream& stream) {
  if (data.classes == 0) {
    fail(
        "partition.kind = \"{}\" needs class labels, but the data set '{}' has none; use iid, "
        "lognormal or by_user",
        kind, data.name);
  }
  std::vector<Rows> pools(data.classes);
  for (const auto row : shuffled_rows(data, stream)) pools[static_cast<std::size_t>(data.labels[row])].push_back(row);
  return pools;
}

std::size_t Owners::fewest_rows() const {
  std::vector<std::size_t> sizes(clients_);
  for (const auto owner : of_) {
    if (owner != RowLists::kNobody) ++sizes[owner];
  }
  return *std::ranges::min_element(sizes);
}

void deal_by_shares(std::span<const std::uint32_t> rows, std::span<const double> shares, Owners& owners) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  double sum = 0;
  std::size_t begin = 0;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    sum += shares[k];
    const bool last = k + 1 == shares.size();
    const auto cut = static_cast<std::size_t>(std::llround(sum / total * static_cast<double>(rows.size())));
    const std::size_t end = last ? rows.size() : std::clamp(cut, begin, rows.size());
    for (; begin < end; ++begin) owners.give(rows[begin], k);
  }
}

void deal_equally(std::span<const std::uint32_t> rows, Owners& owners, std::size_t first, std::size_t stride) {
  if (first >= owners.clients()) return;
  const std::size_t count = (owners.clients() - first + stride - 1) / stride;
  std::size_t row = 0;
  for (std::size_t k = 0; k < count; ++k) {
    for (const std::size_t end = rows.size() * (k + 1) / count; row < end; ++row) {
      owners.give(rows[row], first + k * stride);
    }
  }
}

void deal_by_mix(std::vector<Rows> pools, std::span<const double> mixes, Stream& stream, Owners& owners) {
  std::size_t left = 0;
  for (const auto& pool : pools) left += pool.size();
  std::vector<double> weights(pools.size());
  for (std::size_t turn = 0; left > 0; ++turn, --left) {
    const std::size_t k = turn % owners.clients();
    const auto mix = mixes.subspan(k * pools.size(), pools.size());
    for (std::size_t c = 0; c < pools.size(); ++c) weights[c] = pools[c].empty() ? 0.0 : mix[c];
    std::size_t chosen = draw_index(weights, stream);
    if (chosen == pools.size()) {  // nothing that the client wants is left: it takes what there is
      for (std::size_t c = 0; c < pools.size(); ++c) weights[c] = static_cast<double>(pools[c].size());
      chosen = draw_index(weights, stream);
    }
    owners.give(pools[chosen].back(), k);
    pools[chosen].pop_back();
  }
}

}  // namespace parley::deal
