#include "parley/model/cnn.h"
#include "parley/model/mlp.h"
#include "parley/model/model.h"
#include "parley/model/quadratic.h"

namespace parley {

std::size_t Task::features() const {
  std::size_t numbers = 1;
  for (const auto extent : input_shape) numbers *= static_cast<std::size_t>(extent);
  return numbers;
}

ModelRegistry native_models() {
  ModelRegistry registry("model");
  add_linear(registry);
  add_logistic(registry);
  add_mlp(registry);
  add_quadratic(registry);
  add_cnns(registry);
  return registry;
}

const MakeModel& choose_backend(const ModelRegistry::Entry& entry, const std::string& backend) {
  const Backends& backends = entry.make;
  assert(!backends.empty());
  const auto found = backends.find(backend);
  if (found != backends.end()) return found->second;
  if (backend == "auto") {
    const auto native = backends.find("native");
    return native != backends.end() ? native->second : backends.begin()->second;
  }
  std::vector<std::string> known{"auto"};
  for (const auto& [name, make] : backends) known.push_back(name);
  fail("model.backend: {} (for model.name = \"{}\")", unknown_name("backend", backend, known), entry.about.name);
}

}  // namespace parley
