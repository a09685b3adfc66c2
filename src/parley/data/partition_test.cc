#include "parley/data/partition.h"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "parley/data/client_tests.h"
#include "parley/data/test_folder.h"

namespace parley {
namespace {

// `rows` rows with labels in turn, 6 features, users in runs of 3.
Dataset balanced(std::size_t rows, std::size_t classes) {
  Dataset data;
  data.name = "balanced";
  data.shape = {6};
  data.values = std::vector<float>(rows * 6);
  data.classes = classes;
  for (std::size_t i = 0; i < rows; ++i) {
    data.labels.push_back(static_cast<std::int32_t>(i % classes));
    data.users.push_back(static_cast<std::int32_t>(i / 3));
  }
  return data;
}

Options options_for(const std::string& kind, std::int64_t clients) {
  std::vector<Option> declared = common_partition_options();
  const PartitionRegistry registry = partitions();
  for (const auto& option : registry.at(kind).about.options) declared.push_back(option);
  Options options("partition", declared);
  options.set("kind", kind);
  options.set("clients", clients);
  return options;
}

Partition deal(const Dataset& data, const Options& options, std::uint64_t seed = 1) {
  Stream stream(seed, "partition");
  return partitions().at(options.text("kind")).make(data, options, stream);
}

// Kinds that deal every row exactly once, whatever the data.
const std::vector<std::string> kCovering = {"iid", "dirichlet", "dirichlet_client", "shards", "lognormal", "permuted"};
// Kinds that may leave rows out by their meaning.
const std::vector<std::string> kPartial = {"single_class", "mixed_class"};

// Rows dealt; fails on a repeated or impossible row.
std::size_t count_rows(const Dataset& data, const Partition& partition) {
  std::vector<bool> seen(data.size());
  std::size_t count = 0;
  for (const auto& rows : partition.clients) {
    for (const auto row : rows) {
      if (row >= data.size() || seen[row]) return SIZE_MAX;
      seen[row] = true;
      ++count;
    }
  }
  return count;
}

double share_of_largest_class(const std::vector<std::size_t>& counts) {
  const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  return total == 0 ? 1.0 : static_cast<double>(*std::max_element(counts.begin(), counts.end())) / total;
}

TEST(Partition, EveryRowOnceForAnySizes) {
  EXPECT_TRUE(rc::check("coverage", [](std::uint16_t size, std::uint8_t classes, std::uint8_t clients,
                                       std::uint8_t seed) {
    const Dataset data = balanced(1 + size % 200, 1 + classes % 12);  // labels of absent classes, one class, one row
    const auto count = static_cast<std::int64_t>(1 + clients % 60);   // often more clients than rows
    for (const auto& kind : kCovering) {
      const Partition partition = deal(data, options_for(kind, count), seed);
      RC_ASSERT(partition.clients.size() == static_cast<std::size_t>(count));
      RC_ASSERT(count_rows(data, partition) == data.size());
    }
    for (const auto& kind : kPartial) {
      const Partition partition = deal(data, options_for(kind, count), seed);
      RC_ASSERT(count_rows(data, partition) <= data.size());
      if (static_cast<std::size_t>(count) >= data.classes) RC_ASSERT(count_rows(data, partition) == data.size());
    }
  }));
}

TEST(Partition, DeterministicBySeed) {
  const Dataset data = balanced(300, 10);
  const PartitionRegistry registry = partitions();
  for (const auto& entry : registry.entries()) {
    const std::string& kind = entry.about.name;
    if (kind == "file") continue;
    const Options options = options_for(kind, 13);
    EXPECT_EQ(deal(data, options, 5).clients, deal(data, options, 5).clients) << kind;
    EXPECT_NE(deal(data, options, 5).clients, deal(data, options, 6).clients) << kind;
  }
}

TEST(Partition, EqualSizes) {
  const Dataset data = balanced(103, 10);
  for (const char* kind : {"iid", "permuted", "dirichlet_client"}) {
    for (const auto& rows : deal(data, options_for(kind, 10)).clients) {
      EXPECT_TRUE(rows.size() == 10 || rows.size() == 11) << kind;
    }
  }
}

TEST(Dirichlet, SkewFallsWithAlpha) {
  const Dataset data = balanced(10000, 10);
  for (const char* kind : {"dirichlet", "dirichlet_client"}) {
    double previous = 1.1;
    for (const double alpha : {0.01, 1.0, 1000.0}) {
      Options options = options_for(kind, 10);
      options.set("alpha", alpha);
      const Partition partition = deal(data, options);
      double largest = 0;
      for (const auto& counts : label_histogram(data, partition)) largest += share_of_largest_class(counts) / 10;
      EXPECT_LT(largest, previous) << kind << " " << alpha;
      previous = largest;
    }
    EXPECT_LT(previous, 0.2) << kind;
  }
}

TEST(Dirichlet, EmptyClientsAreFineUnlessMinSize) {
  const Dataset data = balanced(1000, 10);
  Options options = options_for("dirichlet", 50);
  options.set("alpha", 0.01);
  const Partition partition = deal(data, options);
  EXPECT_TRUE(std::any_of(partition.clients.begin(), partition.clients.end(), [](const auto& c) { return c.empty(); }));
  EXPECT_EQ(partition.view(data, 0).size(), partition.clients[0].size());
  options.set("min_size", std::int64_t{10});
  expect_refusal([&] { deal(data, options); }, {"partition.min_size", "alpha = 0.01"});
  options.set("min_size", std::int64_t{21});
  expect_refusal([&] { deal(data, options); }, {"partition.min_size", "50 clients 21 rows"});
  options.set("alpha", 10.0);
  options.set("min_size", std::int64_t{5});
  for (const auto& rows : deal(data, options).clients) EXPECT_GE(rows.size(), 5u);
  Options equal = options_for("dirichlet_client", 50);
  equal.set("min_size", std::int64_t{21});
  expect_refusal([&] { deal(data, equal); }, {"partition.min_size"});
}

TEST(Shards, TwoShardsGiveFewClasses) {
  const Dataset data = balanced(1000, 10);
  for (const auto& counts : label_histogram(data, deal(data, options_for("shards", 10)))) {
    EXPECT_LE(std::count_if(counts.begin(), counts.end(), [](auto n) { return n > 0; }), 2);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), 100u);
  }
}

