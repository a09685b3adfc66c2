// Each client's own test data: what is held back of its rows, or its part of the test set.
#pragma once

#include "parley/data/partition.h"

namespace parley {

// Moves `part` of every client's rows, drawn at random, out of the partition; of two rows or more at least one goes and
// at least one stays. What is returned has the same clients and feature orders.
Partition hold_out(Partition& partition, double part, Stream& stream);

// Divides the test set among the clients by user: a client gets the rows of the users whose training rows it holds.
// Throws InputError when nobody gets any.
Partition deal_test_by_user(const Dataset& train, const Dataset& test, const Partition& partition);

// Divides the test set as the training set is divided: each class (or, without classes, the whole) in proportion to
// the clients' training rows of it.
Partition deal_test_alike(const Dataset& train, const Dataset& test, const Partition& partition, Stream& stream);

}  // namespace parley
