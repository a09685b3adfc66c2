// What a convolution's factors are made of, against the dense layer that it is when it is written out for every place.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "parley/engine/test_bed.h"
#include "parley/gauss/matrix_product.h"
#include "parley/model/cnn.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

// Images of 5 × 5, a kernel of 4 × 4: four places.
constexpr std::size_t kSize = 5, kKernel = 4, kSide = 2, kPlaces = kSide * kSide, kChannels = 3, kClasses = 3;
constexpr std::size_t kPixels = kSize * kSize, kPatch = kKernel * kKernel;

std::unique_ptr<Model> convolutional() {
  const CnnPlan plan{.convolutions = {{.out = kChannels, .kernel = kKernel, .padding = 0, .pool = false}},
                     .hidden = {}};
  return make_native_cnn(plan, {.input_shape = {1, kSize, kSize}, .outputs = kClasses});
}
std::unique_ptr<Model> unfolded() {
  return make_native_mlp({.widths = {kPixels, kChannels * kPlaces, kClasses}});
}

// The pixel that a place of the kernel looks at.
std::size_t pixel(std::size_t place, std::size_t within) {
  return (place / kSide + within / kKernel) * kSize + place % kSide + within % kKernel;
}

TestBed::Classification images() {
  Stream stream(12, "images");
  TestBed::Classification problem{.x = {{}}, .labels = {{}}, .classes = kClasses};
  for (std::int32_t i = 0; i < 40; ++i) {
    std::vector<float> x;
    for (std::size_t p = 0; p < kPixels; ++p) x.push_back(static_cast<float>(stream.normal()));
    problem.x[0].push_back(x);
    problem.labels[0].push_back(i % static_cast<std::int32_t>(kClasses));
  }
  return problem;
}

// The same function by both nets.
void set_weights(TestBed& conv, TestBed& dense) {
  Stream stream(13, "weights");
  for (float& w : conv.theta()) w = static_cast<float>(0.3 * stream.normal());
  const auto &from = conv.layout().entries(), &to = dense.layout().entries();
  const auto kernel = from[0].of(conv.theta()), bias = from[1].of(conv.theta());
  const auto matrix = to[0].of(dense.theta()), biases = to[1].of(dense.theta());
  std::ranges::fill(matrix, 0.0f);
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t place = 0; place < kPlaces; ++place) {
      biases[c * kPlaces + place] = bias[c];
      for (std::size_t i = 0; i < kPatch; ++i) {
        matrix[(c * kPlaces + place) * kPixels + pixel(place, i)] = kernel[c * kPatch + i];
      }
    }
  }
  for (std::size_t e = 2; e < 4; ++e) std::ranges::copy(from[e].of(conv.theta()), to[e].of(dense.theta()).begin());
}

float packed_at(std::span<const float> packed, std::size_t i, std::size_t j) {
  return packed[packed_size(std::max(i, j)) + std::min(i, j)];
}

struct Measured {
  Update conv, dense;
};

Measured measure(const std::string& positions) {
  const TestBed::Settings settings{{"method.warm", std::int64_t{0}},
                                   {"method.fisher", std::string("exact")},
                                   {"method.positions", positions},
                                   {"method.factor_bits", std::int64_t{32}}};
  TestBed conv("laplace", images(), settings, convolutional), dense("laplace", images(), settings, unfolded);
  set_weights(conv, dense);
  return {conv.train(1, 0), dense.train(1, 0)};
}

// The first layer's entry of a packed factor against sums over the dense layer's.
void expect_first(std::span<const float> found, std::size_t width,
                  const std::function<float(std::size_t, std::size_t)>& expected) {
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = 0; j <= i; ++j) EXPECT_NEAR(packed_at(found, i, j), expected(i, j), 1e-5) << i << ", " << j;
  }
}

// Where a column of the kernel's A stands in the dense layer's; the bias is last in both.
std::size_t column(std::size_t place, std::size_t i) {
  return i < kPatch ? pixel(place, i) : kPixels;
}

