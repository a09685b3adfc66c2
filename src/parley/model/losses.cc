#include "parley/model/losses.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace parley {

double softmax(std::span<float> row) {
  // The largest logit is taken off first, so no exp can overflow. A NaN is not hidden by the
  // maximum: it stays in its own place and reaches the total.
  float largest = row[0];
  for (const float z : row) largest = std::max(largest, z);
  float total = 0.0f;
  for (float& z : row) total += z = std::exp(z - largest);
  const float inverse = 1.0f / total;
  for (float& z : row) z *= inverse;
  return static_cast<double>(largest) + std::log(static_cast<double>(total));
}

double cross_entropy(const Batch& batch, std::size_t width, std::span<float> outputs) {
  assert(batch.labels.size() == batch.size && outputs.size() == batch.size * width);
  const float scale = 1.0f / static_cast<float>(batch.size);
  double total = 0.0;
  for (std::size_t i = 0; i < batch.size; ++i) {
    const auto row = outputs.subspan(i * width, width);
    const auto label = static_cast<std::size_t>(batch.labels[i]);
    assert(label < width);
    const auto logit = static_cast<double>(row[label]);
    total += softmax(row) - logit;
    row[label] -= 1.0f;
    for (float& z : row) z *= scale;
  }
  return total / static_cast<double>(batch.size);
}

double squared_error(const Batch& batch, std::size_t width, std::span<float> outputs) {
  assert(outputs.size() == batch.size * width);
  const bool one_hot = !batch.labels.empty();
  assert(one_hot || batch.targets.size() == outputs.size());
  const float scale = 2.0f / static_cast<float>(outputs.size());
  double total = 0.0;
  for (std::size_t i = 0; i < batch.size; ++i) {
    const auto row = outputs.subspan(i * width, width);
    if (one_hot) {
      row[static_cast<std::size_t>(batch.labels[i])] -= 1.0f;
    } else {
      for (std::size_t c = 0; c < width; ++c) row[c] -= batch.targets[i * width + c];
    }
    for (float& z : row) {
      total += static_cast<double>(z) * static_cast<double>(z);
      z *= scale;
    }
  }
  return total / static_cast<double>(outputs.size());
}

}  // namespace parley
