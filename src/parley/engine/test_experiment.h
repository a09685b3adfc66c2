// What the engine's tests share: experiments from a text.
#pragma once

#include <string>
#include <vector>

#include "parley/engine/experiment.h"
#include "parley/engine/normed_model.h"

namespace parley {

// Everything there is, and `normed`: an mlp with a norm layer beside it, for methods that need its statistics.
inline const Catalogue& catalogue() {
  static const Catalogue instance = [] {
    Catalogue all;
    const auto& mlp = all.models.at("mlp");
    const MakeModel make = [inner = mlp.make.at("native")](const Options& options, const Task& task) {
      return std::make_unique<NormedModel>(inner(options, task), static_cast<std::size_t>(task.input_shape[0]));
    };
    all.models.add({.name = "normed", .summary = "", .source = "", .options = mlp.about.options}, {{"native", make}});
    return all;
  }();
  return instance;
}

using Texts = std::vector<std::string>;

inline Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline constexpr const char* kTwelveClients = R"(
[run]
rounds = 5
[data]
name = "synthetic"
rows = 400
features = 8
classes = 4
[partition]
kind = "dirichlet"
clients = 12
alpha = 1.0
[model]
name = "mlp"
hidden = [6]
[client]
batch = 8
lr = 0.05
)";

inline Settings settings_of(const char* toml, const std::vector<std::string>& assignments) {
  Config config = Config::parse(toml, "small.toml");
  for (const auto& assignment : assignments) config.set(assignment);
  return resolve(config, catalogue());
}

inline Experiment experiment_of(const char* toml, const std::vector<std::string>& assignments) {
  DataCache cache;
  return build(settings_of(toml, assignments), catalogue(), cache);
}

// Gives every row of a client this number as its first feature: too large, and the client diverges.
inline void set_first_feature(Experiment& experiment, std::size_t client, float value) {
  auto data = std::make_shared<Dataset>(*experiment.federated.data.train);
  const auto& before = std::get<Values<float>>(data->values);
  std::vector<float> values(before.begin(), before.end());
  for (const auto row : experiment.federated.partition.clients[client]) values[row * data->features()] = value;
  data->values = std::move(values);
  experiment.federated.data.train = data;
}

}  // namespace parley