TEST(LaplaceConvolution, ExpandedFactorsAreThoseOfTheSinglePlaces) {
  const auto [conv, dense] = measure("expand");
  expect_first(conv["inputs"], kPatch + 1, [&, &all = dense](std::size_t i, std::size_t j) {
    float sum = 0.0f;
    for (std::size_t p = 0; p < kPlaces; ++p) sum += packed_at(all["inputs"], column(p, i), column(p, j));
    return sum / kPlaces;
  });
  expect_first(conv["outputs"], kChannels, [&, &all = dense](std::size_t c, std::size_t d) {
    float sum = 0.0f;
    for (std::size_t p = 0; p < kPlaces; ++p) sum += packed_at(all["outputs"], c * kPlaces + p, d * kPlaces + p);
    return sum;
  });
}

TEST(LaplaceConvolution, ReducedFactorsAreThoseOfMeanPatchesAndSummedDerivatives) {
  const auto sum_over_pairs = [](std::span<const float> packed, const auto& at, std::size_t i, std::size_t j) {
    float sum = 0.0f;
    for (std::size_t p = 0; p < kPlaces; ++p) {
      for (std::size_t q = 0; q < kPlaces; ++q) sum += packed_at(packed, at(p, i), at(q, j));
    }
    return sum;
  };
  const auto row = [](std::size_t place, std::size_t channel) { return channel * kPlaces + place; };
  const auto [conv, dense] = measure("reduce");
  expect_first(conv["inputs"], kPatch + 1, [&, &all = dense](std::size_t i, std::size_t j) {
    return sum_over_pairs(all["inputs"], column, i, j) / (kPlaces * kPlaces);
  });
  expect_first(conv["outputs"], kChannels,
               [&, &all = dense](std::size_t c, std::size_t d) { return sum_over_pairs(all["outputs"], row, c, d); });
  const auto [mixed, same] = measure("mixed");
  expect_first(mixed["outputs"], kChannels,
               [&, &all = same](std::size_t c, std::size_t d) { return sum_over_pairs(all["outputs"], row, c, d); });
}

TEST(LaplaceConvolution, ItsGradientIsTheSumOverPlaces) {
  const auto [conv, dense] = measure("mixed");
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t i = 0; i < kPatch; ++i) {
      float sum = 0.0f;
      for (std::size_t p = 0; p < kPlaces; ++p) sum += dense["gradient"][(c * kPlaces + p) * kPixels + pixel(p, i)];
      EXPECT_NEAR(conv["gradient"][c * kPatch + i], sum, 1e-5);
    }
  }
}

// Of the first step, whose curvature the factors underrate: ½VᵀHV is a 25th of the trust; of the dense net, all of it.
TEST(LaplaceConvolution, TheFirstStepIsHeldShorter) {
  const auto first_kl = [](const NewModel& net) {
    const auto after_one = [&](double trust) {
      TestBed bed(
          "laplace", images(),
          {{"method.warm", std::int64_t{0}}, {"method.trust", trust}, {"method.line_search", std::string("never")}},
          net);
      Stream stream(14, "weights");
      for (float& w : bed.theta()) w = static_cast<float>(0.3 * stream.normal());
      bed.rounds(1);
      const auto v = bed.state().at("velocity"), g = bed.state().at("gradient");
      return std::pair(std::inner_product(v.begin(), v.end(), v.begin(), 0.0),
                       std::inner_product(v.begin(), v.end(), g.begin(), 0.0));
    };
    const auto [whole_square, slope] = after_one(0.0);
    return -0.5 * slope * after_one(0.01).first / whole_square;
  };
  // Weights of about 1 are floats, and so the step is known to 1e-7 of them; it is about a hundredth.
  EXPECT_NEAR(first_kl(convolutional), 0.01 / 25.0, 1e-3 * 0.01 / 25.0);
  EXPECT_NEAR(first_kl(unfolded), 0.01, 1e-3 * 0.01);
}

}  // namespace
}  // namespace parley
