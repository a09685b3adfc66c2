// What nodes say of their tests comes back as it was, without their classes, and only where it can be true.
#include "parley/wire/tested.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "parley/base/errors.h"

namespace parley::wire {
namespace {

ClientResult some_result() {
  ClientResult result{};
  Evaluation& evaluation = result.evaluation;
  evaluation.examples = 10;
  evaluation.loss_sum = 4.125;
  evaluation.correct = 7;
  evaluation.brier_sum = 2.5;
  evaluation.covered = 9;
  evaluation.set_sizes = 14;
  evaluation.class_total = {6, 4};
  evaluation.class_correct = {5, 2};
  evaluation.bins[3] = {.count = 4, .confidence = 1.0, .correct = 2};
  evaluation.bins[14] = {.count = 6, .confidence = 6.0, .correct = 5};
  return result;
}

v1::Tested message_of(const ClientResult& result) {
  v1::Tested message;
  fill(message, result);
  return message;
}

TEST(Tested, ComesBackAsItWasAndDoesNotTellTheClasses) {
  const ClientResult sent = some_result();
  const auto got = result_in(message_of(sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->evaluation.loss(), sent.evaluation.loss());
  EXPECT_EQ(got->evaluation.accuracy(), sent.evaluation.accuracy());
  EXPECT_EQ(got->evaluation.ece(), sent.evaluation.ece());
  EXPECT_EQ(got->evaluation.brier(), sent.evaluation.brier());
  EXPECT_EQ(got->evaluation.coverage(), sent.evaluation.coverage());
  EXPECT_EQ(got->evaluation.set_size(), sent.evaluation.set_size());
  EXPECT_EQ(got->evaluation.class_total, std::vector<std::size_t>{10});
}

TEST(Tested, OfARegressionToo) {
  ClientResult sent{};
  sent.evaluation.examples = 3;
  sent.evaluation.loss_sum = 1.5;
  sent.evaluation.targets = {{.absolute = 2.0, .squares = 3.0, .sum = -1.0, .sum_squares = 9.0, .unit = 4.0}};
  const auto got = result_in(message_of(sent));
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->evaluation.classified());
  EXPECT_EQ(got->evaluation.rmse(), sent.evaluation.rmse());
  EXPECT_EQ(got->evaluation.r2(), sent.evaluation.r2());
}

TEST(Tested, WithoutTestDataThereIsNothing) {
  EXPECT_FALSE(result_in({}));
}

TEST(Tested, WhatCannotBeIsRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::function<void(v1::Tested&)>> faults{
      [](v1::Tested& m) { m.set_correct(11); },
      [](v1::Tested& m) { m.set_loss(kNan); },
      [](v1::Tested& m) { m.set_brier(-1.0); },
      [](v1::Tested& m) { m.set_covered(11); },
      [](v1::Tested& m) { m.set_set_sizes(std::uint64_t{1} << 40); },
      [](v1::Tested& m) { m.set_examples(std::uint64_t{1} << 60); },
      [](v1::Tested& m) { m.mutable_bins()->RemoveLast(); },
      [](v1::Tested& m) { m.mutable_bins(3)->set_count(5); },
      [](v1::Tested& m) { m.mutable_bins(3)->set_correct(3); },
      [](v1::Tested& m) { m.mutable_bins(14)->set_confidence(6.1); },
      [](v1::Tested& m) { m.mutable_bins(14)->set_confidence(kNan); },
      [](v1::Tested& m) { m.add_targets()->set_squares(kNan); },
  };
  for (std::size_t i = 0; i < faults.size(); ++i) {
    v1::Tested message = message_of(some_result());
    faults[i](message);
    EXPECT_THROW(result_in(message), InputError) << i;
  }
}

}  // namespace
}  // namespace parley::wire
