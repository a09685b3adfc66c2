#include "parley/engine/staleness.h"

#include <cmath>

namespace parley {

std::string spoils_with_age(const Schema& schema) {
  for (const auto& channel : schema.channels) {
    const auto why = [&](const char* reason) { return "its channel '" + channel.name + "' " + reason; };
    if (channel.weighting == Weighting::each) return why("is not averaged");
    if (!channel.times.empty()) return why("is weighted number by number");
    if (!channel.relative_to.empty()) continue;
    if (channel.statistic) return why("is measured, and no difference");
    if (channel.measured() > 0) return why("holds running statistics behind a difference");
  }
  return "";
}

void bring_forward(Update& update, const Broadcast& then, const Broadcast& now, double factor) {
  const auto& specs = update.schema().channels;
  for (std::size_t c = 0; c < specs.size(); ++c) {
    Flat& values = update.channels()[c];
    const std::string& base = specs[c].relative_to;
    if (base.empty()) {
      for (float& x : values) x = static_cast<float>(factor * static_cast<double>(x));
      continue;
    }
    const auto before = then.at(base), here = now.at(base);
    const std::size_t learned = specs[c].statistic ? 0 : values.size() - specs[c].measured();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double change = static_cast<double>(values[i]) - static_cast<double>(i < learned ? before[i] : here[i]);
      values[i] = static_cast<float>(static_cast<double>(here[i]) + factor * change);
    }
  }
}

double discount(std::size_t staleness, double power) {
  return std::pow(1.0 + static_cast<double>(staleness), -power);
}

}  // namespace parley
