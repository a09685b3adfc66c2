// A test part for data that come without one, as the options test_fraction and split_seed say.
#pragma once

#include "parley/base/options.h"
#include "parley/data/dataset.h"

namespace parley {

// Any rows.
TrainTest split_rows(const Dataset& all, const Options& options);
// The same part of each user's rows, so that everybody with two rows or more is in both.
TrainTest split_each_user(const Dataset& all, const Options& options);

}  // namespace parley
