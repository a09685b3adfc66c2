// Parts of a data set, as new data sets.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "parley/data/dataset.h"

namespace parley {

// The rows, in the order given; everything else as in `data`.
Dataset select_rows(const Dataset& data, std::span<const std::uint32_t> rows);

// At most `count` rows: the first ones, or evenly spaced ones when the rows are sorted by label
// (image folders), because the first ones would then be all of one class. 0 means all.
Dataset limit_rows(Dataset data, std::size_t count);

// Splits off a random part of all rows for testing, deterministic by `seed`: {rest, part}. At least one row goes to
// each side. Throws InputError when there are fewer than two rows.
std::pair<Dataset, Dataset> hold_out_of_all(const Dataset& data, double fraction, std::uint64_t seed);
// Which of `size` rows hold_out_of_all() takes, for a source that must know before it makes the data: {rest, part}.
std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>> hold_out_row_numbers(std::size_t size,
                                                                                       double fraction,
                                                                                       std::uint64_t seed);
// The same part of each user's rows; a user with a single row keeps it for training.
std::pair<Dataset, Dataset> hold_out_of_each_user(const Dataset& data, double fraction, std::uint64_t seed);

}  // namespace parley