TEST(SingleClass, ClientsGoRoundTheClasses) {
  const Dataset data = balanced(1000, 10);
  const auto histogram = label_histogram(data, deal(data, options_for("single_class", 25)));
  for (std::size_t k = 0; k < 25; ++k) {
    EXPECT_EQ(share_of_largest_class(histogram[k]), 1.0);
    EXPECT_GT(histogram[k][k % 10], 0u);
  }
  // Fewer clients than classes: the other classes are nobody's.
  EXPECT_EQ(count_rows(data, deal(data, options_for("single_class", 3))), 300u);
}

TEST(MixedClass, NinetyNineToOne) {
  const Dataset data = balanced(30000, 10);
  for (const std::int64_t clients : {5, 10, 30}) {
    const auto histogram = label_histogram(data, deal(data, options_for("mixed_class", clients)));
    for (std::size_t k = 0; k < histogram.size(); ++k) {
      EXPECT_NEAR(share_of_largest_class(histogram[k]), 0.991,
                  0.006);  // a tenth of the iid part is its own class
      EXPECT_EQ(share_of_largest_class(histogram[k]),
                static_cast<double>(histogram[k][k % 10]) /
                    static_cast<double>(std::accumulate(histogram[k].begin(), histogram[k].end(), std::size_t{0})));
    }
  }
}

TEST(EtaSkew, ACycleOfDominantClassesHasMassEta) {
  const Dataset data = balanced(20000, 10);
  for (const double eta : {0.5, 0.8}) {
    Options options = options_for("eta_skew", 20);
    options.set("eta", eta);
    options.set("dominant", std::string("cycle"));
    const Partition partition = deal(data, options);
    EXPECT_EQ(count_rows(data, partition), data.size());
    const auto histogram = label_histogram(data, partition);
    for (std::size_t k = 0; k < 20; ++k) EXPECT_NEAR(static_cast<double>(histogram[k][k % 10]) / 1000, eta, 0.06);
  }
}

