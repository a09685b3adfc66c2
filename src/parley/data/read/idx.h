// The idx format of MNIST: a big-endian header (two zero bytes, type, number of extents, extents),
// then the values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "parley/data/dataset.h"

namespace parley {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};

// Unsigned bytes only, which is what the known data sets use. Throws InputError.
IdxArray parse_idx(std::string_view bytes, const std::string& name);
IdxArray read_idx(const std::filesystem::path& path);

// Images {n, h, w} become {1, h, w}; {n, c, h, w} and {n, f} keep their extents. `classes` is left
// at the largest label + 1, or at `classes` when that is above 0; then a label beyond it is an
// InputError.
Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels, std::size_t classes);

}  // namespace parley
