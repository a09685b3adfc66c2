#include "parley/data/normalize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "parley/base/errors.h"

namespace parley {
namespace {

struct Measured {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double sum = 0,
         squares = 0;  // of the distances from `origin`, so that large values lose no digits
  double origin = 0;
};

template <class T>
std::vector<Measured> measure(std::span<const T> values, std::size_t features, std::size_t channels) {
  const std::size_t run = features / channels;
  std::vector<Measured> moments(channels);
  for (std::size_t c = 0; c < channels; ++c) moments[c].origin = static_cast<double>(values[c * run]);
  for (std::size_t row = 0; row < values.size(); row += features) {
    for (std::size_t c = 0; c < channels; ++c) {
      Measured& m = moments[c];
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

Affine to_range(const std::vector<Measured>& moments) {
  Affine affine;
  for (const auto& m : moments) {
    const double scale = m.high > m.low ? 1.0 / (m.high - m.low) : 1.0;
    push(affine, scale, -m.low * scale);
  }
  return affine;
}

Affine to_standard(const std::vector<Measured>& moments, double count) {
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

bool holds_bytes(const Dataset& data) {
  return std::holds_alternative<Values<std::uint8_t>>(data.values);
}

std::vector<Measured> measure_inputs(const Dataset& data) {
  return std::visit([&](const auto& values) { return measure(std::span(values), data.features(), channels_of(data)); },
                    data.values);
}

double values_per_channel(const Dataset& data) {
  return static_cast<double>(data.size() * (data.features() / channels_of(data)));
}

std::vector<Moments> moments_of(const std::vector<Measured>& measured, double count) {
  std::vector<Moments> moments;
  for (const auto& m : measured) {
    const double offset = m.sum / count;
    moments.push_back({m.origin + offset, std::max(0.0, m.squares / count - offset * offset)});
  }
  return moments;
}

void require_as_many(const Affine& scales, std::size_t expected, const std::string& name, const char* what) {
  const std::size_t count = scales.scale.size();
  if (scales.shift.size() == count && (count == 0 || count == expected)) return;
  fail("the agreed scales are for {} {}, and '{}' has {}; see that the data have the same shape", count, what, name,
       expected);
}

}  // namespace

std::size_t channels_of(const Dataset& data) {
  return data.shape.size() == 1 || data.shape.size() == 3 ? static_cast<std::size_t>(data.shape[0]) : 1;
}

std::string normalization(const Dataset& data, const std::string& kind) {
  return kind == "auto" ? automatic(data.content, holds_bytes(data)) : kind;
}

Affine normalizer(const Dataset& train, const std::string& chosen) {
  const bool bytes = holds_bytes(train);
  const std::string kind = normalization(train, chosen);
  if (kind == "none") return {};
  if (train.content == Content::tokens) {
    fail("data.normalize = \"{}\": '{}' has token ids, which must stay what they are; expected \"auto\" or \"none\"",
         kind, train.name);
  }
  if (bytes && kind != "standard") return {{1.0f / 255.0f}, {0.0f}};
  const auto measured = measure_inputs(train);
  if (kind == "unit") return to_range(measured);
  assert(kind == "standard");
  return to_standard(measured, values_per_channel(train));
}

void standardize_targets(Dataset& train, Dataset& test) {
  const Affine affine =
      to_standard(measure(std::span(std::as_const(train.targets)), train.target_size, train.target_size),
                  static_cast<double>(train.size()));
  for (Dataset* part : {&train, &test}) {
    for (std::size_t i = 0; i < part->targets.size(); ++i) {
      const std::size_t j = i % part->target_size;
      part->targets[i] = part->targets[i] * affine.scale[j] + affine.shift[j];
    }
    part->target_transform = affine;
  }
}

std::vector<Moments> input_moments(const Dataset& data) {
  return moments_of(measure_inputs(data), values_per_channel(data));
}

std::vector<Moments> target_moments(const Dataset& data) {
  auto moments = moments_of(measure(std::span(data.targets), data.target_size, data.target_size),
                            static_cast<double>(data.size()));
  for (std::size_t j = 0; j < data.target_transform.scale.size(); ++j) {
    const auto scale = static_cast<double>(data.target_transform.scale[j]);
    moments[j].mean = (moments[j].mean - static_cast<double>(data.target_transform.shift[j])) / scale;
    moments[j].variance /= scale * scale;
  }
  return moments;
}

Affine standardizer(std::span<const MeasuredPart> parts) {
  std::vector<Measured> all(parts.front().moments.size());
  for (std::size_t c = 0; c < all.size(); ++c) all[c].origin = parts.front().moments[c].mean;
  double rows = 0.0;
  for (const auto& part : parts) {
    const auto weight = static_cast<double>(part.rows);
    rows += weight;
    for (std::size_t c = 0; c < all.size(); ++c) {
      const double distance = part.moments[c].mean - all[c].origin;
      all[c].sum += weight * distance;
      all[c].squares += weight * (part.moments[c].variance + distance * distance);
    }
  }
  return to_standard(all, rows);
}

std::shared_ptr<const Dataset> rescaled(const Dataset& data, const Scales& scales) {
  if (scales.inputs.scale.size() != 1) require_as_many(scales.inputs, channels_of(data), data.name, "channels");
  if (data.target_size > 0) require_as_many(scales.targets, data.target_size, data.name, "targets");
  auto result = std::make_shared<Dataset>(data);
  result->transform = scales.inputs;
  const auto pair = [](const Affine& affine, std::size_t j) {
    return affine.scale.empty() ? std::pair(1.0, 0.0)
                                : std::pair(static_cast<double>(affine.scale[j]), static_cast<double>(affine.shift[j]));
  };
  for (std::size_t i = 0; i < data.targets.size(); ++i) {
    const std::size_t j = i % data.target_size;
    const auto [scale, shift] = pair(data.target_transform, j);
    const auto [new_scale, new_shift] = pair(scales.targets, j);
    const double own = (static_cast<double>(data.targets[i]) - shift) / scale;
    result->targets[i] = static_cast<float>(own * new_scale + new_shift);
  }
  result->target_transform = scales.targets;
  return result;
}

}  // namespace parley
