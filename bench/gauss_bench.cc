// The hot loops over flat vectors against the machine's memory bandwidth (triad.h), and the normal generator against
// Stream::normal. One thread.
#include <benchmark/benchmark.h>

#include "parley/base/random.h"
#include "parley/gauss/normal.h"
#include "parley/update/sum.h"
#include "parley/update/update.h"
#include "triad.h"

namespace parley {
namespace {

ChannelSpec vector_of_elements(std::string name, std::string times = {}) {
  return {.name = std::move(name), .count = kElements, .times = std::move(times)};
}

void fold(benchmark::State& state, Schema schema) {
  const auto shared = share(std::move(schema));
  Update update(shared);
  update.weight = 600.0;
  for (auto& channel : update.channels()) std::fill(channel.begin(), channel.end(), 0.5f);
  Sum sum(shared);
  against_triad(state, {.read = 24.0 * kElements, .written = 16.0 * kElements}, [&] { sum.add(update); });
}

// An update of (Λ, Λμ): float channels, times the weight, into double sums. 4 bytes read from the update, 8 read from
// and 8 written to the sum, for each of the two channels.
void fold_natural(benchmark::State& state) {
  fold(state, {.channels = {vector_of_elements("precision"), vector_of_elements("precision_mean")}});
}
BENCHMARK(fold_natural)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

// The same sums from (Λ, μ), as FOLA sends them: the product is formed in double on the way. Counted as one pass; that
// Λ is read for each of the two sums is at the fold's expense.
void fold_posterior(benchmark::State& state) {
  fold(state, {.channels = {vector_of_elements("precision"), vector_of_elements("theta", "precision")}});
}
BENCHMARK(fold_posterior)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

// Merging the sums of two blocks of the cohort: 16 bytes read, 8 written.
void merge_sums(benchmark::State& state) {
  const auto schema = share({.channels = {vector_of_elements("precision"), vector_of_elements("precision_mean")}});
  Sum sum(schema), other(schema);
  against_triad(state, {.read = 32.0 * kElements, .written = 16.0 * kElements}, [&] { sum.merge(other); });
}
BENCHMARK(merge_sums)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

// From here on in cache, where the arithmetic counts. 100,000 parameters, a small network.
constexpr std::size_t kSmall = 100'000;

void report(benchmark::State& state) {
  state.counters["each"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kSmall,
      static_cast<benchmark::Counter::Flags>(benchmark::Counter::kIsRate | benchmark::Counter::kInvert));
}

void normal_by_stream(benchmark::State& state) {
  Stream stream(1, "bench");
  Flat out(kSmall);
  for (auto _ : state) {
    for (auto& z : out) z = static_cast<float>(stream.normal());
    benchmark::DoNotOptimize(out.data());
  }
  report(state);
}
BENCHMARK(normal_by_stream);

void normal_by_fill(benchmark::State& state) {
  Stream stream(1, "bench");
  Flat out(kSmall);
  for (auto _ : state) {
    gauss::fill_normal(stream, out);
    benchmark::DoNotOptimize(out.data());
  }
  report(state);
}
BENCHMARK(normal_by_fill);

void sample_gaussian(benchmark::State& state) {
  Stream stream(1, "bench");
  const Flat mean(kSmall, 1.0f), precision(kSmall, 2.0f);
  Flat out(kSmall);
  for (auto _ : state) {
    gauss::sample({mean, precision}, 1.0f, stream, out);
    benchmark::DoNotOptimize(out.data());
  }
  report(state);
}
BENCHMARK(sample_gaussian);

}  // namespace
}  // namespace parley

BENCHMARK_MAIN();
