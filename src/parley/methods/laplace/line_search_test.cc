// Steps whose length is measured: what a parabola finds, and what a search costs.
#include "parley/methods/laplace/line_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"
#include "parley/model/cnn.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

template <class Function>
std::vector<double> at_lengths(Function f) {
  std::vector<double> values;
  for (const double c : searched_lengths()) values.push_back(f(c));
  return values;
}

TEST(BestLength, IsTheMinimumOfAParabola) {
  for (const double minimum : {0.04, 0.1, 1.0, 2.3, 9.0, 14.0}) {
    const auto best = best_length(at_lengths([&](double c) { return 3.0 * std::pow(c - minimum, 2) + 5.0; }));
    ASSERT_TRUE(best);
    EXPECT_NEAR(best->length, minimum, 1e-9);
    EXPECT_NEAR(best->value, 5.0, 1e-9);
  }
}

TEST(BestLength, IsNotBeyondWhatWasMeasured) {
  const auto best = best_length(at_lengths([](double c) { return -c; }));
  ASSERT_TRUE(best);
  EXPECT_EQ(best->length, searched_lengths().back());
  EXPECT_EQ(best->value, -searched_lengths().back());
}

TEST(BestLength, IsNoneWhereEveryStepLeadsUp) {
  EXPECT_FALSE(best_length(at_lengths([](double c) { return c; })));
  EXPECT_FALSE(best_length(at_lengths([](double) { return 1.0; })));
}

// Two clients whose least squares lie apart, one of them with three times the examples.
TestBed::Regression lines() {
  TestBed::Regression problem{.x = {{}, {}}, .y = {{}, {}}};
  Stream stream(3, "lines");
  for (std::size_t i = 0; i < 40; ++i) {
    const std::size_t n = i % 4 == 0 ? 0 : 1;
    const double x = stream.normal();
    problem.x[n].push_back({static_cast<float>(x)});
    problem.y[n].push_back({static_cast<float>((n == 0 ? 3.0 : -1.0) * x + 0.2 * stream.normal())});
  }
  return problem;
}

// Undamped steps of exact curvature: `step` = 1 would be the pooled solution.
Settings newton(double step, const std::string& search = "always") {
  return {{"method.warm", std::int64_t{0}},
          {"method.step", step},
          {"method.damping", 0.0},
          {"method.damping_floor", 0.0},
          {"method.prior", 0.1},
          {"method.memory", 0.0},
          {"method.trust", 0.0},
          {"method.fisher", std::string("exact")},
          {"method.line_search", search},
          {"method.factor_bits", std::int64_t{32}}};
}

// The minimum along a step is that of the quadratic, whatever length was proposed; the prior counts too.
TEST(LineSearch, GoesToTheMinimumAlongTheStepOfAQuadratic) {
  TestBed whole("laplace", lines(), newton(1.0, "never"));
  whole.rounds(1);
  const Flat newton_step(whole.theta().begin(), whole.theta().end());
  double gradient_along = 0.0, curvature_along = 0.0;  // at 0 and at the step's end, where the gradient is known
  whole.round(2);
  for (std::size_t i = 0; i < newton_step.size(); ++i) {
    curvature_along += double{newton_step[i]} * double{whole.state().at("gradient")[i]};
  }
  TestBed still("laplace", lines(), newton(0.0, "never"));
  still.rounds(1);
  for (std::size_t i = 0; i < newton_step.size(); ++i) {
    gradient_along += double{newton_step[i]} * double{still.state().at("gradient")[i]};
  }
  const double exact = -gradient_along / (curvature_along - gradient_along);
  for (const double step : {0.1, 1.0, 25.0}) {
    SCOPED_TRACE(step);
    TestBed bed("laplace", lines(), newton(step));
    bed.round(1);
    for (const float w : bed.theta()) EXPECT_EQ(w, 0.0f) << "a step before it was measured";
    bed.round(2);
    for (std::size_t i = 0; i < newton_step.size(); ++i) {
      // Losses are sums of floats; a minimum is known to the root of their rounding.
      EXPECT_NEAR(bed.theta()[i], exact * double{newton_step[i]}, 2e-3);
      EXPECT_EQ(bed.state().at("velocity")[i], bed.theta()[i]) << "the secant's step is what was gone";
    }
  }
}