// Achieved for any number of clients, also where so many rows of a class could not be dealt to all who want them.
TEST(EtaSkew, EveryClientHasMassEtaOfSomeClass) {
  const Dataset data = balanced(20000, 10);
  for (const std::int64_t clients : {5, 10, 15, 20}) {
    const auto histogram = label_histogram(data, deal(data, options_for("eta_skew", clients)));
    for (const auto& counts : histogram) EXPECT_NEAR(share_of_largest_class(counts), 0.8, 0.005) << clients;
  }
}

TEST(EtaSkew, DominantClassesAreDrawnAndThePoolIsNotUniform) {
  const Dataset data = balanced(20000, 10);
  const auto histogram = label_histogram(data, deal(data, options_for("eta_skew", 20)));
  std::vector<double> pool(10, 0.0);
  double total = 0.0;
  for (const auto& counts : histogram) {
    for (std::size_t c = 0; c < 10; ++c) pool[c] += static_cast<double>(counts[c]);
  }
  for (const double rows : pool) total += rows;
  double variation = 0.0;
  for (const double rows : pool) variation += 0.5 * std::abs(rows / total - 0.1);
  EXPECT_GT(variation, 0.05);  // 0.2 on the average over draws
}

TEST(EtaSkew, ARowIsAtMostOnceWithAClient) {
  const Dataset data = balanced(2000, 10);
  for (auto rows : deal(data, options_for("eta_skew", 5)).clients) {
    EXPECT_EQ(std::ranges::adjacent_find(rows), rows.end());  // they are in rising order
  }
}

TEST(EtaSkew, SizesVaryWithSigma) {
  const Dataset data = balanced(20000, 10);
  Options options = options_for("eta_skew", 20);
  options.set("size_sigma", 1.0);
  const Partition partition = deal(data, options);
  std::vector<std::size_t> sizes;
  for (const auto rows : partition.clients) sizes.push_back(rows.size());
  EXPECT_GT(std::ranges::max(sizes), 3 * std::ranges::min(sizes));
}

TEST(Lognormal, SizesVaryWithSigma) {
  const Dataset data = balanced(10000, 10);
  Options options = options_for("lognormal", 50);
  const auto spread = [&](double sigma) {
    options.set("sigma", sigma);
    std::vector<double> logs;
    for (const auto& rows : deal(data, options).clients)
      logs.push_back(std::log(std::max<double>(1, static_cast<double>(rows.size()))));
    const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / 50;
    double squares = 0;
    for (const auto x : logs) squares += (x - mean) * (x - mean);
    return std::sqrt(squares / 50);
  };
  EXPECT_LT(spread(0), 0.01);
  EXPECT_NEAR(spread(1), 1, 0.25);
  EXPECT_GT(spread(300), 1);  // no overflow
}

TEST(Permuted, OnePermutationAClient) {
  const Dataset data = balanced(40, 4);
  const Partition partition = deal(data, options_for("permuted", 4));
  ASSERT_EQ(partition.permutations.size(), 4u);
  for (auto order : partition.permutations) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
  }
  EXPECT_NE(partition.permutations[0], partition.permutations[1]);
  EXPECT_EQ(partition.view(data, 2).permutation.size(), 6u);
}

TEST(ByUser, NaturalOwners) {
  Dataset data = balanced(31, 4);  // users 0…9 have three rows, user 10 has one
  const Partition all = deal(data, options_for("by_user", 0));
  EXPECT_EQ(all.clients.size(), 11u);
  EXPECT_TRUE(std::ranges::equal(all.clients[1], std::vector<std::uint32_t>{3, 4, 5}));
  EXPECT_EQ(deal(data, options_for("by_user", 4)).clients.size(), 4u);
  Options options = options_for("by_user", 0);
  options.set("min_rows", std::int64_t{2});
  EXPECT_EQ(deal(data, options).clients.size(), 10u);
  options.set("users_per_client", std::int64_t{4});
  const Partition grouped = deal(data, options);
  ASSERT_EQ(grouped.clients.size(), 3u);
  EXPECT_EQ(grouped.clients[0].size(), 12u);
  EXPECT_EQ(grouped.clients[2].size(), 6u);
  options.set("clients", std::int64_t{4});
  expect_refusal([&] { deal(data, options); }, {"partition.clients", "at most 3"});
  options.set("min_rows", std::int64_t{99});
  expect_refusal([&] { deal(data, options); }, {"partition.min_rows", "99"});
  data.users.clear();
  expect_refusal([&] { deal(data, options); }, {"by_user", "'balanced'", "data.users"});
}

