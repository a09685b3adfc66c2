// Test data of each client's own (evaluate.clients): rows held out of its training rows, or its share of the test set.
#pragma once

#include "parley/data/partition.h"

namespace parley {

// Takes `part` of every client's rows, drawn at random, out of the partition and returns them as a partition of the
// same clients, with the same feature orders. Of two rows or more, at least one goes and at least one stays; a client
// with a single row keeps it for training.
Partition hold_out_of_each_client(Partition& partition, double part, Stream& stream);

// Divides the test set among the clients by user: a client gets the rows of the users whose training rows it holds.
// Throws InputError when nobody gets any.
Partition deal_test_by_user(const Dataset& train, const Dataset& test, const Partition& partition);

// Divides the test set as the training set is divided: each class (or, without classes, the whole) in proportion to
// the clients' training rows of it.
Partition deal_test_alike(const Dataset& train, const Dataset& test, const Partition& partition, Stream& stream);

}  // namespace parley
