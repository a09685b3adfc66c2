// What the server of fedec spends on a round's inference, for LeNet's batch norms (96 channels) and ten classes.
#include <benchmark/benchmark.h>

#include "parley/methods/fedec/inference.h"

namespace parley {
namespace {

void infer(benchmark::State& state) {
  const auto clients = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t kMoments = 2 * 96;
  const Inference inference({.classes = 10, .steps = 200, .lr = 0.02, .kl = 0.01}, kMoments);
  Stream stream(1, "moments");
  ClientRows moments{kMoments, std::vector<double>(clients * kMoments)};
  for (double& x : moments.values) x = stream.normal();
  Flat weights = inference.initial(moments, stream);
  for (auto _ : state) benchmark::DoNotOptimize(inference.infer(moments, weights, stream));
}
BENCHMARK(infer)->Arg(20)->Arg(100)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace parley

BENCHMARK_MAIN();
