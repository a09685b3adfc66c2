// A partition that another program wrote.
#include <nlohmann/json.hpp>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/nesting.h"
#include "parley/data/deal/deal.h"
#include "parley/data/read/labels.h"

namespace parley::deal {
namespace {

using nlohmann::json;

// One list of whole numbers below `bound`.
Rows read_list(const json& value, std::size_t bound, const std::string& where) {
  if (!value.is_array()) fail("{}: expected a list of row numbers, found {}", where, value.type_name());
  Rows rows;
  rows.reserve(value.size());
  for (const auto& item : value) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() >= bound) {
      fail("{}: {} is out of range; expected whole numbers from 0 to {}", where, item.dump(),
           static_cast<std::int64_t>(bound) - 1);
    }
    rows.push_back(item.get<std::uint32_t>());
  }
  return rows;
}

// A list of lists, or an object whose keys are 0 to K − 1.
std::vector<Rows> read_lists(const json& value, std::size_t bound, const std::string& name) {
  if (!value.is_array() && !value.is_object()) {
    fail("{}: expected {{\"0\": [rows…], \"1\": […]}} or a list of lists, found {}", name, value.type_name());
  }
  std::vector<Rows> lists(value.size());
  if (value.is_array()) {
    for (std::size_t k = 0; k < lists.size(); ++k) {
      lists[k] = read_list(value[k], bound, fmt::format("{}: client {}", name, k));
    }
    return lists;
  }
  std::vector<bool> seen(lists.size());
  for (const auto& [key, item] : value.items()) {
    const std::int32_t k = natural_number(key);
    // "01" beside "1" would be the same client twice.
    if (k < 0 || static_cast<std::size_t>(k) >= lists.size() || seen[static_cast<std::size_t>(k)]) {
      fail(
          "{}: client '{}': expected the clients 0 to {}, each once; give a client without rows an "
          "empty list",
          name, key, lists.size() - 1);
    }
    seen[static_cast<std::size_t>(k)] = true;
    lists[static_cast<std::size_t>(k)] = read_list(item, bound, fmt::format("{}: client {}", name, key));
  }
  return lists;
}

void refuse_shared(const RowLists& clients, std::size_t rows, const std::string& name) {
  constexpr std::size_t kNobody = SIZE_MAX;
  std::vector<std::size_t> owner(rows, kNobody);
  for (std::size_t k = 0; k < clients.size(); ++k) {
    for (const auto row : clients[k]) {
      if (owner[row] != kNobody) {
        fail(
            "{}: row {} is held by client {} and by client {}; set partition.allow_shared = true "
            "if that is meant",
            name, row, owner[row], k);
      }
      owner[row] = k;
    }
  }
}

void check_permutations(const Partition& partition, std::size_t features, const std::string& name) {
  if (partition.permutations.size() != partition.clients.size()) {
    fail("{}: {} for {}; expected one each", name, counted(partition.permutations.size(), "permutation"),
         counted(partition.clients.size(), "client"));
  }
  for (std::size_t k = 0; k < partition.permutations.size(); ++k) {
    std::vector<bool> seen(features);
    for (const auto j : partition.permutations[k]) seen[j] = true;
    if (partition.permutations[k].size() != features || std::find(seen.begin(), seen.end(), false) != seen.end()) {
      fail("{}: permutation of client {}: expected each of the {} features once", name, k, features);
    }
  }
}

}  // namespace

Partition from_file(const Dataset& data, const Options& options, Stream&) {
  const std::string& path = options.text("path");
  if (path.empty()) fail("partition.path: empty; expected the JSON file with the rows of each client");
  json root;
  try {
    const std::string text = read_file(path);
    refuse_deep_json(text, path);
    root = json::parse(text);
  } catch (const InputError& error) {
    fail("partition.path: {}", error.what());
  } catch (const json::exception& error) {
    fail("{}: not valid JSON: {}", path, error.what());
  }
  Partition partition;
  const bool nested = root.is_object() && root.contains("clients");
  partition.clients = RowLists(read_lists(nested ? root["clients"] : root, data.size(), path));
  if (partition.clients.empty()) fail("{}: no clients; expected at least one", path);
  if (!options.flag("allow_shared")) refuse_shared(partition.clients, data.size(), path);
  if (nested && root.contains("permutations")) {
    partition.permutations = read_lists(root["permutations"], data.features(), path + ": permutations");
    check_permutations(partition, data.features(), path);
  }
  return partition;
}

}  // namespace parley::deal
