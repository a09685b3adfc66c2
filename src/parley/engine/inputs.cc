#include "parley/engine/inputs.h"

#include "parley/base/errors.h"
#include "parley/base/fingerprint.h"

namespace parley {
namespace {

template <class Number>
void add(Fingerprint& sum, std::span<const Number> numbers) {
  const std::uint64_t count = numbers.size();
  sum.add_all(std::span(&count, 1)).add_all(numbers);
}
template <class Number>
void add(Fingerprint& sum, const std::vector<Number>& numbers) {
  add(sum, std::span<const Number>(numbers));
}

std::string fingerprint_of(const Dataset& data) {
  Fingerprint sum;
  add(sum, data.shape);
  std::visit([&](const auto& values) { add(sum, std::span(values)); }, data.values);
  add(sum, data.transform.scale);
  add(sum, data.transform.shift);
  add(sum, data.labels);
  add(sum, data.targets);
  add(sum, data.users);
  return sum.text();
}

std::string fingerprint_of(const Partition& partition) {
  Fingerprint sum;
  for (const auto rows : partition.clients) add(sum, rows);
  for (const auto& order : partition.permutations) add(sum, order);
  return sum.text();
}

std::string fingerprint_of(const Flat& weights) {
  return Fingerprint().add_all(std::span<const float>(weights)).text();
}

// "data.path = \"x.csv\"" when the section names a file, else "data.name = \"mnist\"".
std::string place(const Options& section, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (section.has(key) && !section.text(key).empty()) {
      return fmt::format("{}.{} = {}", section.where(), key, to_toml(Value(section.text(key))));
    }
  }
  return fmt::format("[{}]", section.where());
}

}  // namespace

Json fingerprints_of_inputs(const Experiment& experiment) {
  const auto& settings = experiment.settings;
  const std::string data = place(settings.data, {"path", "name"});
  Json inputs = {
      {data + ", training examples", fingerprint_of(*experiment.federated.data.train)},
      {data + ", test examples", fingerprint_of(*experiment.federated.data.test)},
      {place(settings.partition, {"path", "kind"}) + ", the rows of each client",
       fingerprint_of(experiment.federated.partition)},
      {place(settings.model, {"init", "path", "name"}) + ", the initial weights", fingerprint_of(experiment.initial)}};
  // A network that was written elsewhere is more than its weights.
  if (settings.model.has("path")) {
    inputs[place(settings.model, {"path"})] = fingerprint(read_file(settings.model.text("path")));
  }
  if (settings.among_peers && settings.graph.has("path")) {
    inputs[place(settings.graph, {"path"})] = fingerprint(read_file(settings.graph.text("path")));
  }
  if (experiment.ood) inputs[place(settings.evaluate, {"ood"})] = fingerprint_of(*experiment.ood);
  if (!experiment.reference.empty()) {
    inputs[place(settings.evaluate, {"reference"})] = fingerprint_of(experiment.reference);
  }
  return inputs;
}

void require_same_inputs(const Json& now, const Json& before, const std::filesystem::path& folder) {
  for (const auto& [name, fingerprint] : now.items()) {
    if (!before.contains(name) || before[name] == fingerprint) continue;
    fail("{}: not what the run in {} began with: the content has changed; restore it, or choose another --out", name,
         folder.string());
  }
}

}  // namespace parley
