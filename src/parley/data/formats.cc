// Data sets by file format.
#include "parley/data/formats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <stdexcept>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/data/locate.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/csv.h"
#include "parley/data/read/idx.h"
#include "parley/data/read/images.h"
#include "parley/data/read/labels.h"
#include "parley/data/read/leaf.h"
#include "parley/data/read/npy.h"
#include "parley/data/split.h"
#include "parley/tensor/layout.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

std::size_t declared_classes(const Options& options) {
  return static_cast<std::size_t>(options.integer("classes"));
}

// data.shape, when given, says how the features of a row are laid out.
void reshape(Dataset& data, const Options& options) {
  const auto& shape = options.integers("shape");
  if (shape.empty()) return;
  if (checked_product(shape, "data.shape") != data.features()) {
    fail("data.shape: {} does not have the {} features of a row; expected extents whose product is {}",
         describe_shape(shape), data.features(), data.features());
  }
  data.shape = shape;
}

// One number of classes for both parts, so that a class that only one of them shows is no
// contradiction.
void agree_on_classes(Dataset& train, const std::string& train_name, Dataset& test, const std::string& test_name,
                      std::size_t declared) {
  train.classes = count_classes(train.labels, declared, train_name);
  if (!test.labels.empty()) {
    test.classes = count_classes(test.labels, declared, test_name);
    train.classes = test.classes = std::max(train.classes, test.classes);
  }
}

// ── csv ──

Dataset from_csv(CsvTable table, std::size_t target_size) {
  Dataset data;
  data.shape = {static_cast<std::int64_t>(table.features.size())};
  data.values = std::move(table.values);
  data.targets = std::move(table.targets);
  data.target_size = target_size;
  data.content = Content::measurements;
  return data;
}

// A category's number means something only beside the other categories.
std::vector<std::string> columns_of(const CsvTable& table, const CsvCoding& coding,
                                    const std::vector<std::string>& targets) {
  std::vector<std::string> columns = table.features;
  for (std::size_t i = 0; coding.reading.categories == CsvReading::Categories::codes && i < columns.size(); ++i) {
    const auto& categories = coding.features[i].categories;
    if (!categories.empty()) columns[i] += fmt::format(" ({})", fmt::join(std::views::keys(categories), ", "));
  }
  columns.insert(columns.end(), targets.begin(), targets.end());
  return columns;
}

CsvReading reading_of(const Options& options) {
  static const std::map<std::string, char, std::less<>> separators{
      {"auto", '\0'}, {"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"bar", '|'}};
  const std::string& missing = options.text("missing");
  return {.separator = separators.at(options.text("separator")),
          .categories =
              options.text("categories") == "codes" ? CsvReading::Categories::codes : CsvReading::Categories::one_hot,
          .missing = missing == "mean"   ? CsvReading::Missing::mean
                     : missing == "drop" ? CsvReading::Missing::drop
                                         : CsvReading::Missing::refuse};
}

void check_same_features(const CsvTable& train, const CsvTable& test, const fs::path& path) {
  if (train.features != test.features) {
    fail(
        "{}:1: the feature columns differ from the training file's; expected the same names in the "
        "same order",
        path.string());
  }
}

// ── npy ──

std::vector<std::int32_t> labels_of(const std::vector<std::int64_t>& values, const std::string& name) {
  std::vector<std::int32_t> labels;
  labels.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > std::numeric_limits<std::int32_t>::max()) {
      fail("{}: row {}: label {} is out of range; expected whole numbers from 0", name, i, values[i]);
    }
    labels.push_back(static_cast<std::int32_t>(values[i]));
  }
  return labels;
}

void set_npy_inputs(Dataset& data, NpyArray x, const std::string& name) {
  if (x.shape.size() < 2) {
    fail("{}: expected rows × features or more extents, found {}", name, describe_shape(x.shape));
  }
  data.shape.assign(x.shape.begin() + 1, x.shape.end());
  if (auto* bytes = std::get_if<std::vector<std::uint8_t>>(&x.values)) data.values = std::move(*bytes);
  if (auto* floats = std::get_if<std::vector<float>>(&x.values)) data.values = std::move(*floats);
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&x.values)) {
    std::vector<float> floats(numbers->size());
    std::transform(numbers->begin(), numbers->end(), floats.begin(), [](auto n) { return static_cast<float>(n); });
    data.values = std::move(floats);
  }
}