TEST(Partition, RefusesWhatItCannotDeal) {
  Dataset regression = balanced(10, 1);
  regression.labels.clear();
  regression.classes = 0;
  regression.target_size = 1;
  regression.targets.assign(10, 0.0f);
  for (const char* kind : {"dirichlet", "dirichlet_client", "shards", "single_class", "mixed_class", "eta_skew"}) {
    expect_refusal([&] { deal(regression, options_for(kind, 2)); }, {kind, "labels", "balanced"});
    EXPECT_EQ(deal(balanced(9, 3), options_for(kind, 0)).clients.size(), 10u);  // the usual number
  }
  EXPECT_EQ(count_rows(regression, deal(regression, options_for("iid", 3))), 10u);
  EXPECT_TRUE(label_histogram(regression, deal(regression, options_for("iid", 3)))[0].empty());
}

TEST(PartitionFile, ReadsTheOrderInWhichEachClientSeesTheFeatures) {
  const TestFolder folder;
  Options options = options_for("file", 10);
  options.set("path", folder
                          .write("p.json", R"({"clients": {"0": [3, 1], "1": [2]},
      "permutations": {"0": [5, 4, 3, 2, 1, 0], "1": [1, 0, 2, 3, 4, 5]}})")
                          .string());
  const Partition partition = deal(balanced(5, 2), options);
  EXPECT_EQ(partition.clients, RowLists({{3, 1}, {2}}));
  EXPECT_EQ(partition.permutations, (std::vector<std::vector<std::uint32_t>>{{5, 4, 3, 2, 1, 0}, {1, 0, 2, 3, 4, 5}}));
}

TEST(PartitionFile, ReadsBothFormsAndKeepsTheOrder) {
  const TestFolder folder;
  const Dataset data = balanced(5, 2);
  Options options = options_for("file", 10);
  for (const char* text : {R"([[4, 0], [], [2]])", R"({"2": [2], "0": [4, 0], "1": []})"}) {
    options.set("path", folder.write("p.json", text).string());
    EXPECT_EQ(deal(data, options).clients, RowLists({{4, 0}, {}, {2}}));
  }
}

TEST(PartitionFile, Refuses) {
  const TestFolder folder;
  const Dataset data = balanced(5, 2);
  Options options = options_for("file", 10);
  const auto refuse = [&](const char* text, std::initializer_list<std::string_view> pieces) {
    options.set("path", folder.write("p.json", text).string());
    expect_refusal([&] { deal(data, options); }, pieces);
  };
  expect_refusal([&] { deal(data, options); }, {"partition.path", "empty"});
  refuse("{", {"p.json", "not valid JSON"});
  refuse("3", {"p.json", "list of lists"});
  refuse("[]", {"p.json", "no clients"});
  refuse("[[5]]", {"p.json", "client 0", "5 is out of range", "0 to 4"});
  refuse("[[-1]]", {"p.json", "-1"});
  refuse("[[1.5]]", {"p.json", "1.5"});
  refuse("[3]", {"p.json", "client 0", "expected a list"});
  refuse(R"({"a": []})", {"p.json", "client 'a'"});
  refuse(R"({"0": [], "2": []})", {"p.json", "client '2'", "0 to 1"});
  refuse(R"({"0": [], "00": []})", {"p.json", "each once"});
  refuse("[[1], [1]]", {"p.json", "row 1", "client 0", "client 1", "allow_shared"});
  refuse(R"({"clients": [[1]], "permutations": []})", {"p.json", "0 permutations"});
  refuse(R"({"clients": [[1]], "permutations": [[0, 0, 1, 2, 3, 4]]})", {"p.json", "client 0", "6 features once"});
  options.set("allow_shared", true);
  options.set("path", folder.write("p.json", "[[1], [1]]").string());
  EXPECT_EQ(deal(data, options).clients, RowLists({{1}, {1}}));
  options.set("path", std::string("/absent.json"));
  expect_refusal([&] { deal(data, options); }, {"/absent.json", "cannot be read"});
}

