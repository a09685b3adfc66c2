// Labels and users as the readers find them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// `classes` when it is above 0, otherwise the largest label + 1. Throws InputError naming `name`
// and the row when a label is negative or not below `classes`, or so large that it cannot be a
// class.
std::size_t count_classes(std::span<const std::int32_t> labels, std::size_t classes, const std::string& name);

// A user-id file: one whole number or name a line, aligned with the rows of a data set; plain or
// gzip.
std::vector<std::string> read_users(const std::filesystem::path& path);

// Users as numbers, the same for both lists. Whole numbers stay what they are; otherwise names are
// numbered in the order in which they first appear, training rows first.
struct NumberedUsers {
  std::vector<std::int32_t> train;
  std::vector<std::int32_t> test;
};
NumberedUsers number_users(const std::vector<std::string>& train, const std::vector<std::string>& test);

// The whole number a text is, in [0, 2³¹); or −1.
std::int32_t natural_number(std::string_view text);

}  // namespace parley