// Whole numbers {n} are labels; floats {n} or {n, k} are regression targets.
void set_npy_outputs(Dataset& data, NpyArray y, const std::string& name) {
  if (auto* floats = std::get_if<std::vector<float>>(&y.values)) {
    if (y.shape.size() != 1 && y.shape.size() != 2) {
      fail("{}: expected targets {{n}} or {{n, k}}, found {}", name, describe_shape(y.shape));
    }
    data.target_size = y.shape.size() == 2 ? static_cast<std::size_t>(y.shape[1]) : 1;
    if (data.target_size == 0) fail("{}: no targets; expected at least one per row", name);
    data.targets = std::move(*floats);
    return;
  }
  if (y.shape.size() != 1 && !(y.shape.size() == 2 && y.shape[1] == 1)) {
    fail("{}: expected labels {{n}}, found {}", name, describe_shape(y.shape));
  }
  if (const auto* bytes = std::get_if<std::vector<std::uint8_t>>(&y.values)) {
    data.labels.assign(bytes->begin(), bytes->end());
  } else {
    data.labels = labels_of(std::get<std::vector<std::int64_t>>(y.values), name);
  }
}

Dataset read_npy_pair(const fs::path& x_path, const fs::path& y_path) {
  NpyArray x = read_npy(x_path), y = read_npy(y_path);
  const std::int64_t x_rows = x.shape.empty() ? 0 : x.shape[0], y_rows = y.shape.empty() ? 0 : y.shape[0];
  if (x_rows != y_rows) {
    fail("{}: {} rows, but {} has {}; expected as many", y_path.string(), y_rows, x_path.string(), x_rows);
  }
  Dataset data;
  set_npy_inputs(data, std::move(x), x_path.string());
  set_npy_outputs(data, std::move(y), y_path.string());
  return data;
}

fs::path inside(const fs::path& folder, const std::string& file, const std::string& key) {
  const fs::path found = plain_or_gz(folder / file);
  if (found.empty()) fail("{}: no such file: {}; set data.{}", (folder / file).string(), file, key);
  return found;
}

// ── leaf ──

Dataset from_leaf(LeafTable& table) {
  Dataset data;
  data.shape = {static_cast<std::int64_t>(table.features)};
  data.values = std::move(table.values);
  data.labels = std::move(table.labels);
  return data;
}

// ── synthetic ──

// Rows of Gaussian blobs around the given centres; labels in turn, so that every class has its
// share.
Dataset blobs(const std::vector<std::vector<float>>& centres, std::size_t rows, const Options& options, Stream stream) {
  const std::size_t features = centres[0].size(), classes = centres.size();
  const auto owners = static_cast<std::uint64_t>(options.integer("owners"));
  const double noise = options.real("noise");
  Dataset data;
  data.shape = {static_cast<std::int64_t>(features)};
  data.classes = classes;
  std::vector<float> values(rows * features);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t label = i % classes;
    data.labels.push_back(static_cast<std::int32_t>(label));
    for (std::size_t j = 0; j < features; ++j) {
      values[i * features + j] = centres[label][j] + static_cast<float>(noise * stream.normal());
    }
    if (owners > 0) data.users.push_back(static_cast<std::int32_t>(stream.below(owners)));
  }
  data.values = std::move(values);
  return data;
}

}  // namespace

TrainTest load_idx(const Options& options, const DataRoots& roots) {
  const fs::path folder = locate(roots, options.text("path"), "data.path");
  const auto file = [&](const char* key) { return inside(folder, options.text(key), key); };
  const std::size_t classes = declared_classes(options);
  Dataset train = read_idx_pair(file("train_images"), file("train_labels"), classes);
  Dataset test = read_idx_pair(file("test_images"), file("test_labels"), classes);
  train.classes = test.classes = std::max(train.classes, test.classes);
  return share(std::move(train), std::move(test));
}

TrainTest load_csv(const Options& options, const DataRoots& roots) {
  const auto& targets = options.texts("targets");
  const CsvColumns columns{.label = targets.empty() ? options.text("label") : "",
                           .user = options.text("user_column"),
                           .targets = targets,
                           .ignored = options.texts("ignore")};
  if (targets.empty() && columns.label.empty()) {
    fail(
        "data.label: empty, and so is data.targets; expected the label column or the regression "
        "targets");
  }
  const fs::path path = locate(roots, options.text("path"), "data.path");
  const std::string text = read_csv_text(path);
  const CsvCoding coding = learn_csv(text, columns, reading_of(options), path.string());
  CsvTable train_table = parse_csv(text, columns, coding, path.string()), test_table;
  fs::path test_path = path;
  const bool has_test = !options.text("test_path").empty();
  if (has_test) {
    test_path = locate(roots, options.text("test_path"), "data.test_path");
    test_table = parse_csv(read_csv_text(test_path), columns, coding, test_path.string());
    check_same_features(train_table, test_table, test_path);
  }
  CsvClasses classes = number_labels(train_table, path.string(), test_table, test_path.string());
  NumberedUsers users = number_users(train_table.users, test_table.users);
  std::vector<std::string> names = columns_of(train_table, coding, targets);
  Dataset train = from_csv(std::move(train_table), targets.size());
  Dataset test = from_csv(std::move(test_table), targets.size());
  train.labels = std::move(classes.train);
  test.labels = std::move(classes.test);
  train.users = std::move(users.train);
  test.users = std::move(users.test);
  train.class_names = test.class_names = classes.names;
  train.columns = test.columns = std::move(names);
  if (targets.empty()) {
    agree_on_classes(train, path.string(), test, test_path.string(),
                     std::max(declared_classes(options), classes.names.size()));
  }
  reshape(train, options);
  if (!has_test) return split_rows(train, options);
  reshape(test, options);
  return share(std::move(train), std::move(test));
}