TEST(LineSearch, StaysWhereNoLengthIsBetterAndTriesShorterOnes) {
  TestBed bed("laplace", lines(), newton(3000.0));
  bed.state().scalar("damping") = 0.01;
  bed.rounds(2);
  for (const float w : bed.theta()) EXPECT_EQ(w, 0.0f);
  EXPECT_DOUBLE_EQ(bed.state().scalar("damping"), 0.03);
  bed.round(3);
  EXPECT_DOUBLE_EQ(bed.state().scalar("damping"), 0.03) << "nothing was gone, so nothing is judged";
  EXPECT_EQ(bed.state().scalar("secants"), 0.0);
  bed.round(4);
  EXPECT_GT(std::abs(bed.theta()[0]), 0.1f);
}

TEST(LineSearch, SendsScalarsUpAndTheStepDownOnlyWhileItSearches) {
  TestBed bed("laplace", lines(), newton(1.0)), plain("laplace", lines(), newton(1.0, "never"));
  const auto sent = [](TestBed& from) { return Broadcast(from.state(), 1).wire_bytes(); };
  const std::size_t ordinary = sent(bed);
  EXPECT_LT(ordinary, sent(plain) + 32) << "one scalar more";
  bed.round(1);
  EXPECT_EQ(sent(bed), ordinary + sizeof(std::uint32_t) + std::string("velocity").size() + sizeof(std::uint64_t) +
                           bed.theta().size() * sizeof(float));
  const Update update = bed.train(2, 0);
  for (const auto& channel : bed.schema()->channels) {
    EXPECT_EQ(update.packing(channel.name).how, Packing::constant) << channel.name;
  }
  bed.round(2);
  EXPECT_EQ(sent(bed), ordinary);
}

TEST(LineSearch, ALengthWithoutAFiniteLossIsNotGone) {
  auto problem = lines();
  TestBed bed("laplace", problem, newton(1.0));
  bed.round(1);
  for (float& v : bed.state().at("velocity")) v *= 1e19f;  // its square is no float
  EXPECT_NO_THROW(bed.round(2));
  for (const float w : bed.theta()) EXPECT_EQ(w, 0.0f);
}

TestBed::Classification images() {
  Stream stream(12, "images");
  TestBed::Classification problem{.x = {{}}, .labels = {{}}, .classes = 3};
  for (std::int32_t i = 0; i < 30; ++i) {
    std::vector<float> x(25);
    for (float& pixel : x) pixel = static_cast<float>(stream.normal() + 0.5 * (i % 3));
    problem.x[0].push_back(x);
    problem.labels[0].push_back(i % 3);
  }
  return problem;
}

// Whether each of some rounds searched.
std::vector<bool> searches(TestBed& bed, std::size_t rounds) {
  std::vector<bool> all;
  for (std::size_t round = 1; round <= rounds; ++round) {
    all.push_back(bed.state().scalars().contains("searching") && bed.state().scalar("searching") != 0.0);
    bed.round(round);
  }
  return all;
}

TEST(LineSearch, IsOfTheFirstStepOfConvolutionsUnlessSaidOtherwise) {
  const auto net = [] {
    const CnnPlan plan{.convolutions = {{.out = 2, .kernel = 3, .padding = 0, .pool = false}}, .hidden = {}};
    return make_native_cnn(plan, {.input_shape = {1, 5, 5}, .outputs = 3});
  };
  const auto bed = [&](const std::string& use) {
    TestBed made("laplace", images(), {{"method.warm", std::int64_t{0}}, {"method.line_search", use}}, net);
    Stream stream(14, "weights");
    for (float& w : made.theta()) w = static_cast<float>(0.3 * stream.normal());
    return searches(made, 6);
  };
  EXPECT_EQ(bed("auto"), (std::vector<bool>{false, true, false, false, false, false}));
  EXPECT_EQ(bed("always"), (std::vector<bool>{false, true, false, true, false, true}));
  EXPECT_EQ(bed("never"), std::vector<bool>(6, false));
  TestBed dense("laplace", lines(), newton(1.0, "auto"));
  EXPECT_EQ(searches(dense, 3), std::vector<bool>(3, false));
}

TEST(LineSearch, IsRefusedWhereLossesSayLittle) {
  const auto refusal = [](const std::string& key, const Value& value) -> std::string {
    Settings settings = newton(1.0);
    settings["method.factors_every"] = std::int64_t{1};
    settings[key] = value;
    try {
      TestBed bed("laplace", lines(), settings);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("server.participation", 0.5).find("server.participation"), std::string::npos);
  EXPECT_NE(refusal("method.local_steps", std::int64_t{2}).find("method.local_steps"), std::string::npos);
  EXPECT_EQ(refusal("method.step", 0.5), "");
}

}  // namespace
}  // namespace parley
