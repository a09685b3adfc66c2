// One step of every local optimiser against the machine's memory bandwidth (triad.h). One thread.
#include <benchmark/benchmark.h>

#include "parley/optim/local_training.h"
#include "parley/optim/optimizer.h"
#include "triad.h"

namespace parley {
namespace {

constexpr std::size_t kSize = 2 * kElements;  // floats: arrays as large as the triad's

// θ, the gradient and the slots are read; θ and the slots are written. With a prior λΛ(θ − μ), Λ and μ are read too.
void step(benchmark::State& state, const std::string& name, bool prior) {
  const auto registry = optimizers();
  const auto& entry = registry.at(name);
  auto declared = LocalOptions::declared();
  declared.insert(declared.end(), entry.about.options.begin(), entry.about.options.end());
  const auto optimizer = entry.make(Options("client", declared));
  optimizer->reset(kSize);
  Flat theta(kSize, 1.0f), grads(kSize, 0.1f), precision, centre;
  LinearTerm term;
  if (prior) {
    precision.assign(kSize, 0.5f);
    centre.assign(kSize, 1.0f);
    term = {.strength = 0.1f, .precision = precision, .centre = centre};
  }
  const double changed = 1.0 + static_cast<double>(optimizer->slots().size()), read = changed + (prior ? 3.0 : 1.0);
  against_triad(state, {.read = 4.0 * read * kSize, .written = 4.0 * changed * kSize},
                [&] { optimizer->step(theta, grads, term, 1e-3f); });
}

}  // namespace
}  // namespace parley

int main(int argc, char** argv) {
  for (const auto& name : parley::optimizers().names()) {
    for (const bool prior : {false, true}) {
      benchmark::RegisterBenchmark((name + (prior ? "_with_prior" : "")).c_str(), parley::step, name, prior)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond)
          ->Iterations(15);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
