#include "parley/engine/settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "parley/base/errors.h"
#include "parley/engine/aliases.h"
#include "parley/engine/peer/network.h"
#include "parley/methods/aggregate.h"

namespace parley {
namespace {

std::vector<Option> run_options() {
  return {
      {"seed", std::int64_t{1}, "names every random stream of the run", at_least(0)},
      {"rounds", std::int64_t{10}, "rounds of communication", at_least(1)},
      {"checkpoint_every", std::int64_t{1}, "rounds between checkpoints; 0 writes none", at_least(0)},
      {"checkpoint_seconds", 1.0,
       "least seconds between checkpoints, and the most work that a kill can cost rounds that are faster; the first "
       "and "
       "the last round always have one",
       at_least(0.0)},
  };
}

std::vector<Option> model_options(const Catalogue& catalogue) {
  return {
      {"name", std::string("mlp"), "which model", {}, catalogue.models.names()},
      {"backend",
       std::string("auto"),
       "which implementation; auto prefers the native one",
       {},
       {"auto", "native", "torch"}},
      {"init", std::string(), "safetensors file with the initial weights; empty draws them by run.seed", {}, {}, true},
      {"loss",
       std::string("auto"),
       "auto: cross_entropy for classes, mse for numbers",
       {},
       {"auto", "cross_entropy", "mse"}},
  };
}

std::vector<Option> client_options(const Catalogue& catalogue) {
  auto options = LocalOptions::declared();
  options.push_back({"optimizer", std::string("sgd"), "local optimiser", {}, catalogue.optimizers.names()});
  return options;
}

std::vector<Option> server_options(const Catalogue& catalogue) {
  return {
      {"participation", 1.0, "share of the clients in a round, drawn anew each time; at least one",
       Range{.low = 0.0, .high = 1.0, .low_excluded = true}},
      {"cohort",
       std::string("random"),
       "who of these is asked; random: all; fedcs: those that can answer within round_seconds (FedCS)",
       {},
       {"random", "fedcs"}},
      {"steps",
       std::string("all"),
       "all: a client trains as [client] says; adaptive: as much of that as it has time for in round_seconds, at least "
       "one step",
       {},
       {"all", "adaptive"}},
      {"round_seconds", 0.0,
       "how long a client's turn may last, with cohort = \"fedcs\" or steps = \"adaptive\": simulated seconds of "
       "[network], or, with parley serve, seconds as they were measured in earlier rounds",
       at_least(0.0)},
      {"weighting",
       std::string("examples"),
       "a client's share in the average: its number of examples, or the same for all",
       {},
       {"examples", "uniform"}},
      {"rounds",
       std::string("synchronous"),
       "synchronous: a round waits for its cohort; buffered: it ends when the buffer is full, and who comes later "
       "counts "
       "later, for less (FedBuff)",
       {},
       {"synchronous", "buffered"}},
      {.key = "buffer",
       .fallback = std::int64_t{0},
       .meaning = "answers with which a round ends; 0 means the whole cohort",
       .range = at_least(0),
       .only = {{"rounds", {"buffered"}}}},
      {.key = "discount",
       .fallback = 0.5,
       .meaning = "an answer that is t models behind counts (1 + t)^-discount of its change",
       .range = at_least(0.0),
       .only = {{"rounds", {"buffered"}}}},
      {"min_clients", std::int64_t{0}, "stop the run when a round has fewer accepted updates; 0 means half the cohort",
       at_least(0)},
      {"examples", std::int64_t{0},
       "training examples that the server holds itself, taken from the clients at random, for methods that learn there",
       at_least(0)},
      {"step", std::string("replace"), "how the server goes towards the aggregate", {}, catalogue.server_steps.names()},
  };
}

std::vector<Option> method_options(const Catalogue& catalogue) {
  return {{"name", std::string("fedavg"), "which method", {}, catalogue.methods.names()}};
}

std::vector<Option> stages_options() {
  return {{"use", std::vector<std::string>{}, "steps on every update, in this order, for example [\"clip\"]"}};
}

std::vector<Option> evaluate_options() {
  return {
      {"every", std::int64_t{1}, "rounds between evaluations on the test set; the last round is always evaluated",
       at_least(1)},
      {"posterior_samples", std::int64_t{0},
       "networks drawn from the method's posterior, whose mean prediction is evaluated beside the model; 0 = none",
       at_least(0)},
      {"posterior",
       std::string("samples"),
       "what is drawn: samples: whole networks; linearised: their outputs, to first order in the weights about the "
       "model; last_layer: the last layer alone",
       {},
       {"samples", "linearised", "last_layer"}},
      {"posterior_scale", 1.0, "factor on the posterior's covariance; 0 draws the mean", at_least(0.0)},
      {"prior_precision", 1000.0,
       "precision of a weight before any data; 1000 is the spread of fresh weights after 333 inputs", above(0.0)},
      {"temperature", false,
       "also measure the model at the temperature that fits server.examples best (Guo et al. 2017), as tempered_…; for "
       "a finished run, too"},
      {"ood", std::string(),
       "a data set of another kind and the same input shape, to be told from the test set by the model's doubt; empty "
       "= none"},
      {"reference",
       std::string(),
       "model.safetensors of another run, say a central one, with whose running statistics this one's are compared "
       "(bn_kl); empty = none",
       {},
       {},
       true},
      {"clients", false,
       "also measure each client on its own test data (partition.holdout, or its part of the test set): s_… the shared "
       "model, mt_… the client's own model after its last training"},
      {"finetune", std::int64_t{0},
       "after the last round, epochs of further training of the shared model at each client, measured as finetune_…; "
       "needs clients = true",
       at_least(0)},
  };
}

std::vector<Option> store_options() {
  return {{"clients", std::string("memory"), "where clients' own state lives between rounds", {}, {"memory", "disk"}}};
}

std::vector<Option> serve_options() {
  return {
      {"nodes", std::int64_t{0},
       "nodes with data of their own; 0: one node for each client that [partition] deals examples to", at_least(0)},
      {"deadline", 0.0,
       "seconds after which a round goes on without the clients that have not answered; 0 waits for all",
       at_least(0.0)},
      {"quorum", std::int64_t{0},
       "answers that are waited for even beyond the deadline; 0 means server.min_clients, or half the cohort",
       at_least(0)},
      {"enough", std::int64_t{0},
       "answers with which a round goes on at once: the first so many of the cohort; 0 means all of it", at_least(0)},
      {"window", std::int64_t{8}, "answers that the server holds at a time", at_least(1)},
      {"compression",
       std::string("none"),
       "how vectors are packed between the server and nodes that can unpack them",
       {},
       {"none", "zstd"}},
  };
}

std::vector<Option> graph_options(const Catalogue& catalogue) {
  return {{"kind", std::string("complete"), "which graph", {}, catalogue.graphs.names()}};
}

std::vector<Option> joined(std::vector<Option> options, const std::vector<Option>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

// Resolves a section whose key `chooser` names a registry entry that brings options of its own.
template <class Make>
Options resolve_chosen(Config& config, const std::string& section, const std::vector<Option>& common,
                       const std::string& chooser, const Registry<Make>& registry) {
  std::string fallback;
  for (const auto& option : common) {
    if (option.key == chooser) fallback = std::get<std::string>(option.fallback);
  }
  const std::string name = config.text(section, chooser, fallback);
  if (!registry.contains(name)) {
    const std::string elsewhere = known_elsewhere(name);
    config.refuse(section, chooser,
                  elsewhere.empty() ? unknown_name(registry.kind(), name, registry.names())
                                    : fmt::format("unknown {} '{}': {}", registry.kind(), name, elsewhere));
  }
  const auto declared = joined(common, registry.at(name).about.options);
  Options options = config.resolve(section, declared);
  if (section != "method") config.settle(options, declared, {section});  // which has tables beside it
  return options;
}

Options resolve_stages(Config& config, const Catalogue& catalogue) {
  std::vector<Option> options = stages_options();
  if (config.has("stages", "use")) {
    Config copy = config;  // reads the list alone, to learn which stages bring options
    const Options chosen = copy.resolve("stages", options);
    for (const auto& name : chosen.texts("use")) {
      if (!catalogue.stages.contains(name)) {
        config.refuse("stages", "use", unknown_name("stage", name, catalogue.stages.names()));
      }
      options = joined(options, catalogue.stages.at(name).about.options);
    }
  }
  return config.resolve("stages", options);
}

// [method] and, over it, [method.NAME] of the method that is chosen; the other methods' tables are only checked.
Options resolve_method(Config& config, const Catalogue& catalogue) {
  Options chosen = resolve_chosen(config, "method", method_options(catalogue), "name", catalogue.methods);
  for (const auto& entry : catalogue.methods.entries()) {
    const std::string section = "method." + entry.about.name;
    const auto keys = config.keys(section);
    Options own = config.resolve(section, entry.about.options);
    if (entry.about.name != chosen.text("name")) {
      config.settle(own, entry.about.options, {section});
      continue;
    }
    for (const auto& key : keys) {
      if (own.has(key)) chosen.set(key, own.values().find(key)->second);
    }
    config.settle(chosen, entry.about.options, {"method", section});
  }
  return chosen;
}

// data.path and its like are looked for under the data roots first. What is not there but beside the experiment, or in
// the working folder, is named in full: the resolved config must find it from anywhere.
void anchor_data_files(Options& data, const Config& config) {
  const auto there = [](const std::string& path) {
    return std::filesystem::exists(path) || std::filesystem::exists(path + ".gz");
  };
  const DataRoots roots = DataRoots::standard(data.text("root"));
  for (const char* key : {"path", "test_path", "users", "test_users"}) {
    if (!data.has(key)) continue;
    const std::string path = data.text(key);
    if (path.empty() || !roots.find(path).empty() || !roots.find(path + ".gz").empty()) continue;
    if (const std::string full = config.absolute(path); there(full)) data.set(key, full);
  }
}

// "an option of dirichlet, dirichlet_client; partition.kind is iid": for a key that another choice would know.
template <class Make>
std::string owners(const Registry<Make>& registry, const Options& section, const std::string& chooser,
                   const std::string& key) {
  std::vector<std::string> names;
  for (const auto& entry : registry.entries()) {
    if (std::ranges::any_of(entry.about.options, [&](const Option& option) { return option.key == key; })) {
      names.push_back(entry.about.name);
    }
  }
  if (names.empty()) return "";
  return fmt::format("this is an option of {}; {}.{} is \"{}\"", fmt::join(names, ", "), section.where(), chooser,
                     section.text(chooser));
}

std::string belongs_elsewhere(const Settings& settings, const Catalogue& catalogue, const std::string& section,
                              const std::string& key) {
  if (section == "data") return owners(catalogue.datasets, settings.data, "name", key);
  if (section == "partition") return owners(catalogue.partitions, settings.partition, "kind", key);
  if (section == "model") return owners(catalogue.models, settings.model, "name", key);
  if (section == "client") return owners(catalogue.optimizers, settings.client, "optimizer", key);
  if (section == "server") return owners(catalogue.server_steps, settings.server, "step", key);
  if (section == "method") return owners(catalogue.methods, settings.method, "name", key);
  if (section == "graph") return owners(catalogue.graphs, settings.graph, "kind", key);
  return "";
}

// A better answer than the nearest name, when there is one. `key` is "" for a section that is not known.
std::string better_hint(const Settings& settings, const Catalogue& catalogue, const std::string& section,
                        const std::string& key) {
  if (const std::string owner = belongs_elsewhere(settings, catalogue, section, key); !owner.empty()) return owner;
  const std::string& name = key.empty() ? section : key;
  const std::string elsewhere = known_elsewhere(name);
  return elsewhere.empty() ? "" : fmt::format("unknown {} '{}': {}", key.empty() ? "section" : "key", name, elsewhere);
}

// evaluate.ood is a data set that needs nothing but its name.
Options resolve_evaluate(Config& config, const Catalogue& catalogue) {
  Options evaluate = config.resolve("evaluate", evaluate_options());
  std::vector<std::string> known;
  for (const auto& entry : catalogue.datasets.entries()) {
    const auto& options = entry.about.options;
    if (std::ranges::none_of(options, [](const Option& option) { return option.key == "path"; })) {
      known.push_back(entry.about.name);
    }
  }
  if (evaluate.integer("finetune") > 0 && !evaluate.flag("clients")) {
    config.refuse("evaluate", "finetune", "is measured at each client; set evaluate.clients = true");
  }
  const std::string& ood = evaluate.text("ood");
  if (!ood.empty() && std::ranges::find(known, ood) == known.end()) {
    config.refuse("evaluate", "ood", unknown_name("data set", ood, known));
  }
  return evaluate;
}

}  // namespace

Settings resolve(Config config, const Catalogue& catalogue) {
  Settings settings;
  settings.run = config.resolve("run", run_options());
  settings.data = resolve_chosen(config, "data", common_data_options(), "name", catalogue.datasets);
  anchor_data_files(settings.data, config);
  settings.partition = resolve_chosen(config, "partition", common_partition_options(), "kind", catalogue.partitions);
  settings.model = resolve_chosen(config, "model", model_options(catalogue), "name", catalogue.models);
  settings.client = resolve_chosen(config, "client", client_options(catalogue), "optimizer", catalogue.optimizers);
  settings.server = resolve_chosen(config, "server", server_options(catalogue), "step", catalogue.server_steps);
  settings.method = resolve_method(config, catalogue);
  settings.aggregate = config.resolve("aggregate", aggregate_options());
  settings.stages = resolve_stages(config, catalogue);
  settings.evaluate = resolve_evaluate(config, catalogue);
  settings.store = config.resolve("store", store_options());
  settings.network_given = !config.keys("network").empty();
  settings.network = config.resolve("network", Pace::declared());
  settings.graph = resolve_chosen(config, "graph", graph_options(catalogue), "kind", catalogue.graphs);
  settings.peer = config.resolve("peer", Network::declared());
  settings.serve = config.resolve("serve", serve_options());
  settings.among_peers = catalogue.peers.contains(settings.method.text("name"));
  for (const char* section : {"graph", "peer"}) {
    if (!settings.among_peers && !config.keys(section).empty()) settings.unused.push_back(section);
  }
  config.drop("sweep");  // read by `parley sweep`
  config.refuse_unknown([&](const std::string& section, const std::string& key) {
    return better_hint(settings, catalogue, section, key);
  });
  return settings;
}

std::vector<std::pair<std::string, const Options*>> Settings::sections() const {
  std::vector<std::pair<std::string, const Options*>> all = {
      {"run", &run},       {"data", &data},         {"partition", &partition}, {"model", &model},
      {"client", &client}, {"server", &server},     {"method", &method},       {"aggregate", &aggregate},
      {"stages", &stages}, {"evaluate", &evaluate}, {"store", &store},         {"network", &network}};
  if (among_peers) all.insert(all.end(), {{"graph", &graph}, {"peer", &peer}});
  return all;
}

std::string Settings::to_toml() const {
  std::string text;
  for (const auto& [name, options] : sections()) {
    text += fmt::format("[{}]\n", name);
    for (const auto& [key, value] : options->values()) {
      if (!options->inert(key)) text += fmt::format("{} = {}\n", key, parley::to_toml(value));
    }
    text += "\n";
  }
  return text;
}

std::vector<SectionAbout> sections(const Catalogue& catalogue) {
  return {
      {"run", "The run as a whole.", run_options(), ""},
      {"data", "The examples.", common_data_options(), "name"},
      {"partition", "Who holds which examples.", common_partition_options(), "kind"},
      {"model", "What is trained.", model_options(catalogue), "name"},
      {"client", "Training at a client.", client_options(catalogue), "optimizer"},
      {"server", "Who takes part, and what the server does with the aggregate.", server_options(catalogue), "step"},
      {"method",
       "How updates are made and combined. A table [method.NAME] holds options for one method, so that one "
       "file serves a comparison.",
       method_options(catalogue), "name"},
      {"aggregate",
       "What becomes of norm layers and their running statistics, with any method that has a server and sends weights.",
       aggregate_options(), ""},
      {"stages", "Steps between client and sum: clipping, compression.", stages_options(), "use"},
      {"evaluate", "When and how the model is tested.", evaluate_options(), ""},
      {"store", "Where things are kept.", store_options(), ""},
      {"network", "The simulated machines and links, which say what a run would cost in time (simulated_seconds).",
       Pace::declared(), ""},
      {"graph", "Who can talk to whom, with a method of peers (mm, gossip, …).", graph_options(catalogue), "kind"},
      {"peer", "Peers among themselves: visits, failures, arrivals.", Network::declared(), ""},
      {"serve", "How `parley serve` waits for its nodes; a simulation asks nobody to wait.", serve_options(), ""},
  };
}

}  // namespace parley
