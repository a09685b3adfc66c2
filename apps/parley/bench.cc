// parley bench: how fast whole rounds are on this machine.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include "commands.h"
#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/engine/federation.h"
#include "parley/model/kernels.h"
#include "terminal.h"

namespace parley::app {
namespace {

// What `parley bench` runs without a file: no data needed, MNIST's shape, a client the size of McMahan's.
constexpr const char* kDefaultExperiment = R"(
[run]
rounds = 3
[data]
name = "synthetic"
features = 784
classes = 10
rows = 12000
[partition]
clients = 20
[model]
name = "mlp"
hidden = [200, 200]
[client]
batch = 10
lr = 0.05
)";

struct Speed {
  double seconds = 0.0;
  std::size_t clients = 0, steps = 0, samples = 0;
};

double peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024.0;
}

Speed measure(const Experiment& experiment, std::size_t threads, std::size_t rounds) {
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(experiment, store, threads);
  federation.round(1);  // warms caches and grows the buffers
  store.commit(1);
  Speed speed;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t round = 2; round < rounds + 2; ++round) {
    const RoundReport report = federation.round(round);
    store.commit(round);
    speed.clients += report.clients;
    speed.steps += report.steps;
    speed.samples += report.examples;
  }
  speed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return speed;
}

double best_seconds(int repetitions, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// What one thread of this machine can do at best.
struct Limits {
  double products, memory;  // floating-point operations and bytes a second
};

Limits measure_limits() {
  constexpr std::size_t kRows = 64, kWidth = 512, kBytes = std::size_t{1} << 26;
  const Flat a(kRows * kWidth, 0.1f), b(kWidth * kWidth, 0.1f);
  Flat c(kRows * kWidth);
  const double product = best_seconds(
      50, [&] { multiply(Form::plain, Form::transposed, kRows, kWidth, kWidth, a.data(), b.data(), c.data()); });
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  const double copy = best_seconds(5, [&] { std::memcpy(to.data(), from.data(), kBytes); });
  return {.products = 2.0 * kRows * kWidth * kWidth / product, .memory = 2.0 * kBytes / copy};
}

// Operations of the layers' products in a training step, for one example: forward, and back to the weights and, but at
// the first layer, to the inputs. 0 for a model that does not show its layers.
double operations(const Experiment& experiment) {
  const auto model = experiment.new_model();
  double sum = 0.0;
  model->observe([&](const LayerPass& pass) {
    sum += (pass.index == 0 ? 4.0 : 6.0) * static_cast<double>(pass.rows) * static_cast<double>(pass.layer.weight.size);
  });
  std::size_t width = 1;
  for (const auto extent : experiment.task.input_shape) width *= static_cast<std::size_t>(extent);
  const std::vector<float> inputs(width);
  std::vector<float> outputs(model->outputs());
  model->predict({.size = 1, .inputs = inputs}, outputs);
  return sum;
}

void bench(const std::string& file, const std::vector<std::string>& assignments, std::size_t threads) {
  Config config = file.empty() ? Config::parse(kDefaultExperiment, "parley bench") : Config::read(file);
  for (const auto& assignment : assignments) config.set(assignment);
  const Settings settings = resolve(config, catalogue());
  DataCache cache;
  if (settings.among_peers) {
    fail("method.name = \"{}\": bench measures rounds with a server; choose fedavg or another such method",
         settings.method.text("name"));
  }
  const Experiment experiment = build(settings, catalogue(), cache);
  const auto rounds = static_cast<std::size_t>(settings.run.integer("rounds"));
  fmt::print("{}, {}, {}, batch {}; {} after one to warm up\nkernels: {}\n\n", experiment.federated.data.train->name,
             experiment.partition_text, experiment.describe_model(), settings.client.integer("batch"),
             counted(rounds, "round"), kernels_in_use());
  Table table({"threads", "clients/s", "steps/s", "samples/s", "s/round", "speed-up"});
  double one_thread = 0.0;  // samples a second
  for (const std::size_t count : std::set<std::size_t>{1, threads}) {
    const Speed speed = measure(experiment, count, rounds);
    const auto rate = [&](std::size_t n) { return static_cast<double>(n) / speed.seconds; };
    if (one_thread == 0.0) one_thread = rate(speed.samples);
    table.add({std::to_string(count), fmt::format("{:.1f}", rate(speed.clients)),
               fmt::format("{:.0f}", rate(speed.steps)), fmt::format("{:.0f}", rate(speed.samples)),
               fmt::format("{:.3f}", speed.seconds / static_cast<double>(rounds)),
               fmt::format("{:.2f}", rate(speed.samples) / one_thread)});
  }
  fmt::print("{}\npeak memory {}\n", table.text(), bytes_text(peak_memory()));
  const Limits limits = measure_limits();
  fmt::print("limits of one thread: products {:.1f} GFLOP/s, memory {:.1f} GB/s (copy)\n", limits.products * 1e-9,
             limits.memory * 1e-9);
  if (const double each = operations(experiment); each > 0.0) {
    fmt::print("reached on one thread: products {:.1f} GFLOP/s, {:.0f} % of the limit\n", each * one_thread * 1e-9,
               100.0 * each * one_thread / limits.products);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "speed of whole rounds: clients/s, steps/s, samples/s, peak memory");
  const auto file = std::make_shared<std::string>();
  const auto assignments = std::make_shared<std::vector<std::string>>();
  const auto threads = std::make_shared<std::size_t>(0);
  command->add_option("file", *file, "an experiment file; without one, synthetic data of MNIST's shape");
  command->add_option("--set", *assignments, "override a key")->allow_extra_args(false);
  add_threads(*command, *threads, "compare one thread with this many (default: all cores)");
  command->callback([=] { bench(*file, *assignments, resolve_threads(*threads)); });
}

}  // namespace parley::app
