#include "parley/data/source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "parley/base/counted.h"
#include "parley/data/locate.h"
#include "parley/data/normalize.h"
#include "parley/data/read/labels.h"
#include "parley/data/select.h"
#include "parley/tensor/layout.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

std::vector<std::int32_t> checked_users(std::vector<std::int32_t> users, std::size_t rows, const fs::path& path,
                                        const char* key) {
  if (!users.empty() && users.size() != rows) {
    fail("{}: data.{}: expected one user for each of {}, found {}", path.string(), key, counted(rows, "row"),
         counted(users.size(), "line"));
  }
  return users;
}

// data.users and data.test_users replace the owners that the source gave, if any.
void give_users(const Options& options, const DataRoots& roots, Dataset& train, Dataset& test) {
  const std::string &train_file = options.text("users"), &test_file = options.text("test_users");
  if (train_file.empty() && test_file.empty()) return;
  if (train_file.empty()) fail("data.test_users is set but data.users is not; set both or neither");
  const fs::path train_path = locate(roots, train_file, "data.users");
  const fs::path test_path = test_file.empty() ? fs::path{} : locate(roots, test_file, "data.test_users");
  NumberedUsers users =
      number_users(read_users(train_path), test_file.empty() ? std::vector<std::string>{} : read_users(test_path));
  if (users.train.empty()) fail("{}: data.users: empty; expected one user per line", train_path.string());
  train.users = checked_users(std::move(users.train), train.size(), train_path, "users");
  test.users = checked_users(std::move(users.test), test.size(), test_path, "test_users");
}

void check_one(const Dataset& data, const std::string& part) {
  const std::string where = fmt::format("data set '{}', {} part", data.name, part);
  if (data.size() == 0) fail("{}: no rows; expected at least one", where);
  if (data.size() > UINT32_MAX) fail("{}: {} rows; expected at most 2³²", where, data.size());
  if (data.features() == 0) fail("{}: no features; expected at least one", where);
  const std::size_t values = std::visit([](const auto& v) { return v.size(); }, data.values);
  if (values != data.size() * data.features()) {
    fail("{}: expected {} rows × {} features, found {} values", where, data.size(), data.features(), values);
  }
  if (data.classes > 0) count_classes(data.labels, data.classes, where);
  if (!data.users.empty() && data.users.size() != data.size()) {
    fail("{}: expected {}, found {}", where, counted(data.size(), "user"), data.users.size());
  }
  const auto refuse_infinite = [&](std::span<const float> numbers, const char* what, std::size_t width) {
    const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
    if (bad == numbers.end()) return;
    const auto at = static_cast<std::size_t>(bad - numbers.begin());
    fail("{}: row {}, {} {}: {} is not a finite number; clean the data", where, at / width, what, at % width, *bad);
  };
  if (const auto* floats = std::get_if<Values<float>>(&data.values)) {
    refuse_infinite(*floats, "feature", data.features());
  }
  refuse_infinite(data.targets, "target", std::max<std::size_t>(data.target_size, 1));
}

// Classes that nobody declared are those up to the largest label. Where hardly any of them occurs, or hardly any occurs
// twice, the labels are something else: ids, codes with gaps, a price.
void check_classes(const Dataset& train, const Options& options) {
  if (train.classes == 0 || !options.has("classes") || options.integer("classes") > 0) return;
  constexpr std::size_t kMany = 20;  // a gap among few is no harm
  const std::set<std::int32_t> distinct(train.labels.begin(), train.labels.end());
  if (distinct.size() > kMany && 2 * distinct.size() > train.size()) {
    fail("data set '{}': {} different labels in {} rows; {}, or set data.classes = {} if they are classes", train.name,
         distinct.size(), train.size(),
         options.has("targets") ? "name a number to be predicted in data.targets" : "labels name classes",
         train.classes);
  }
  if (train.classes > kMany && 2 * distinct.size() < train.classes) {
    fail(
        "data set '{}': labels go up to {}, and only {} of {} classes occur; number them from 0 without gaps, or set "
        "data.classes = {}",
        train.name, train.classes - 1, distinct.size(), train.classes, train.classes);
  }
}

