#include "parley/data/dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "parley/data/normalize.h"
#include "parley/data/partition.h"
#include "parley/data/select.h"
#include "parley/data/test_folder.h"

namespace parley {
namespace {

// Two channels of two pixels.
Dataset small() {
  Dataset data;
  data.name = "small";
  data.shape = {2, 1, 2};
  data.values = std::vector<std::uint8_t>{0, 255, 10, 10, 51, 102, 10, 10, 1, 2, 10, 10};
  data.labels = {0, 1, 0};
  data.users = {4, 5, 4};
  data.classes = 2;
  return data;
}

std::vector<float> inputs(const Batch& batch) {
  return {batch.inputs.begin(), batch.inputs.end()};
}

TEST(Dataset, GathersNormalisedBatches) {
  Dataset data = small();
  data.transform = normalizer(data, "auto");
  EXPECT_EQ(data.transform.scale.size(), 1u);
  const std::vector<std::uint32_t> rows = {2, 0, 1}, positions = {2, 1};
  const View view{.data = &data, .rows = rows};
  BatchBuffer buffer;
  const Batch batch = buffer.gather(view, positions);
  EXPECT_EQ(batch.size, 2u);
  EXPECT_EQ(batch.labels[0], 1);
  EXPECT_FLOAT_EQ(batch.inputs[0], 0.2f);
  EXPECT_FLOAT_EQ(batch.inputs[5], 1.0f);
  EXPECT_EQ(buffer.gather_range(view, 1, 1).size, 0u);
}

TEST(Dataset, PermutationActsOnFeatures) {
  const Dataset data = small();
  const std::vector<std::uint32_t> rows = {0}, order = {3, 1, 0, 2};
  BatchBuffer buffer;
  EXPECT_EQ(inputs(buffer.gather_range({&data, rows, order}, 0, 1)), (std::vector<float>{10, 255, 0, 10}));
}

// Three parts of one table, whose rows never meet.
TEST(Normalize, MomentsOfThePartsStandardiseTheWhole) {
  Dataset whole;
  whole.name = "whole";
  whole.shape = {2};
  whole.target_size = 1;
  std::vector<float> values;
  for (int i = 0; i < 30; ++i) {
    values.insert(values.end(), {1000.0f + static_cast<float>(i * i % 17), 7.0f});
    whole.targets.push_back(static_cast<float>(i % 5) * 100.0f);
  }
  whole.values = values;
  std::vector<MeasuredPart> inputs, targets;
  for (const auto& [begin, end] : {std::pair(0, 4), std::pair(4, 5), std::pair(5, 30)}) {
    Dataset part = whole;
    part.values = std::vector<float>(values.begin() + 2 * begin, values.begin() + 2 * end);
    part.targets.assign(whole.targets.begin() + begin, whole.targets.begin() + end);
    Dataset none;
    none.target_size = 1;
    if (begin == 0) standardize_targets(part, none);  // what was done to them before does not matter
    inputs.push_back({part.size(), input_moments(part)});
    targets.push_back({part.size(), target_moments(part)});
  }
  const Affine expected = normalizer(whole, "standard"), summed = standardizer(inputs);
  // Sums in another order: a few roundings of a double, then one to a float.
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_FLOAT_EQ(summed.scale[c], expected.scale[c]);
    EXPECT_FLOAT_EQ(summed.shift[c], expected.shift[c]);
  }
  EXPECT_EQ(summed.scale[1], 1.0f);  // a constant channel is only shifted
  Dataset none, scaled = whole;
  none.target_size = 1;
  standardize_targets(scaled, none);
  const Affine together = standardizer(targets);
  EXPECT_NEAR(together.scale[0], scaled.target_transform.scale[0], 1e-6f * scaled.target_transform.scale[0]);
  EXPECT_NEAR(together.shift[0], scaled.target_transform.shift[0], 1e-5f);
}

TEST(Normalize, RescaledDataForgetTheScalesTheyHad) {
  Dataset data, none;
  data.name = "small";
  data.shape = {1};
  data.values = std::vector<float>{1, 2, 3};
  data.target_size = none.target_size = 1;
  data.targets = {10, 20, 60};
  standardize_targets(data, none);
  const auto seen = rescaled(data, {.inputs = {{2.0f}, {1.0f}}, .targets = {{0.5f}, {-5.0f}}});
  EXPECT_EQ(seen->transform.scale, std::vector<float>{2.0f});
  const float expected[] = {0.0f, 5.0f, 25.0f};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(seen->targets[i], expected[i], 1e-5f);
  EXPECT_EQ(seen->target_transform.shift, std::vector<float>{-5.0f});
  expect_refusal(
      [&] {
        rescaled(data, {.inputs = {{1, 1}, {0, 0}}, .targets = {}});
      },
      {"scales are for 2 channels", "'small' has 1"});
  expect_refusal(
      [&] {
        rescaled(data, {.inputs = {}, .targets = {{1, 1}, {0, 0}}});
      },
      {"scales are for 2 targets", "'small' has 1"});
}

TEST(Normalize, StandardGivesMeanZeroAndDeviationOne) {
  Dataset data = small();
  data.transform = normalizer(data, "standard");
  ASSERT_EQ(data.transform.scale.size(), 2u);
  const WholeView whole(data);
  BatchBuffer buffer;
  const Batch batch = buffer.gather_range(whole.view(), 0, 3);
  double sum = 0, squares = 0;
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t j = 0; j < 2; ++j) {
      sum += batch.inputs[row * 4 + j];
      squares += batch.inputs[row * 4 + j] * batch.inputs[row * 4 + j];
      EXPECT_FLOAT_EQ(batch.inputs[row * 4 + 2 + j], 0.0f);  // the constant channel
    }
  }
  EXPECT_NEAR(sum / 6, 0, 1e-6);
  EXPECT_NEAR(squares / 6, 1, 1e-5);
}

