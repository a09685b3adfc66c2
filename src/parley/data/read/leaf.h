// LEAF's json (Caldas et al. 2018): {"users": [...], "num_samples": [...], "user_data": {user:
// {"x": [...], "y": [...]}}}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

struct LeafTable {
  std::vector<float> values;  // rows × features
  std::size_t features = 0;
  std::vector<std::int32_t> labels;
  std::vector<std::string> users;  // of each row
};

// Numeric x (nested lists are flattened) and whole-number y. Appends; throws InputError naming
// `name` and the user.
void append_leaf(std::string_view text, const std::string& name, LeafTable& table);

// Every *.json of a folder, in the order of their names; or one file.
LeafTable read_leaf(const std::filesystem::path& path);

}  // namespace parley
