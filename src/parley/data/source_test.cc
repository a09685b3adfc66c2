#include "parley/data/source.h"

#include <cmath>
#include <set>

#include "parley/data/test_source.h"

namespace parley {
namespace {

TEST(Registry, NoEntryRepeatsACommonOption) {
  std::set<std::string> common;
  for (const auto& option : common_data_options()) common.insert(option.key);
  const DatasetRegistry registry = datasets();
  for (const auto& entry : registry.entries()) {
    std::set<std::string> own;
    for (const auto& option : entry.about.options) {
      EXPECT_FALSE(common.contains(option.key)) << entry.about.name << "." << option.key;
      EXPECT_TRUE(own.insert(option.key).second) << entry.about.name << "." << option.key;
      EXPECT_FALSE(option.meaning.empty());
    }
    EXPECT_FALSE(entry.about.summary.empty());
  }
  expect_refusal([] { datasets().at("minst"); }, {"unknown data set 'minst'", "did you mean 'mnist'"});
}

TEST(Synthetic, IsDeterministicByItsSeedAndSeparable) {
  Options options = options_for("synthetic");
  options.set("classes", std::int64_t{3});
  options.set("shape", std::vector<std::int64_t>{4, 5});
  options.set("owners", std::int64_t{7});
  const TrainTest a = load(options, {}), b = load(options, {});
  EXPECT_EQ(a.train->values, b.train->values);
  EXPECT_EQ(a.train->size(), 1000u);
  EXPECT_EQ(a.test->size(), 500u);
  EXPECT_EQ(a.train->shape, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(a.train->users.size(), 1000u);
  options.set("seed", std::int64_t{1});
  EXPECT_NE(load(options, {}).train->values, a.train->values);
  options.set("shape", std::vector<std::int64_t>{3, 5});
  expect_refusal([&] { load(options, {}); }, {"data.shape", "20"});
}

TEST(LoadData, LimitsNormalisesAndGivesUsers) {
  const TestFolder folder;
  std::string users;
  for (int i = 0; i < 1000; ++i) users += i % 2 == 0 ? "ann\n" : "bob\n";
  folder.write("users.txt", users);
  Options options = options_for("synthetic");
  options.set("users", std::string("users.txt"));
  options.set("limit", std::int64_t{10});
  options.set("test_limit", std::int64_t{3});
  options.set("normalize", std::string("standard"));
  const TrainTest data = load(options, only(folder));
  EXPECT_EQ(data.train->size(), 10u);
  EXPECT_EQ(data.test->size(), 3u);
  EXPECT_EQ(data.train->users, (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(data.train->transform.scale.size(), 20u);
  EXPECT_EQ(data.train->transform.scale, data.test->transform.scale);
  folder.write("users.txt", "ann\n");
  expect_refusal([&] { load(options, only(folder)); }, {"users.txt", "1000 rows", "found 1"});
  options.set("users", std::string("absent.txt"));
  expect_refusal([&] { load(options, only(folder)); }, {"data.users", "absent.txt", folder.path().string()});
  options.set("users", std::string());
  options.set("test_users", std::string("users.txt"));
  expect_refusal([&] { load(options, only(folder)); }, {"data.test_users", "set both"});
}

// A source that lies is caught by load_data, whoever wrote the source.
TEST(LoadData, ChecksWhatASourceReturns) {
  const auto refuse = [](auto spoil, std::initializer_list<std::string_view> pieces) {
    Dataset train;
    train.shape = {2};
    train.values = std::vector<float>{1, 2, 3, 4};
    train.labels = {0, 1};
    train.classes = 2;
    Dataset test = train;
    spoil(train, test);
    DatasetRegistry registry("data set");
    registry.add({"fake", "", "", {}}, [&](const Options&, const DataRoots&) {
      return TrainTest{std::make_shared<const Dataset>(train), std::make_shared<const Dataset>(test)};
    });
    Options options("data", common_data_options());
    options.set("name", std::string("fake"));
    expect_refusal([&] { load_data(registry, options, {}); }, pieces);
  };
  refuse([](Dataset& train, Dataset&) { train.labels[1] = 2; }, {"fake", "training", "row 1", "label 2"});
  refuse(
      [](Dataset&, Dataset& test) {
        test.values = std::vector<float>{1, 2, 3, NAN};
      },
      {"fake", "test", "row 1, feature 1", "finite"});
  refuse([](Dataset& train, Dataset&) { train.values = std::vector<float>{1, 2, 3}; }, {"fake", "3 values"});
  refuse([](Dataset&, Dataset& test) { test.shape = {1, 2}; }, {"fake", "shape"});
  refuse([](Dataset&, Dataset& test) { test.classes = 3; }, {"fake", "classes"});
  refuse([](Dataset&, Dataset& test) { test.labels.clear(); }, {"fake", "test", "no rows"});
  refuse([](Dataset& train, Dataset&) { train.users = {1}; }, {"fake", "2 users"});
}

TEST(Named, MissingSaysWhereItLookedAndWhatToDo) {
  const TestFolder folder;
  const std::string root = folder.path().string();
  expect_refusal(
      [&] { load(options_for("mnist"), only(folder)); },
      {"'mnist' was not found", root, "mnist/train-images-idx3-ubyte[.gz]", "MNIST/raw", "parley data get mnist"});
  expect_refusal([&] { load(options_for("fashion-mnist"), only(folder)); },
                 {root, "apt install dataset-fashion-mnist", "parley data get fashion-mnist"});
  expect_refusal([&] { load(options_for("cifar10"), only(folder)); },
                 {root, "cifar-10-batches-bin/data_batch_1.bin", "cifar10_jpeg", "parley data get cifar10"});
}

std::string idx_labels(const std::string& values) {
  std::string bytes("\0\0\x08\x01\0\0\0", 7);
  return bytes + static_cast<char>(values.size()) + values;
}
std::string idx_images(std::size_t count) {
  std::string bytes("\0\0\x08\x03\0\0\0", 7);
  bytes += static_cast<char>(count);
  bytes += std::string("\0\0\0\x02\0\0\0\x01", 8);
  return bytes + std::string(count * 2, 'p');
}

void write_mnist(const TestFolder& folder, const std::string& where) {
  folder.write_gz(where + "/train-images-idx3-ubyte.gz", idx_images(3));
  folder.write(where + "/train-labels-idx1-ubyte", idx_labels(std::string("\x07\x02\x01", 3)));
  folder.write(where + "/t10k-images-idx3-ubyte", idx_images(1));
  folder.write_gz(where + "/t10k-labels-idx1-ubyte.gz", idx_labels(std::string("\x09", 1)));
}

TEST(Named, MnistInEitherLayoutPlainOrPacked) {
  for (const char* where : {"mnist", "MNIST/raw"}) {
    const TestFolder folder;
    write_mnist(folder, where);
    const TrainTest data = load(options_for("mnist"), only(folder));
    EXPECT_EQ(data.train->size(), 3u);
    EXPECT_EQ(data.train->classes, 10u);
    EXPECT_EQ(data.test->labels[0], 9);
    std::filesystem::remove(folder.path() / where / "train-labels-idx1-ubyte");
    expect_refusal([&] { load(options_for("mnist"), only(folder)); }, {where, "no train-labels-idx1-ubyte"});
  }
}

TEST(Named, WritersMustMatchTheDigits) {
  const TestFolder folder;
  write_mnist(folder, "mnist");
  folder.write("mnist_by_writer/qmnist-test-labels.tsv", "9\t4\t20\t0\t0\t0\t0\t0\n1\t4\t20\t0\t0\t0\t0\t0\n");
  const auto train_rows = [&](const std::string& rows) {
    folder.write_gz("mnist_by_writer/qmnist-train-labels.tsv.gz", rows);
  };
  const auto refuse = [&](std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { load(options_for("digits_by_writer"), only(folder)); }, pieces);
  };
  refuse({"digits_by_writer", "mnist_by_writer/qmnist-train-labels.tsv"});
  const std::string good = "7\t4\t11\t0\t0\t0\t0\t0\n2\t4\t11\t1\t0\t0\t0\t0\n";
  train_rows(good);
  refuse({"tsv.gz", "truncated", "expected 3", "found 2"});
  train_rows(good + "3\t4\t11\t0\t0\t0\t0\t0\n");
  refuse({"tsv.gz:3", "class 3", "label is 1"});
  train_rows(good + "1\t4\n");
  refuse({"tsv.gz:3", "tabs"});
  train_rows(good + "1\t4\tx\t0\t0\t0\t0\t0\n");
  refuse({"tsv.gz:3", "writer"});
  train_rows(good + "1\t4\t12\t0\t0\t0\t0\t0\n");
  Options options = options_for("digits_by_writer");
  EXPECT_EQ(load(options, only(folder)).train->users, (std::vector<std::int32_t>{11, 11, 12}));
  options.set("split", std::string("rows"));
  options.set("test_fraction", 0.5);
  const TrainTest held_out = load(options, only(folder));
  EXPECT_EQ(held_out.train->users, (std::vector<std::int32_t>{11, 12}));
  EXPECT_EQ(held_out.test->users, (std::vector<std::int32_t>{11}));
}

TEST(Format, Idx) {
  const TestFolder folder;
  write_mnist(folder, "mine");
  Options options = options_for("idx");
  options.set("path", std::string("mine"));
  EXPECT_EQ(load(options, only(folder)).train->classes, 10u);  // the test part has a 9
  options.set("classes", std::int64_t{8});
  expect_refusal([&] { load(options, only(folder)); }, {"t10k-labels", "label 9", "0 to 7"});
  options.set("test_images", std::string("absent"));
  expect_refusal([&] { load(options, only(folder)); }, {"absent", "data.test_images"});
  options.set("path", std::string());
  expect_refusal([&] { load(options, only(folder)); }, {"data.path", "empty"});
}

TEST(Format, ElsewhereHasAShapeAndNoRows) {
  const TestFolder folder;
  Options options = options_for("elsewhere");
  expect_refusal([&] { load(options, only(folder)); }, {"data.shape", "[1, 28, 28]"});
  options.set("shape", std::vector<std::int64_t>{3});
  expect_refusal([&] { load(options, only(folder)); }, {"data.classes = 0", "data.target_size = 0", "one of them"});
  options.set("classes", std::int64_t{4});
  const TrainTest data = load(options, only(folder));
  EXPECT_EQ(data.train->size(), 0u);
  EXPECT_EQ(data.train->classes, 4u);
  EXPECT_TRUE(data.train->transform.scale.empty());
  options.set("normalize", std::string("unit"));
  expect_refusal([&] { load(options, only(folder)); }, {"data.normalize", "no examples here"});
  options.set("values", std::string("bytes"));
  EXPECT_EQ(load(options, only(folder)).train->transform.scale, std::vector<float>{1.0f / 255.0f});
}

TEST(Format, CsvColumnsSayWhatACategorysNumberMeans) {
  const TestFolder folder;
  folder.write("train.csv", "sex,age,label\nm,1,0\nf,2,1\nm,3,0\nf,4,1\n");
  Options options = options_for("csv");
  options.set("path", (folder.path() / "train.csv").string());
  EXPECT_EQ(load(options, only(folder)).train->columns, (std::vector<std::string>{"sex=f", "sex=m", "age"}));
  options.set("categories", std::string("codes"));
  EXPECT_EQ(load(options, only(folder)).train->columns, (std::vector<std::string>{"sex (f, m)", "age"}));
}

TEST(Format, CsvClassificationAndRegression) {
  const TestFolder folder;
  folder.write("train.csv", "a,b,label,who,t\n1,2,cat,u1,0.5\n3,4,dog,u2,1.5\n5,6,cat,u1,2.5\n");
  folder.write("test.csv", "a,b,label,who,t\n1,2,dog,u3,0.5\n");
  Options options = options_for("csv");
  options.set("path", (folder.path() / "train.csv").string());
  options.set("test_path", std::string("test.csv"));
  options.set("user_column", std::string("who"));
  options.set("ignore", std::vector<std::string>{"t"});
  const TrainTest data = load(options, only(folder));
  EXPECT_EQ(data.train->class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.train->columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.test->labels, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(data.train->users, (std::vector<std::int32_t>{0, 1, 0}));
  EXPECT_EQ(data.test->users, (std::vector<std::int32_t>{2}));

  options.set("targets", std::vector<std::string>{"t"});
  options.set("ignore", std::vector<std::string>{"label"});
  options.set("test_path", std::string());
  const TrainTest regression = load(options, only(folder));
  EXPECT_EQ(regression.train->classes, 0u);
  EXPECT_EQ(regression.train->columns, (std::vector<std::string>{"a", "b", "t"}));
  EXPECT_EQ(regression.train->size(), 2u);
  EXPECT_EQ(regression.test->size(), 1u);

  // 0.5 and two of 1.5, 2.5 or 0.5, whichever were kept: mean 0, deviation 1.
  const auto& targets = regression.train->targets;
  EXPECT_NEAR(targets[0], -targets[1], 1e-6);
  EXPECT_NEAR(std::abs(targets[0]), 1.0, 1e-6);
  const Affine& transform = regression.train->target_transform;
  EXPECT_EQ(regression.test->target_transform.scale, transform.scale);
  const float own = (regression.test->targets[0] - transform.shift[0]) / transform.scale[0];
  EXPECT_NEAR(std::remainder(own - 0.5f, 1.0f), 0.0f, 1e-5);
  options.set("scale_targets", false);
  EXPECT_TRUE(load(options, only(folder)).train->target_transform.scale.empty());

  folder.write("test.csv", "b,a,label,who,t\n1,2,dog,u3,0.5\n");
  options.set("test_path", std::string("test.csv"));
  expect_refusal([&] { load(options, only(folder)); }, {"test.csv:1", "differ"});
  options.set("label", std::string());
  options.set("targets", std::vector<std::string>{});
  expect_refusal([&] { load(options, only(folder)); }, {"data.label", "data.targets"});
}

std::string npy(const std::string& dtype, const std::string& shape, const std::string& values) {
  const std::string dict = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + "}";
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(dict.size()) + '\0' + dict + values;
}

TEST(Format, NpyKeepsBytesAndTellsLabelsFromTargets) {
  const TestFolder folder;
  folder.write("d/x.npy", npy("|u1", "(4, 2, 1)", "abcdefgh"));
  folder.write("d/y.npy", npy("|u1", "(4,)", std::string("\0\x01\x02\0", 4)));
  folder.write("d/t.npy", npy("<f4", "(4, 1)", std::string(16, '\0')));
  folder.write("d/short.npy", npy("|u1", "(3,)", std::string("\0\x01\x02", 3)));
  folder.write("d/negative.npy", npy("<i4", "(4,)", std::string(16, '\xff')));
  Options options = options_for("npy");
  options.set("path", std::string("d"));
  options.set("test_fraction", 0.5);
  const TrainTest data = load(options, only(folder));
  EXPECT_TRUE(std::holds_alternative<Values<std::uint8_t>>(data.train->values));
  EXPECT_EQ(data.train->size(), 2u);
  EXPECT_EQ(data.train->classes, 3u);
  options.set("train_y", std::string("t.npy"));
  EXPECT_EQ(load(options, only(folder)).train->target_size, 1u);
  options.set("train_y", std::string("short.npy"));
  expect_refusal([&] { load(options, only(folder)); }, {"short.npy", "3 rows", "4"});
  options.set("train_y", std::string("negative.npy"));
  expect_refusal([&] { load(options, only(folder)); }, {"negative.npy", "label -1"});
  options.set("train_y", std::string("x.npy"));
  expect_refusal([&] { load(options, only(folder)); }, {"x.npy", "expected labels"});
  options.set("train_x", std::string("y.npy"));
  options.set("train_y", std::string("y.npy"));
  expect_refusal([&] { load(options, only(folder)); }, {"y.npy", "rows × features"});
  options.set("test_x", std::string("x.npy"));
  expect_refusal([&] { load(options, only(folder)); }, {"data.test_y", "both"});
}

TEST(Format, LeafSharesUsersBetweenTrainAndTest) {
  const TestFolder folder;
  folder.write("leaf/train/a.json", R"({"users": ["x", "y"], "num_samples": [1, 1], "user_data":
    {"x": {"x": [[1, 2]], "y": [0]}, "y": {"x": [[3, 4]], "y": [1]}}})");
  folder.write("leaf/test/a.json",
               R"({"users": ["y"], "num_samples": [1], "user_data": {"y": {"x": [[5, 6]], "y": [2]}}})");
  Options options = options_for("leaf");
  options.set("path", std::string("leaf"));
  const TrainTest data = load(options, only(folder));
  EXPECT_EQ(data.train->users, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(data.test->users, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(data.train->classes, 3u);
  options.set("path", std::string("leaf/train/a.json"));
  EXPECT_EQ(load(options, only(folder)).test->size(), 1u);
}

TEST(Format, ImagesNeedATrainFolder) {
  const TestFolder folder;
  Options options = options_for("images");
  options.set("path", folder.path().string());
  expect_refusal([&] { load(options, only(folder)); }, {folder.path().string(), "no folder 'train'"});
  options.set("path", std::string("absent"));
  expect_refusal([&] { load(options, only(folder)); }, {"data.path", "'absent'", "data.root"});
  options.set("path", std::string("/absent/folder"));
  expect_refusal([&] { load(options, only(folder)); }, {"/absent/folder does not exist"});
}

TEST(Roots, InOrder) {
  ::setenv("PARLEY_DATA", "/from/environment", 1);
  const DataRoots roots = DataRoots::standard("/mine");
  ::unsetenv("PARLEY_DATA");
  ASSERT_GE(roots.folders.size(), 4u);
  EXPECT_EQ(roots.folders[0], "/mine");
  EXPECT_EQ(roots.folders[1], "/from/environment");
  EXPECT_EQ(roots.folders.back(), "/usr/share/datasets");
}

// ── The real data sets, where they are ──

TEST(Real, Mnist) {
  LOAD_OR_SKIP(data, options_for("mnist"));
  EXPECT_EQ(data.train->size(), 60000u);
  EXPECT_EQ(data.test->size(), 10000u);
  EXPECT_EQ(data.train->labels[0], 5);
  EXPECT_EQ(data.train->bytes(), 60000u * (784 + 4));
}

TEST(Real, FashionMnist) {
  LOAD_OR_SKIP(data, options_for("fashion-mnist"));
  EXPECT_EQ(data.train->size(), 60000u);
  EXPECT_EQ(data.test->size(), 10000u);
  EXPECT_EQ(data.train->class_names[9], "Ankle boot");
}

TEST(Real, Cifar10) {
  LOAD_OR_SKIP(data, options_for("cifar10"));
  EXPECT_EQ(data.train->size(), 50000u);
  EXPECT_EQ(data.test->size(), 10000u);
  EXPECT_EQ(data.train->shape, (std::vector<std::int64_t>{3, 32, 32}));
  EXPECT_EQ(data.test->classes, 10u);
}

TEST(Real, DigitsByWriter) {
  LOAD_OR_SKIP(data, options_for("digits_by_writer"));
  const std::set<std::int32_t> train(data.train->users.begin(), data.train->users.end());
  const std::set<std::int32_t> test(data.test->users.begin(), data.test->users.end());
  EXPECT_EQ(train.size(), 539u);
  EXPECT_EQ(test.size(), 297u);
}

}  // namespace
}  // namespace parley
