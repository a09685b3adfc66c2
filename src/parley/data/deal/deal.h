// What the kinds of partition share. Each kind is one function; partitions() lists them with their
// options.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parley/data/partition.h"

namespace parley::deal {

using Rows = std::vector<std::uint32_t>;

// How many clients to deal to: partition.clients, or 10 where that is 0 (only by_user reads 0 as "all users").
std::size_t client_count(const Options& options);

// All rows of the data set, shuffled.
Rows shuffled_rows(const Dataset& data, Stream& stream);
// The rows of each class, each list shuffled; throws InputError when the data set has no labels.
std::vector<Rows> class_pools(const Dataset& data, const char* kind, Stream& stream);

// Who gets each row, while it is not settled.
class Owners {
 public:
  Owners(const Dataset& data, std::size_t clients) : of_(data.size(), RowLists::kNobody), clients_(clients) {}

  std::size_t clients() const { return clients_; }
  void give(std::uint32_t row, std::size_t client) { of_[row] = static_cast<std::uint32_t>(client); }
  std::size_t fewest_rows() const;  // of any client
  // Each client's rows in rising order, so that a partition does not depend on the order in which it was dealt.
  Partition settle() const { return {.clients = RowLists::by_owner(of_, clients_), .permutations = {}}; }

 private:
  std::vector<std::uint32_t> of_;
  std::size_t clients_;
};

// Deals `rows` in one go: client k gets a run of about shares[k] / Σ shares of them, and every row is dealt.
void deal_by_shares(std::span<const std::uint32_t> rows, std::span<const double> shares, Owners& owners);
// The same with equal shares, to client `first` and every `stride`-th one behind it.
void deal_equally(std::span<const std::uint32_t> rows, Owners& owners, std::size_t first = 0, std::size_t stride = 1);

// Clients of equal size take one row after the other, in turn, without replacement: client k from
// class c with probability mixes[k][c] among the classes that still have rows, so a shortage is
// spread over all. Every row is dealt. `mixes` is one row of classes a client.
void deal_by_mix(std::vector<Rows> pools, std::span<const double> mixes, Stream& stream, Owners& owners);

Partition iid(const Dataset& data, const Options& options, Stream& stream);
Partition lognormal(const Dataset& data, const Options& options, Stream& stream);
Partition permuted(const Dataset& data, const Options& options, Stream& stream);
Partition by_user(const Dataset& data, const Options& options, Stream& stream);
Partition dirichlet(const Dataset& data, const Options& options, Stream& stream);
Partition dirichlet_client(const Dataset& data, const Options& options, Stream& stream);
Partition shards(const Dataset& data, const Options& options, Stream& stream);
Partition single_class(const Dataset& data, const Options& options, Stream& stream);
Partition mixed_class(const Dataset& data, const Options& options, Stream& stream);
Partition eta_skew(const Dataset& data, const Options& options, Stream& stream);
Partition from_file(const Dataset& data, const Options& options, Stream& stream);

}  // namespace parley::deal
