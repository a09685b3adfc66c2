#include "parley/data/read/labels.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"

namespace parley {
namespace {

// A label this large is a user id, a hash or a price; a model with so many outputs would only
// exhaust the memory.
constexpr std::int32_t kMostClasses = 1'000'000;

}  // namespace

std::size_t count_classes(std::span<const std::int32_t> labels, std::size_t classes, const std::string& name) {
  const auto limit = classes > 0 ? static_cast<std::int32_t>(classes) : kMostClasses;
  std::int32_t largest = -1;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= limit) {
      fail("{}: row {}: label {} is out of range; expected 0 to {}", name, i, labels[i], limit - 1);
    }
    largest = std::max(largest, labels[i]);
  }
  return classes > 0 ? classes : static_cast<std::size_t>(largest + 1);
}

std::int32_t natural_number(std::string_view text) {
  std::int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 0 ? value : -1;
}

std::vector<std::string> read_users(const std::filesystem::path& path) {
  const std::string text = read_unpacked(path);
  std::vector<std::string> users;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string user = text.substr(begin, end - begin);
    if (!user.empty() && user.back() == '\r') user.pop_back();
    if (user.empty()) {
      fail("{}:{}: empty line; expected one user per line", path.string(), users.size() + 1);
    }
    users.push_back(std::move(user));
    begin = end + 1;
  }
  return users;
}

NumberedUsers number_users(const std::vector<std::string>& train, const std::vector<std::string>& test) {
  const auto is_number = [](const std::string& user) { return natural_number(user) >= 0; };
  const bool numbers =
      std::all_of(train.begin(), train.end(), is_number) && std::all_of(test.begin(), test.end(), is_number);
  std::unordered_map<std::string, std::int32_t> seen;
  const auto number = [&](const std::vector<std::string>& users) {
    std::vector<std::int32_t> result;
    result.reserve(users.size());
    for (const auto& user : users) {
      result.push_back(numbers ? natural_number(user)
                               : seen.emplace(user, static_cast<std::int32_t>(seen.size())).first->second);
    }
    return result;
  };
  NumberedUsers result;
  result.train = number(train);
  result.test = number(test);
  return result;
}

}  // namespace parley
