#include "parley/engine/peer/belief.h"

#include <algorithm>
#include <cassert>

namespace parley {

NodeTest test_classes(Model& model, const View& view, EvaluationBuffer& buffer) {
  const std::size_t classes = view.data->classes;
  std::vector<std::size_t> there(classes), predicted(classes), right(classes);
  for (std::size_t begin = 0; begin < view.size(); begin += kEvaluationChunk) {
    const Batch batch = buffer.batch.gather_range(view, begin, std::min(begin + kEvaluationChunk, view.size()));
    buffer.outputs.resize(batch.size * classes);
    model.predict(batch, buffer.outputs);
    for (std::size_t i = 0; i < batch.size; ++i) {
      const auto row = std::span(buffer.outputs).subspan(i * classes, classes);
      const auto label = static_cast<std::size_t>(batch.labels[i]);
      const auto best = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
      ++there[label];
      ++predicted[best];
      right[label] += best == label;
    }
  }
  NodeTest test{.f1 = std::vector<double>(classes)};
  for (std::size_t c = 0; c < classes; ++c) {
    const std::size_t sum = there[c] + predicted[c];  // F1 = 2·TP / (2·TP + FN + FP)
    test.f1[c] = sum == 0 ? 0.0 : 2.0 * static_cast<double>(right[c]) / static_cast<double>(sum);
    test.accuracy += static_cast<double>(right[c]) / static_cast<double>(view.size());
  }
  return test;
}

void update_belief(std::span<double> belief, std::span<const double> f1, double discount) {
  assert(belief.size() == f1.size());
  for (std::size_t c = 0; c < belief.size(); ++c) belief[c] = std::max((1.0 - discount) * belief[c], f1[c]);
}

double benefit(std::span<const double> belief, const std::vector<bool>& present) {
  assert(belief.size() == present.size());
  double sum = 0.0;
  for (std::size_t c = 0; c < belief.size(); ++c) sum += std::max(present[c] ? 1.0 : 0.0, belief[c]);
  return sum;
}

std::vector<bool> presence(const View& data, double flip, Stream stream) {
  std::vector<bool> present(data.data->classes);
  for (const auto row : data.rows) present[static_cast<std::size_t>(data.data->labels[row])] = true;
  for (std::size_t c = 0; c < present.size(); ++c) {
    if (stream.uniform() < flip) present[c] = !present[c];
  }
  return present;
}

}  // namespace parley