TEST(Partition, NoKindRepeatsACommonOption) {
  const PartitionRegistry registry = partitions();
  for (const auto& entry : registry.entries()) {
    for (const auto& option : entry.about.options) {
      for (const auto& common : common_partition_options()) EXPECT_NE(option.key, common.key) << entry.about.name;
    }
  }
}

TEST(OwnTest, HoldingOutSplitsEveryClientsRowsAndLosesNone) {
  const Dataset data = balanced(90, 3);
  Partition partition = deal(data, options_for("permuted", 8));
  const Partition before = partition;
  Stream stream(1, "own test data");
  const Partition own = hold_out_of_each_client(partition, 0.25, stream);
  EXPECT_EQ(own.permutations, before.permutations);
  for (std::size_t k = 0; k < 8; ++k) {
    std::vector<std::uint32_t> all(partition.clients[k].begin(), partition.clients[k].end());
    all.insert(all.end(), own.clients[k].begin(), own.clients[k].end());
    std::ranges::sort(all);
    EXPECT_TRUE(std::ranges::equal(all, before.clients[k]));
    EXPECT_EQ(own.clients[k].size(), 3u);  // of 11 or 12
  }
}

TEST(OwnTest, AClientOfOneRowKeepsItAndOneOfTwoHasOneOfEach) {
  Partition partition{.clients = RowLists({{4}, {1, 2}, {}}), .permutations = {}};
  Stream stream(1, "own test data");
  const Partition own = hold_out_of_each_client(partition, 0.1, stream);
  EXPECT_EQ(partition.clients[0].size(), 1u);
  EXPECT_TRUE(own.clients[0].empty());
  EXPECT_EQ(partition.clients[1].size(), 1u);
  EXPECT_EQ(own.clients[1].size(), 1u);
  EXPECT_TRUE(own.clients[2].empty());
}

TEST(OwnTest, ByUserAClientIsTestedOnItsUsersAlone) {
  const Dataset data = balanced(12, 3);                                                    // users 0…3
  const Partition partition{.clients = RowLists({{0, 3}, {6}, {9}}), .permutations = {}};  // users 0 and 1, 2, 3
  const Partition own = deal_test_by_user(data, data, partition);
  EXPECT_EQ(own.clients, RowLists({{0, 1, 2, 3, 4, 5}, {6, 7, 8}, {9, 10, 11}}));
  Dataset strangers = data;
  for (auto& user : strangers.users) user += 100;
  expect_refusal([&] { deal_test_by_user(data, strangers, partition); }, {"evaluate.clients", "partition.holdout"});
}

TEST(OwnTest, DealtAlikeEveryTestRowOfAHeldClassGoesToWhoTrainsOnIt) {
  const Dataset train = balanced(90, 3), test = balanced(30, 3);
  std::vector<std::vector<std::uint32_t>> rows(2);
  for (std::uint32_t row = 0; row < 90; ++row) {
    if (row % 3 == 0) rows[row < 60].push_back(row);  // class 0: a third to client 0
    if (row % 3 == 1) rows[0].push_back(row);         // class 1: all to client 0, class 2: to nobody
  }
  const Partition partition{.clients = RowLists(rows), .permutations = {}};
  Stream stream(1, "own test data");
  const auto counts = label_histogram(test, deal_test_alike(train, test, partition, stream));
  EXPECT_EQ(counts[0], (std::vector<std::size_t>{3, 10, 0}));
  EXPECT_EQ(counts[1], (std::vector<std::size_t>{7, 0, 0}));
}

}  // namespace
}  // namespace parley