TrainTest load_npy(const Options& options, const DataRoots& roots) {
  const fs::path folder = locate(roots, options.text("path"), "data.path");
  const auto file = [&](const char* key) { return inside(folder, options.text(key), key); };
  const bool has_test = !options.text("test_x").empty();
  if (has_test != !options.text("test_y").empty()) fail("data.test_x and data.test_y: set both or neither");
  const fs::path labels = file("train_y");
  Dataset train = read_npy_pair(file("train_x"), labels), test;
  if (has_test) test = read_npy_pair(file("test_x"), file("test_y"));
  if (train.target_size == 0) {
    agree_on_classes(train, labels.string(), test, options.text("test_y"), declared_classes(options));
  }
  reshape(train, options);
  if (!has_test) return split_rows(train, options);
  reshape(test, options);
  return share(std::move(train), std::move(test));
}

TrainTest load_images(const Options& options, const DataRoots& roots) {
  const fs::path folder = locate(roots, options.text("path"), "data.path");
  if (!fs::is_directory(folder / "train")) {
    fail("{}: no folder 'train' here; expected train/<class>/*.jpg|png and test/<class>/…", folder.string());
  }
  Dataset train = read_image_folder(folder / "train", {}, image_workers());
  if (!fs::is_directory(folder / "test")) return split_rows(train, options);
  Dataset test = read_image_folder(folder / "test", train.class_names, image_workers());
  return share(std::move(train), std::move(test));
}

TrainTest load_leaf(const Options& options, const DataRoots& roots) {
  const fs::path path = locate(roots, options.text("path"), "data.path");
  const bool has_test = fs::is_directory(path / "test");
  const fs::path train_path = fs::is_directory(path / "train") ? path / "train" : path;
  LeafTable train_table = read_leaf(train_path), test_table;
  if (has_test) test_table = read_leaf(path / "test");
  NumberedUsers users = number_users(train_table.users, test_table.users);
  Dataset train = from_leaf(train_table), test = from_leaf(test_table);
  train.users = std::move(users.train);
  test.users = std::move(users.test);
  agree_on_classes(train, train_path.string(), test, (path / "test").string(), declared_classes(options));
  reshape(train, options);
  if (!has_test) return split_rows(train, options);
  reshape(test, options);
  return share(std::move(train), std::move(test));
}

TrainTest load_elsewhere(const Options& options, const DataRoots&) {
  Dataset data;
  data.shape = options.integers("shape");
  data.classes = static_cast<std::size_t>(options.integer("classes"));
  data.target_size = static_cast<std::size_t>(options.integer("target_size"));
  if (data.shape.empty()) fail("data.shape: empty; expected the shape of the nodes' examples, for example [1, 28, 28]");
  if ((data.classes > 0) == (data.target_size > 0)) {
    fail("data.classes = {}, data.target_size = {}: expected one of them, as the nodes' data have it", data.classes,
         data.target_size);
  }
  if (options.text("values") == "bytes") {
    data.values = std::vector<std::uint8_t>();
  } else {
    data.values = std::vector<float>();
    data.content = Content::measurements;
  }
  return share(data, data);
}

TrainTest load_synthetic(const Options& options, const DataRoots&) {
  const auto seed = static_cast<std::uint64_t>(options.integer("seed"));
  const auto size = [&](const char* key) { return static_cast<std::size_t>(options.integer(key)); };
  // What no memory can hold is refused now, not after an hour of drawing.
  constexpr std::size_t kMostNumbers = std::size_t{1} << 38;  // a terabyte
  if (size("rows") * size("features") > kMostNumbers) throw std::length_error("more rows than any machine holds");
  std::vector<float>().reserve(size("rows") * size("features"));
  // Centres lie on a sphere, so that `separation` alone says how far apart the classes are.
  Stream stream(seed, "data.synthetic.centres");
  std::vector<std::vector<float>> centres(size("classes"), std::vector<float>(size("features")));
  for (auto& centre : centres) {
    double norm = 0;
    for (auto& x : centre) {
      x = static_cast<float>(stream.normal());
      norm += static_cast<double>(x) * static_cast<double>(x);
    }
    for (auto& x : centre) x *= static_cast<float>(options.real("separation") / std::sqrt(norm));
  }
  Dataset train = blobs(centres, size("rows"), options, Stream(seed, "data.synthetic.train"));
  Dataset test = blobs(centres, size("test_rows"), options, Stream(seed, "data.synthetic.test"));
  reshape(train, options);
  reshape(test, options);
  return share(std::move(train), std::move(test));
}

}  // namespace parley
