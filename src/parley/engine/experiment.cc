#include "parley/engine/experiment.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <stdexcept>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/timeline.h"
#include "parley/data/client_tests.h"
#include "parley/engine/buffered.h"
#include "parley/engine/cohort.h"
#include "parley/engine/peer/peers.h"
#include "parley/engine/time_budget.h"
#include "parley/engine/word_embedding.h"
#include "parley/methods/aggregate.h"
#include "parley/methods/optimizer_state.h"
#include "parley/tensor/safetensors.h"

namespace parley {
namespace {

Task task_of(const Dataset& data, const Options& model) {
  const std::string& loss = model.text("loss");
  const bool classes = data.classes > 0;
  if (!classes && loss == "cross_entropy") {
    fail("model.loss = \"cross_entropy\": data set '{}' has no classes; use \"mse\"", data.name);
  }
  return {.input_shape = data.shape,
          .outputs = classes ? data.classes : data.target_size,
          .loss = loss == "cross_entropy" || (loss == "auto" && classes) ? Loss::cross_entropy : Loss::mse};
}

// What `make` makes, which is as large as this section says. Throws InputError, naming the keys that say how large,
// when that is more than the memory.
template <class Make>
auto within_memory(const Options& section, const Make& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  std::vector<std::string> sizes;
  for (const auto& [key, value] : section.values()) {
    const bool counts =
        std::holds_alternative<std::int64_t>(value) || std::holds_alternative<std::vector<std::int64_t>>(value);
    if (counts) sizes.push_back(fmt::format("{}.{} = {}", section.where(), key, to_toml(value)));
  }
  fail("[{}]: this does not fit into the memory; make it smaller ({})", section.where(), fmt::join(sizes, ", "));
}

// The weights in the file that `key` names. Throws InputError when they are not of this layout, or not finite.
Flat weights_from(const std::string& key, const std::string& file, const Layout& layout) {
  try {
    Flat weights = assemble(read_safetensors(file), layout, file);
    for (const auto& entry : layout.entries()) {
      if (std::ranges::all_of(entry.of(std::span<const float>(weights)), [](float w) { return std::isfinite(w); })) {
        continue;
      }
      fail("{}: tensor '{}' holds a number that is not finite; expected weights of a model that has not diverged", file,
           entry.name);
    }
    return weights;
  } catch (const InputError& error) {
    fail("{}: {}", key, error.what());
  }
}

Flat initial_weights(Model& model, const Settings& settings) {
  const Layout& layout = model.layout();
  if (const std::string& file = settings.model.text("init"); !file.empty()) {
    refuse_word_vectors(settings);
    return weights_from("model.init", file, layout);
  }
  Flat weights(model.parameters().begin(), model.parameters().end());
  if (!model.pretrained()) {
    Stream stream(static_cast<std::uint64_t>(settings.run.integer("seed")), "initial weights");
    initialise(layout, weights, stream);
  }
  use_word_vectors(settings, layout, weights);
  return weights;
}

// Gives every client test data of its own, where that is asked for.
void deal_own_test(Federated& federated, const Settings& settings, std::uint64_t seed) {
  const double part = settings.partition.real("holdout");
  Stream stream(seed, "own test data");
  if (part > 0.0) {
    federated.own_test = hold_out_of_each_client(federated.partition, part, stream);
    federated.own_test_data = federated.data.train;
    return;
  }
  if (!settings.evaluate.flag("clients")) return;
  const auto& [train, test] = federated.data;
  const bool by_user = settings.partition.text("kind") == "by_user";
  federated.own_test = by_user ? deal_test_by_user(*train, *test, federated.partition)
                               : deal_test_alike(*train, *test, federated.partition, stream);
  federated.own_test_data = test;
}

// Takes server.examples rows from the clients, at random over all of theirs.
void set_aside_for_server(Federated& federated, const Settings& settings, std::uint64_t seed) {
  const auto wanted = static_cast<std::size_t>(settings.server.integer("examples"));
  if (wanted == 0) return;
  std::vector<std::uint32_t> rows;
  for (const auto held : federated.partition.clients) rows.insert(rows.end(), held.begin(), held.end());
  if (wanted >= rows.size()) {
    fail("server.examples = {}: the clients hold {} together; expected fewer", wanted, counted(rows.size(), "example"));
  }
  Stream(seed, "server examples").shuffle(std::span(rows));
  rows.resize(wanted);
  std::ranges::sort(rows);
  RowLists left;
  std::vector<std::uint32_t> kept;
  for (const auto held : federated.partition.clients) {
    kept.clear();
    std::ranges::remove_copy_if(held, std::back_inserter(kept),
                                [&](std::uint32_t row) { return std::ranges::binary_search(rows, row); });
    left.push_back(kept);
  }
  federated.partition.clients = std::move(left);
  federated.server_rows = std::move(rows);
}

// "dirichlet alpha=0.01, 10 clients": the kind, its first option, and what differs from the defaults.
std::string describe(const PartitionRegistry::Entry& entry, const Options& options, const Partition& partition) {
  std::string text = entry.about.name;
  for (const auto& option : entry.about.options) {
    const Value& value = options.values().find(option.key)->second;
    const bool chosen = value != option.fallback || &option == &entry.about.options.front();
    if (!option.is_path && chosen) text += fmt::format(" {}={}", option.key, to_toml(value));
  }
  const auto empty = std::ranges::count_if(partition.clients, [](const auto rows) { return rows.empty(); });
  return fmt::format("{}, {}{}", text, counted(partition.clients.size(), "client"),
                     empty > 0 ? fmt::format(" ({} without data)", empty) : "");
}

// The methods that have a posterior with their default options; for the message.
std::vector<std::string> methods_with_posterior(const Catalogue& catalogue, const MethodContext& context) {
  std::vector<std::string> names;
  for (const auto& entry : catalogue.methods.entries()) {
    const Options defaults("method", entry.about.options);
    try {
      const auto method = entry.make(context.with_options(defaults));
      if (method->posterior() != nullptr) names.push_back(entry.about.name);
    } catch (const InputError&) {
      // One that cannot run with this [client] or model is no way out.
    }
  }
  return names;
}

void require_posterior(const Method& method, const Settings& settings, const Catalogue& catalogue,
                       const MethodContext& context) {
  const std::int64_t samples = settings.evaluate.integer("posterior_samples");
  if (samples > 0 && settings.evaluate.text("posterior") == "last_layer" && shown_layers(*context.layout).empty()) {
    fail("evaluate.posterior = \"last_layer\": model '{}' shows no dense or convolutional layer; use \"samples\"",
         settings.model.text("name"));
  }
  if (samples == 0 || method.posterior() != nullptr) return;
  fail(
      "evaluate.posterior_samples = {}: with these settings {} has no posterior to draw networks from; methods that "
      "have one by default: {}",
      samples, settings.method.text("name"), fmt::join(methods_with_posterior(catalogue, context), ", "));
}

void require_fit_for_temperature(const Settings& settings, Loss loss) {
  if (!settings.evaluate.flag("temperature")) return;
  if (settings.server.integer("examples") == 0) {
    fail(
        "evaluate.temperature = true: it is fitted to examples that no client has trained on; set server.examples, for "
        "example to 1000");
  }
  if (loss != Loss::cross_entropy) {
    fail("evaluate.temperature = true: model '{}' gives no class probabilities; set false",
         settings.model.text("name"));
  }
}

// The test part of evaluate.ood, as a model of `train` sees it; null when there is none.
std::shared_ptr<const Dataset> load_ood(const Settings& settings, const Catalogue& catalogue, const Dataset& train,
                                        DataCache& cache) {
  const std::string& name = settings.evaluate.text("ood");
  if (name.empty()) return nullptr;
  if (train.classes == 0) {
    fail("evaluate.ood = \"{}\": data set '{}' has no classes, and only class probabilities tell data apart; set \"\"",
         name, train.name);
  }
  Options options("data", common_data_options());
  for (const auto& option : catalogue.datasets.at(name).about.options) options.set(option.key, option.fallback);
  options.set("name", name);
  options.set("root", settings.data.text("root"));
  options.set("test_limit", settings.data.integer("test_limit"));
  options.set("limit", std::int64_t{1});  // its training part is not used
  Dataset ood = *cache.load(options, catalogue).test;
  if (ood.shape != train.shape) {
    fail("evaluate.ood = \"{}\": its examples have the shape {}, those of '{}' {}; expected the same", name,
         describe_shape(ood.shape), train.name, describe_shape(train.shape));
  }
  ood.transform = train.transform;
  return std::make_shared<const Dataset>(std::move(ood));
}

// The method that [method] names, with what [aggregate] and client.state put around it.
// By copies: the experiment may move.
NewModel model_maker(const Experiment& experiment) {
  return [make = experiment.make_model, options = experiment.settings.model, task = experiment.task] {
    return make(options, task);
  };
}

// A cohort of this size could never have as many accepted updates.
void require_enough_clients(const Settings& settings, const std::vector<std::size_t>& sizes) {
  const auto least = static_cast<std::size_t>(settings.server.integer("min_clients"));
  const auto holders =
      static_cast<std::size_t>(std::ranges::count_if(sizes, [](std::size_t size) { return size > 0; }));
  const std::size_t cohort = cohort_size(holders, settings.server.real("participation"));
  if (settings.among_peers || least <= cohort) return;
  fail(
      "server.min_clients = {}: a round asks {} of {} with data (server.participation = {}); expected at most "
      "{}",
      least, cohort, counted(holders, "client"), settings.server.real("participation"), cohort);
}

// The weights of evaluate.reference; empty when there are none.
Flat load_reference(const Settings& settings, const Layout& layout) {
  const std::string& file = settings.evaluate.text("reference");
  if (file.empty()) return {};
  if (running_pairs(layout).empty()) {
    fail("evaluate.reference = \"{}\": the model has no running statistics to compare (no batch norm); set \"\"", file);
  }
  return weights_from("evaluate.reference", file, layout);
}

// What a run with a server has and peers have not.
void refuse_for_peers(const Settings& settings) {
  const std::string& name = settings.method.text("name");
  if (!settings.stages.texts("use").empty()) {
    fail("stages.use: stages work on what is sent to a server, and {} has none; set []", name);
  }
  if (const std::string& state = settings.client.text("state"); state != "reset") {
    fail("client.state = \"{}\": {} starts its optimiser afresh on every visit; use \"reset\"", state, name);
  }
  for (const auto& [key, value] : settings.aggregate.values()) {
    if (value != Value(std::string("mean"))) {
      fail("aggregate.{} = {}: {} has no server that aggregates; use \"mean\"", key, to_toml(value), name);
    }
  }
  if (const std::string& file = settings.evaluate.text("reference"); !file.empty()) {
    fail("evaluate.reference = \"{}\": not measured for the models of {}; set \"\"", file, name);
  }
  if (settings.evaluate.flag("clients")) {
    fail("evaluate.clients = true: not measured among peers, such as {}; set false", name);
  }
}

// Where there is no server: who can reach whom.
void connect_peers(Experiment& experiment, const Catalogue& catalogue) {
  const Settings& settings = experiment.settings;
  if (!settings.among_peers) return;
  refuse_for_peers(settings);
  experiment.network = std::make_shared<const Network>(settings.peer, *experiment.pace, settings.graph,
                                                       catalogue.graphs, experiment.sizes, experiment.seed());
  catalogue.peers.at(settings.method.text("name")).make.check(experiment);
}

}  // namespace

TrainTest DataCache::load(const Options& data, const Catalogue& catalogue) {
  std::string key;
  for (const auto& [name, value] : data.values()) key += name + "=" + to_toml(value) + "\n";
  const auto found = loaded_.find(key);
  if (found != loaded_.end()) return found->second;
  const Span span("load data");
  return loaded_[key] = share_([&] {
           return within_memory(
               data, [&] { return load_data(catalogue.datasets, data, DataRoots::standard(data.text("root"))); });
         });
}

Federated deal(const Settings& settings, const Catalogue& catalogue, DataCache& cache) {
  Federated federated{.data = cache.load(settings.data, catalogue)};
  if (federated.data.train->size() == 0) {  // "elsewhere": nothing to deal
    federated.partition.clients.push_back({});
    return federated;
  }
  const Span span("deal");
  const std::int64_t own_seed = settings.partition.integer("seed");
  const auto seed = static_cast<std::uint64_t>(own_seed < 0 ? settings.run.integer("seed") : own_seed);
  Stream stream(seed, "partition");
  const auto& entry = catalogue.partitions.at(settings.partition.text("kind"));
  federated.partition = entry.make(*federated.data.train, settings.partition, stream);
  if (catalogue.methods.at(settings.method.text("name")).make.pools_data)
    federated.partition = pooled(federated.partition);
  deal_own_test(federated, settings, seed);
  set_aside_for_server(federated, settings, seed);
  const auto& clients = federated.partition.clients;
  if (std::ranges::all_of(clients, [](const auto rows) { return rows.empty(); })) {
    fail("partition.kind = \"{}\": no client has any data", entry.about.name);
  }
  return federated;
}

Experiment build(const Settings& settings, const Catalogue& catalogue, DataCache& cache,
                 std::vector<std::size_t> sizes) {
  const Span span("set up");
  Experiment experiment{.settings = settings, .federated = deal(settings, catalogue, cache)};
  if (sizes.empty()) {
    if (experiment.federated.data.train->size() == 0) {
      fail("data.name = \"elsewhere\": there are no examples here; name data, or use parley serve with serve.nodes");
    }
    for (const auto rows : experiment.federated.partition.clients) sizes.push_back(rows.size());
  }
  experiment.sizes = std::move(sizes);
  const Dataset& train = *experiment.federated.data.train;
  require_enough_clients(settings, experiment.sizes);
  experiment.task = task_of(train, settings.model);
  experiment.make_model =
      choose_backend(catalogue.models.at(settings.model.text("name")), settings.model.text("backend"));
  experiment.partition_text = describe(catalogue.partitions.at(settings.partition.text("kind")), settings.partition,
                                       experiment.federated.partition);
  const auto model = within_memory(settings.model, [&] { return experiment.new_model(); });
  experiment.layout = std::make_shared<const Layout>(with_layers(model->layout(), model->layers()));
  experiment.initial = initial_weights(*model, settings);
  experiment.make_optimizer = catalogue.optimizers.at(settings.client.text("optimizer")).make;
  const MethodContext context = experiment.method_context();
  experiment.method = make_method(catalogue, context, experiment.make_optimizer(settings.client)->slots());
  const NewModel new_model = model_maker(experiment);
  experiment.method->check_model(new_model);
  require_posterior(*experiment.method, settings, catalogue, context);
  require_fit_for_temperature(settings, model->loss());
  if (const auto& rows = experiment.federated.server_rows; !rows.empty()) {
    experiment.server_examples =
        std::make_unique<const ServerExamples>(ServerExamples{new_model, {.data = &train, .rows = rows}});
  }
  experiment.reference = load_reference(settings, *experiment.layout);
  experiment.ood = load_ood(settings, catalogue, train, cache);
  experiment.server_step = catalogue.server_steps.at(settings.server.text("step")).make(settings.server);
  for (const auto& name : settings.stages.texts("use")) {
    experiment.stages.push_back(catalogue.stages.at(name).make(settings.stages));
  }
  const auto& channels = experiment.method->schema().channels;
  if (!experiment.stages.empty() && std::ranges::all_of(channels, [](const auto& c) { return c.statistic; })) {
    fail("stages.use: with these settings {} sends no weights or gradients that a stage could work on",
         settings.method.text("name"));
  }
  experiment.pace = std::make_shared<const Pace>(settings.network, experiment.clients(), context.seed);
  connect_peers(experiment, catalogue);
  require_fit_for_buffer(experiment);
  require_fit_for_time_budget(experiment);
  return experiment;
}

std::unique_ptr<Method> make_method(const Catalogue& catalogue, const MethodContext& context,
                                    const std::vector<Optimizer::Slot>& slots) {
  const std::string& name = context.options.text("name");
  auto method = aggregate_by_role(catalogue.methods.at(name).make(context), name, context);
  return carry_optimizer_state(std::move(method), context, slots);
}

MethodContext Experiment::method_context() const {
  return {.options = settings.method,
          .client = settings.client,
          .server = settings.server,
          .aggregate = settings.aggregate,
          .layout = layout,
          .task = task,
          .clients = clients(),
          .examples = examples(),
          .seed = seed(),
          .sizes = sizes};
}

ServerSetup Experiment::server_setup() const {
  return {.method = method.get(),
          .step = server_step.get(),
          .stages = &stages,
          .layout = layout,
          .initial = initial,
          .seed = seed(),
          .clients = clients(),
          .participation = settings.server.real("participation"),
          .min_clients = static_cast<std::size_t>(settings.server.integer("min_clients")),
          .own = server_examples.get()};
}

ClientSetup Experiment::client_setup(SharedSchema schema) const {
  return {.method = method.get(),
          .stages = &stages,
          .schema = std::move(schema),
          .local = LocalOptions(settings.client),
          .uniform_weights = settings.server.text("weighting") == "uniform",
          .initial = initial,
          .new_model = model_maker(*this),
          .new_optimizer = [make = make_optimizer, options = settings.client] { return make(options); }};
}

std::size_t Experiment::examples() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

std::string Experiment::describe_model() const {
  const std::string& name = settings.model.text("name");
  std::vector<std::string> widths;
  for (const auto& entry : layout->entries()) {
    if (entry.shape.size() != 2) continue;
    if (widths.empty()) widths.push_back(std::to_string(entry.shape[1]));
    widths.push_back(std::to_string(entry.shape[0]));
  }
  const bool dense = std::ranges::all_of(layout->entries(), [](const auto& e) { return e.shape.size() <= 2; });
  return dense && !widths.empty() ? fmt::format("{} {}", name, fmt::join(widths, "-")) : name;
}

}  // namespace parley
