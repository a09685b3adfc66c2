#include "parley/data/dataset.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace parley {
namespace {

// One contiguous run of values through one affine map; the compiler vectorises it.
template <class T>
void convert(const T* from, float* to, std::size_t count, float scale, float shift) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale + shift;
}

template <class T>
void convert_row(const T* from, float* to, const Dataset& data) {
  const std::size_t features = data.features();
  const auto& [scale, shift] = data.transform;
  if (scale.empty()) return convert(from, to, features, 1.0f, 0.0f);
  const std::size_t run = features / scale.size();
  for (std::size_t c = 0; c < scale.size(); ++c) convert(from + c * run, to + c * run, run, scale[c], shift[c]);
}

template <class T>
void convert_permuted(const T* from, float* to, const Dataset& data, std::span<const std::uint32_t> permutation) {
  const auto& [scale, shift] = data.transform;
  const std::size_t run = scale.empty() ? 1 : data.features() / scale.size();
  for (std::size_t j = 0; j < permutation.size(); ++j) {
    const auto value = static_cast<float>(from[permutation[j]]);
    const std::size_t c = permutation[j] / run;
    to[j] = scale.empty() ? value : value * scale[c] + shift[c];
  }
}

// Asks for a row that will be read soon. A client's rows lie all over the memory: waiting for them took a quarter of
// logistic regression's training. Of a long row the processor sees by itself where it goes on.
template <class T>
void prefetch(const T* row, std::size_t features) {
  constexpr std::size_t kLine = 64, kMost = 4096;
  const auto* const first = reinterpret_cast<const std::byte*>(row);
  for (std::size_t at = 0; at < std::min(features * sizeof(T), kMost); at += kLine) __builtin_prefetch(first + at);
}

}  // namespace

std::size_t Dataset::features() const {
  std::size_t count = 1;
  for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::size_t Dataset::size() const {
  return classes > 0 ? labels.size() : target_size > 0 ? targets.size() / target_size : 0;
}

std::size_t Dataset::bytes() const {
  const std::size_t raw = std::visit([](const auto& v) { return v.size() * sizeof(v[0]); }, values);
  return raw + labels.size() * sizeof(labels[0]) + targets.size() * sizeof(float) + users.size() * sizeof(users[0]);
}

template <class RowOf>
Batch BatchBuffer::fill(const View& view, std::size_t count, RowOf row_of) {
  constexpr std::size_t kAhead = 3;  // rows
  const Dataset& data = *view.data;
  const std::size_t features = data.features();
  inputs_.resize(count * features);
  std::visit(
      [&](const auto& values) {
        const auto at = [&](std::size_t i) { return values.data() + std::size_t{row_of(i)} * features; };
        for (std::size_t i = 0; i < std::min(kAhead, count); ++i) prefetch(at(i), features);
        for (std::size_t i = 0; i < count; ++i) {
          if (i + kAhead < count) prefetch(at(i + kAhead), features);
          const auto* from = at(i);
          if (view.permutation.empty()) {
            convert_row(from, inputs_.data() + i * features, data);
          } else {
            convert_permuted(from, inputs_.data() + i * features, data, view.permutation);
          }
        }
      },
      data.values);
  Batch batch{.size = count, .inputs = inputs_};
  if (data.classes > 0) {
    labels_.resize(count);
    for (std::size_t i = 0; i < count; ++i) labels_[i] = data.labels[row_of(i)];
    batch.labels = labels_;
  } else {
    targets_.resize(count * data.target_size);
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(data.targets.begin() + std::size_t{row_of(i)} * data.target_size, data.target_size,
                  targets_.begin() + i * data.target_size);
    }
    batch.targets = targets_;
  }
  return batch;
}

Batch BatchBuffer::gather(const View& view, std::span<const std::uint32_t> positions) {
  return fill(view, positions.size(), [&](std::size_t i) { return view.rows[positions[i]]; });
}

Batch BatchBuffer::gather_range(const View& view, std::size_t begin, std::size_t end) {
  assert(begin <= end && end <= view.size());
  return fill(view, end - begin, [&](std::size_t i) { return view.rows[begin + i]; });
}

WholeView::WholeView(const Dataset& data) : rows_(data.size()) {
  std::iota(rows_.begin(), rows_.end(), 0u);
  view_ = {.data = &data, .rows = rows_};
}

}  // namespace parley
