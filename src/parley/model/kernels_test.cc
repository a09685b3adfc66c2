#include "parley/model/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <thread>
#include <vector>

#include "parley/base/random.h"

namespace parley {
namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  Stream stream(seed, "values");
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(stream.uniform(-1.0, 1.0));
  return values;
}

struct Shape {
  std::size_t rows, columns, inner;
};

struct Product {
  Form a, b;
  Shape shape;

  std::vector<float> run(std::size_t shift = 0) const {
    const auto [rows, columns, inner] = shape;
    auto left = random_values(rows * inner + shift, 1), right = random_values(inner * columns + shift, 2);
    std::rotate(left.begin(), left.end() - static_cast<std::ptrdiff_t>(shift), left.end());
    std::rotate(right.begin(), right.end() - static_cast<std::ptrdiff_t>(shift), right.end());
    std::vector<float> result(rows * columns + shift, 0.5f);
    multiply(a, b, rows, columns, inner, left.data() + shift, right.data() + shift, result.data() + shift, 2.0f, 1.0f);
    result.erase(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(shift));
    return result;
  }
};

// Batches of 1, 10, 32 and one for evaluation; a width of one; sizes that no vector divides.
const std::vector<Shape> kShapes{{1, 1, 1},     {10, 200, 784}, {200, 784, 10}, {10, 200, 200},
                                 {32, 10, 300}, {1, 33, 17},    {500, 10, 127}, {61, 1, 45}};
const std::pair<Form, Form> kForms[] = {{Form::plain, Form::plain},
                                        {Form::plain, Form::transposed},
                                        {Form::transposed, Form::plain},
                                        {Form::transposed, Form::transposed}};

TEST(Multiply, IsTheProductToRounding) {
  for (const auto& shape : kShapes) {
    for (const auto& [op_a, op_b] : kForms) {
      const auto [rows, columns, inner] = shape;
      const auto left = random_values(rows * inner, 1), right = random_values(inner * columns, 2);
      const auto result = Product{op_a, op_b, shape}.run();
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          double expected = 0.0, size = 1.0;
          for (std::size_t k = 0; k < inner; ++k) {
            const double term = double{op_a == Form::plain ? left[i * inner + k] : left[k * rows + i]} *
                                double{op_b == Form::plain ? right[k * columns + j] : right[j * inner + k]};
            expected += term;
            size += 2.0 * std::abs(term);
          }
          // `inner` additions of floats, each half an ulp (2⁻²⁴) off at the most, of sums up to `size`.
          const double tolerance = static_cast<double>(inner + 2) * 0x1p-24 * size;
          ASSERT_NEAR(result[i * columns + j], 2.0 * expected + 0.5, tolerance)
              << rows << " " << columns << " " << inner;
        }
      }
    }
  }
}

TEST(Multiply, LeavesWhatLiesBetweenTheRows) {
  const auto a = random_values(6, 3), b = random_values(6, 4);
  std::vector<float> c(8, 7.0f);
  multiply(2, 2, 3, {a.data(), 3}, {b.data(), 2}, c.data(), 4);
  EXPECT_EQ(c[2], 7.0f);
  EXPECT_EQ(c[3], 7.0f);
  EXPECT_NEAR(c[5], a[3] * b[1] + a[4] * b[3] + a[5] * b[5], 1e-6);
}

TEST(Multiply, GivesTheSameBitsOnAnyThreadAndAtAnyAddress) {
  for (const auto& shape : kShapes) {
    for (const auto& [op_a, op_b] : kForms) {
      const Product product{op_a, op_b, shape};
      const auto here = product.run();
      for (const std::size_t shift : {1, 3, 8}) ASSERT_EQ(product.run(shift), here);
      std::vector<float> first, second;
      std::thread one([&] { first = product.run(); }), two([&] { second = product.run(5); });
      one.join();
      two.join();
      ASSERT_EQ(first, here);
      ASSERT_EQ(second, here);
    }
  }
}

TEST(Kernels, AreNamed) {
  EXPECT_TRUE(kernels_in_use().starts_with("oneDNN ")) << kernels_in_use();
}

TEST(Kernels, OfOpenBlasFollowTheFeatures) {
#ifdef __x86_64__
  const std::string core = openblas_core_of_this_cpu();
  EXPECT_EQ(core == "SkylakeX", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"));
  EXPECT_EQ(core.empty(), !__builtin_cpu_supports("avx"));
#endif
}

}  // namespace
}  // namespace parley