void check_pair(const Dataset& train, const Dataset& test) {
  if (train.shape != test.shape) {
    fail("data set '{}': training examples have the shape {}, test examples {}; expected the same", train.name,
         describe_shape(train.shape), describe_shape(test.shape));
  }
  if (train.classes != test.classes || train.target_size != test.target_size) {
    fail(
        "data set '{}': {} classes and {} targets in training, {} and {} in test; expected the "
        "same",
        train.name, train.classes, train.target_size, test.classes, test.target_size);
  }
}

// Where the examples are elsewhere there is nothing to check or to measure.
TrainTest without_rows(Dataset data, const Options& options) {
  data.name = options.text("name");
  const std::string kind = normalization(data, options.text("normalize"));
  const bool bytes = std::holds_alternative<Values<std::uint8_t>>(data.values);
  if (kind == "unit" && !bytes) {
    fail("data.normalize = \"unit\": there are no examples here to take the range from; use \"standard\" or \"none\"");
  }
  if (kind == "unit") data.transform = normalizer(data, kind);
  return share(data, data);
}

}  // namespace

DataRoots DataRoots::standard(const std::string& data_root) {
  DataRoots roots;
  if (!data_root.empty()) roots.folders.emplace_back(data_root);
  if (const char* folder = std::getenv("PARLEY_DATA"); folder != nullptr && *folder != '\0') {
    roots.folders.emplace_back(folder);
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    roots.folders.push_back(fs::path(home) / ".cache" / "parley");
  }
  roots.folders.emplace_back("/usr/local/share/datasets");
  roots.folders.emplace_back("/usr/share/datasets");
  return roots;
}

fs::path DataRoots::find(const fs::path& relative) const {
  std::error_code ignored;
  for (const auto& folder : folders) {
    if (fs::exists(folder / relative, ignored)) return folder / relative;
  }
  return {};
}

std::vector<Option> common_data_options() {
  return {
      {"name", std::string("mnist"), "the data set or file format; `parley list datasets` shows them"},
      {"root",
       std::string(),
       "a folder to look in first, before $PARLEY_DATA, ~/.cache/parley and the system's dataset "
       "folders",
       {},
       {},
       true},
      {"normalize",
       std::string("auto"),
       "how values become inputs: unit = bytes / 255, other numbers from their training range to "
       "[0, 1]; standard = "
       "mean 0 and deviation 1 per channel over the training set; none = as they are; auto = unit "
       "for bytes, standard for tables and for sensors' measurements, none for "
       "other numbers and for tokens",
       {},
       {"auto", "unit", "standard", "none"}},
      {"scale_targets", true,
       "regression: train on targets of mean 0 and deviation 1 over the training set; MAE and RMSE are given in the "
       "targets' own units, losses are not"},
      {"users", std::string(), "a file with the owner of each training row, one number or name per line"},
      {"test_users", std::string(), "the same for the test rows"},
      {"limit", std::int64_t{0},
       "use only the first N training rows (evenly spaced ones where rows are sorted by label); 0 "
       "= all",
       at_least(0)},
      {"test_limit", std::int64_t{0}, "the same for the test rows", at_least(0)},
  };
}

TrainTest load_data(const DatasetRegistry& registry, const Options& options, const DataRoots& roots) {
  const auto& entry = registry.at(options.text("name"));
  TrainTest loaded = entry.make(options, roots);
  if (entry.about.name == "elsewhere") return without_rows(*loaded.train, options);
  Dataset train = *loaded.train;
  loaded.train.reset();  // two copies of everything would be the peak of the whole run
  Dataset test = *loaded.test;
  loaded.test.reset();
  train.name = test.name = entry.about.name;
  give_users(options, roots, train, test);
  check_one(train, "training");
  check_one(test, "test");
  check_classes(train, options);
  check_pair(train, test);
  train = limit_rows(std::move(train), static_cast<std::size_t>(options.integer("limit")));
  test = limit_rows(std::move(test), static_cast<std::size_t>(options.integer("test_limit")));
  if (options.flag("scale_targets") && train.target_size > 0) standardize_targets(train, test);
  train.transform = normalizer(train, options.text("normalize"));
  test.transform = train.transform;
  return share(std::move(train), std::move(test));
}

}  // namespace parley
