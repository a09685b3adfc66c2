#include "parley/model/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "parley/base/random.h"

namespace parley {
namespace {

Flat draw(std::size_t size, Stream& stream) {
  Flat values(size);
  for (float& value : values) value = static_cast<float>(2.0 * stream.uniform() - 1.0);
  return values;
}

struct Case {
  explicit Case(const ConvolutionShape& of, std::size_t number = 1) : shape(of), images(number) {}

  ConvolutionShape shape;
  std::size_t images;
  Stream stream{1, "winograd"};
  Flat inputs = draw(images * shape.inputs(), stream), deltas = draw(images * shape.outputs(), stream);
  Flat weight = draw(shape.in * shape.out * shape.kernel * shape.kernel, stream), bias = draw(shape.out, stream);
};

// use(index of an output, of an input, of a weight) for every product of the convolution.
template <class Use>
void for_products(const Case& of, Use use) {
  const auto& [in, out, kernel, padding, height, width] = of.shape;
  for (std::size_t position = 0; position < of.images * of.shape.positions(); ++position) {
    const std::size_t image = position / of.shape.positions();
    const std::size_t top = position % of.shape.positions() / of.shape.out_width();
    const std::size_t left = position % of.shape.out_width();
    for (std::size_t place = 0; place < kernel * kernel; ++place) {
      const std::size_t y = top + place / kernel - padding, x = left + place % kernel - padding;  // huge outside
      if (y >= height || x >= width) continue;
      for (std::size_t i = 0; i < in; ++i) {
        for (std::size_t o = 0; o < out; ++o) {
          use(position * out + o, ((image * height + y) * width + x) * in + i, (o * in + i) * kernel * kernel + place);
        }
      }
    }
  }
}

double largest(const std::vector<double>& values) {
  return std::abs(*std::ranges::max_element(values, {}, [](double value) { return std::abs(value); }));
}

void expect_near(const Flat& values, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(values.size(), expected.size());
  std::vector<double> difference(expected);
  for (std::size_t i = 0; i < expected.size(); ++i) difference[i] -= values[i];
  // 1.5e-5 was the most over the shapes here; a wrong coefficient of a transform gives 1e-2 and more.
  EXPECT_LT(largest(difference), 4e-5 * largest(expected)) << what;
}

// Padded and not; tiles that end with the image and that reach over it, either way; more tiles than go at once.
class WinogradShapes : public testing::TestWithParam<Case> {};

TEST_P(WinogradShapes, AgreesWithTheSumsOfProducts) {
  const Case& of = GetParam();
  std::vector<double> outputs(of.deltas.size()), by_weight(of.weight.size()), by_inputs(of.inputs.size());
  std::vector<double> by_bias(of.bias.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = of.bias[i % of.shape.out];
    by_bias[i % of.shape.out] += of.deltas[i];
  }
  for_products(of, [&](std::size_t output, std::size_t input, std::size_t weight) {
    outputs[output] += double{of.inputs[input]} * of.weight[weight];
    by_weight[weight] += double{of.inputs[input]} * of.deltas[output];
    by_inputs[input] += double{of.weight[weight]} * of.deltas[output];
  });
  ASSERT_TRUE(Winograd::suits(of.shape));
  Winograd winograd(of.shape);
  Flat z(outputs.size()), w(by_weight.size()), b(by_bias.size()), x(by_inputs.size());
  for (int step = 0; step < 2; ++step) {  // nothing of the first may be left over in the second
    winograd.forward(of.images, of.inputs.data(), of.weight.data(), of.bias.data(), z.data());
    winograd.backward(of.images, of.inputs.data(), of.deltas.data(), of.weight.data(), w.data(), b.data(), x.data());
    expect_near(z, outputs, "outputs");
    expect_near(w, by_weight, "weight");
    expect_near(b, by_bias, "bias");
    expect_near(x, by_inputs, "inputs");
  }
}

INSTANTIATE_TEST_SUITE_P(All, WinogradShapes,
                         testing::Values(Case({32, 64, 5, 2, 14, 14}, 6), Case({32, 32, 5, 0, 12, 12}, 2),
                                         Case({64, 32, 5, 2, 7, 7}, 3), Case({32, 32, 5, 1, 9, 6}),
                                         Case({32, 32, 5, 0, 5, 5}), Case({32, 32, 5, 4, 5, 6}),
                                         Case({32, 32, 5, 2, 36, 36})));

// Evaluation and training may take other batches of the same images.
TEST(Winograd, AnImageComesOutTheSameInAnyBatch) {
  const Case of({32, 64, 5, 2, 14, 14}, 7);
  Winograd winograd(of.shape);
  Flat together(of.deltas.size()), alone(of.deltas.size());
  winograd.forward(of.images, of.inputs.data(), of.weight.data(), nullptr, together.data());
  for (std::size_t i = 0; i < of.images; ++i) {
    winograd.forward(1, of.inputs.data() + i * of.shape.inputs(), of.weight.data(), nullptr,
                     alone.data() + i * of.shape.outputs());
  }
  EXPECT_EQ(together, alone);
}

TEST(Winograd, SuitsWideKernelsOfFiveAlone) {
  EXPECT_TRUE(Winograd::suits({32, 32, 5, 2, 14, 14}));
  EXPECT_FALSE(Winograd::suits({32, 32, 3, 1, 14, 14}));
  EXPECT_FALSE(Winograd::suits({16, 32, 5, 2, 14, 14}));
  EXPECT_FALSE(Winograd::suits({32, 33, 5, 2, 14, 14}));
}

}  // namespace
}  // namespace parley
