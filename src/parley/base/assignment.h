// The assignment problem: who gets what, at the least total cost.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace parley {

// A different column for every row so that the sum of cost[row · columns + column] is the least; returns the column of
// each row. `cost` is row-major and finite, and rows ≤ columns. Equal costs are resolved the same way every time.
//
// The Hungarian method by shortest augmenting paths (Jonker & Volgenant 1987): O(rows² · columns).
std::vector<std::size_t> assign(std::span<const double> cost, std::size_t rows, std::size_t columns);

}  // namespace parley
