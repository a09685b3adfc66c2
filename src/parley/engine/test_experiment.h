// What the engine's tests share: experiments from a text.
#pragma once

#include <string>
#include <vector>

#include "parley/engine/experiment.h"

namespace parley {

inline const Catalogue& catalogue() {
  static const Catalogue instance;
  return instance;
}

inline Settings settings_of(const char* toml, const std::vector<std::string>& assignments) {
  Config config = Config::parse(toml, "small.toml");
  for (const auto& assignment : assignments) config.set(assignment);
  return resolve(config, catalogue());
}

inline Experiment experiment_of(const char* toml, const std::vector<std::string>& assignments) {
  DataCache cache;
  return build(settings_of(toml, assignments), catalogue(), cache);
}

}  // namespace parley
