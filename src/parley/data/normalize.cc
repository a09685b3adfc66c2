#include "parley/data/normalize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "parley/base/errors.h"

namespace parley {
namespace {

struct Moments {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double sum = 0,
         squares = 0;  // of the distances from `origin`, so that large values lose no digits
  double origin = 0;
};

std::size_t channels_of(const Dataset& data) {
  return data.shape.size() == 1 || data.shape.size() == 3 ? static_cast<std::size_t>(data.shape[0]) : 1;
}

template <class T>
std::vector<Moments> measure(const std::vector<T>& values, std::size_t features, std::size_t channels) {
  const std::size_t run = features / channels;
  std::vector<Moments> moments(channels);
  for (std::size_t c = 0; c < channels; ++c) moments[c].origin = static_cast<double>(values[c * run]);
  for (std::size_t row = 0; row < values.size(); row += features) {
    for (std::size_t c = 0; c < channels; ++c) {
      Moments& m = moments[c];
      for (std::size_t i = row + c * run; i < row + (c + 1) * run; ++i) {
        const auto x = static_cast<double>(values[i]);
        const double distance = x - m.origin;
        m.low = std::min(m.low, x);
        m.high = std::max(m.high, x);
        m.sum += distance;
        m.squares += distance * distance;
      }
    }
  }
  return moments;
}

void push(Affine& affine, double scale, double shift) {
  affine.scale.push_back(static_cast<float>(scale));
  affine.shift.push_back(static_cast<float>(shift));
}

Affine to_range(const std::vector<Moments>& moments) {
  Affine affine;
  for (const auto& m : moments) {
    const double scale = m.high > m.low ? 1.0 / (m.high - m.low) : 1.0;
    push(affine, scale, -m.low * scale);
  }
  return affine;
}

Affine to_standard(const std::vector<Moments>& moments, double count) {
  Affine affine;
  for (const auto& m : moments) {
    const double offset = m.sum / count;
    const double deviation = std::sqrt(std::max(0.0, m.squares / count - offset * offset));
    const double scale = deviation > 0 ? 1.0 / deviation : 1.0;
    push(affine, scale, -(m.origin + offset) * scale);
  }
  return affine;
}

std::string automatic(Content content, bool bytes) {
  switch (content) {
    case Content::measurements: return "standard";
    case Content::tokens: return "none";
    case Content::numbers: break;
  }
  return bytes ? "unit" : "none";
}

}  // namespace

Affine normalizer(const Dataset& train, const std::string& chosen) {
  const bool bytes = std::holds_alternative<std::vector<std::uint8_t>>(train.values);
  const std::string kind = chosen == "auto" ? automatic(train.content, bytes) : chosen;
  if (kind == "none") return {};
  if (train.content == Content::tokens) {
    fail("data.normalize = \"{}\": '{}' has token ids, which must stay what they are; expected \"auto\" or \"none\"",
         kind, train.name);
  }
  if (bytes && kind != "standard") return {{1.0f / 255.0f}, {0.0f}};
  const std::size_t channels = channels_of(train);
  const auto moments =
      std::visit([&](const auto& values) { return measure(values, train.features(), channels); }, train.values);
  if (kind == "unit") return to_range(moments);
  assert(kind == "standard");
  return to_standard(moments, static_cast<double>(train.size() * (train.features() / channels)));
}

void standardize_targets(Dataset& train, Dataset& test) {
  const Affine affine =
      to_standard(measure(train.targets, train.target_size, train.target_size), static_cast<double>(train.size()));
  for (Dataset* part : {&train, &test}) {
    for (std::size_t i = 0; i < part->targets.size(); ++i) {
      const std::size_t j = i % part->target_size;
      part->targets[i] = part->targets[i] * affine.scale[j] + affine.shift[j];
    }
    part->target_transform = affine;
  }
}

}  // namespace parley