TEST(Normalize, MeasurementsAreStandardisedAndTokensNever) {
  Dataset data = small();
  data.content = Content::measurements;
  EXPECT_EQ(normalizer(data, "auto").shift, normalizer(data, "standard").shift);
  data.content = Content::tokens;
  EXPECT_TRUE(normalizer(data, "auto").scale.empty());
  EXPECT_TRUE(normalizer(data, "none").scale.empty());
  expect_refusal([&] { normalizer(data, "unit"); }, {"data.normalize", "'small' has token ids", "\"auto\""});
  EXPECT_EQ(select_rows(data, std::vector<std::uint32_t>{1}).content, Content::tokens);
}

TEST(Normalize, FloatsStayUnlessAsked) {
  Dataset data;
  data.shape = {2};
  data.values = std::vector<float>{1, 5, 3, 5};
  data.labels = {0, 0};
  data.classes = 1;
  EXPECT_TRUE(normalizer(data, "auto").scale.empty());
  EXPECT_TRUE(normalizer(data, "none").scale.empty());
  const Affine unit = normalizer(data, "unit");
  EXPECT_EQ(unit.scale, (std::vector<float>{0.5f, 1.0f}));
  EXPECT_EQ(unit.shift, (std::vector<float>{-0.5f, -5.0f}));
}

TEST(Select, RowsCarryEverything) {
  const Dataset data = small();
  const std::vector<std::uint32_t> rows = {1};
  const Dataset one = select_rows(data, rows);
  EXPECT_EQ(std::get<0>(one.values), (std::vector<std::uint8_t>{51, 102, 10, 10}));
  EXPECT_EQ(one.labels, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(one.users, (std::vector<std::int32_t>{5}));
  EXPECT_EQ(one.classes, 2u);
}

TEST(Select, LimitSpreadsOverSortedLabels) {
  EXPECT_EQ(limit_rows(small(), 2).labels, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(limit_rows(small(), 0).size(), 3u);
  EXPECT_EQ(limit_rows(small(), 9).size(), 3u);
  Dataset sorted = small();
  sorted.values = std::vector<std::uint8_t>(16);
  sorted.users.clear();
  sorted.labels = {0, 0, 1, 1};
  EXPECT_EQ(limit_rows(sorted, 2).labels, (std::vector<std::int32_t>{0, 1}));
}

TEST(Select, HoldsOutPerUser) {
  const auto [rest, part] = hold_out_of_each_user(small(), 0.5, 1);
  EXPECT_EQ(std::set(rest.users.begin(), rest.users.end()), (std::set{4, 5}));  // user 5 has one row and keeps it
  EXPECT_EQ(part.users, (std::vector<std::int32_t>{4}));
  const auto [train, test] = hold_out_of_all(small(), 0.01, 1);
  EXPECT_EQ(train.size(), 2u);
  EXPECT_EQ(test.size(), 1u);
}

}  // namespace
}  // namespace parley
