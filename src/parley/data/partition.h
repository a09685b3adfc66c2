// Dealing the rows of a data set to clients.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "parley/base/random.h"
#include "parley/base/registry.h"
#include "parley/data/dataset.h"
#include "parley/data/row_lists.h"

namespace parley {

// Who holds what. Rows refer to the training set.
struct Partition {
  RowLists clients;
  // `permuted` only: one feature permutation a client; otherwise empty.
  std::vector<std::vector<std::uint32_t>> permutations;

  View view(const Dataset& data, std::size_t client) const;
  std::size_t examples() const { return clients.rows(); }
};

// Deals deterministically: the same data, options and stream give the same partition. Every kind
// also has the common option `clients`. Throws InputError when the data cannot be dealt so (no
// labels, no users, too few rows).
using Deal = std::function<Partition(const Dataset& data, const Options& options, Stream& stream)>;
using PartitionRegistry = Registry<Deal>;

// Every partition, in one list.
PartitionRegistry partitions();

// The keys of [partition] that every kind has: kind, clients, seed.
std::vector<Option> common_partition_options();

// All clients' rows as those of one. Throws InputError where clients see the features in orders of their own.
Partition pooled(const Partition& partition);

// How many of these rows are of each class; empty without classes.
std::vector<std::size_t> label_counts(const Dataset& data, RowLists::List rows);
// The same for every client: clients × classes.
std::vector<std::vector<std::size_t>> label_histogram(const Dataset& data, const Partition& partition);

}  // namespace parley
