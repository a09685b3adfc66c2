// The hot loops over flat vectors against the machine's memory bandwidth, and the normal generator against
// Stream::normal. One thread.
//
// Bandwidth: each case alternates, in one process, with a triad a[i] = b[i] + s·c[i] on doubles (McCalpin's STREAM), so
// that a noisy machine slows both alike; the counters are medians over the repetitions. Arrays are far larger than the
// last-level cache. Bytes are what the program reads and writes: 24 an element for the triad. A store to a line that
// was not read first makes the processor read it (read for ownership): the triad then moves 32 bytes an element. The
// folds and optimiser steps read what they write, so theirs are complete. One core is limited by the lines it waits
// for, while written lines leave by themselves; so the hardest comparison counts only what is fetched. Hence three
// ratios:
//   vs_stream   bytes read and written; the triad as STREAM counts it (24 an element)
//   vs_traffic  the same, with the reads for ownership (triad 32)
//   vs_fetched  bytes read, with the reads for ownership, without the writes (triad 24)
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "parley/base/random.h"
#include "parley/gauss/diagonal.h"
#include "parley/gauss/normal.h"
#include "parley/gauss/solve.h"
#include "parley/optim/local_training.h"
#include "parley/optim/optimizer.h"
#include "parley/update/update.h"

namespace parley {
namespace {

constexpr std::size_t kElements = std::size_t{1} << 23;  // 64 MB of doubles, 32 MB of floats an array

double seconds(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Bytes that a loop moves.
struct Moved {
  double read = 0.0, written = 0.0, owned = 0.0;  // owned: read only because it is written
};

class Triad {
 public:
  static constexpr Moved kMoved{.read = 16.0 * kElements, .written = 8.0 * kElements, .owned = 8.0 * kElements};
  void operator()() {
    double* __restrict to = a_.data();
    const double *b = b_.data(), *c = c_.data();
    for (std::size_t i = 0; i < kElements; ++i) to[i] = b[i] + 3.0 * c[i];
  }

 private:
  FlatDouble a_ = FlatDouble(kElements, 0.0), b_ = FlatDouble(kElements, 1.0), c_ = FlatDouble(kElements, 2.0);
};

// Times `work` and the triad by turns.
void against_triad(benchmark::State& state, Moved moved, auto&& work) {
  Triad triad;
  triad();
  work();
  std::vector<double> triad_seconds, work_seconds, ratios;
  for (auto _ : state) {
    triad_seconds.push_back(seconds(triad));
    work_seconds.push_back(seconds(work));
    ratios.push_back(triad_seconds.back() / work_seconds.back());
    state.SetIterationTime(work_seconds.back());
  }
  const double speed = median(ratios);
  const auto plain = [](const Moved& m) { return m.read + m.written; };
  const auto traffic = [](const Moved& m) { return m.read + m.written + m.owned; };
  const auto fetched = [](const Moved& m) { return m.read + m.owned; };
  state.counters["GB/s"] = plain(moved) / median(work_seconds) * 1e-9;
  state.counters["triad_GB/s"] = plain(Triad::kMoved) / median(triad_seconds) * 1e-9;
  state.counters["vs_stream"] = speed * plain(moved) / plain(Triad::kMoved);
  state.counters["vs_traffic"] = speed * traffic(moved) / traffic(Triad::kMoved);
  state.counters["vs_fetched"] = speed * fetched(moved) / fetched(Triad::kMoved);
}

void fold(benchmark::State& state, const Schema& schema) {
  Update update;
  update.shape(schema);
  update.weight = 600.0;
  for (auto& channel : update.channels) std::fill(channel.begin(), channel.end(), 0.5f);
  Sum sum(schema);
  against_triad(state, {.read = 24.0 * kElements, .written = 16.0 * kElements}, [&] { sum.add(update); });
}

// An update of (Λ, Λμ): float channels, times the weight, into double sums. 4 bytes read from the update, 8 read from
// and 8 written to the sum, for each of the two channels.
void fold_natural(benchmark::State& state) {
  fold(state, {.channels = {{"precision", kElements}, {"precision_mean", kElements}}, .scalars = {}});
}
BENCHMARK(fold_natural)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

// The same sums from (Λ, μ), as FOLA sends them: the product is formed in double on the way. Counted as one pass; that
// Λ is read for each of the two sums is at the fold's expense.
void fold_posterior(benchmark::State& state) {
  fold(state, {.channels = {{"precision", kElements}, {.name = "theta", .size = kElements, .times = "precision"}},
               .scalars = {}});
}
BENCHMARK(fold_posterior)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

// Merging the sums of two blocks of the cohort: 16 bytes read, 8 written.
void merge_sums(benchmark::State& state) {
  const Schema schema{.channels = {{"precision", kElements}, {"precision_mean", kElements}}, .scalars = {}};
  Sum sum(schema), other(schema);
  against_triad(state, {.read = 32.0 * kElements, .written = 16.0 * kElements}, [&] { sum.merge(other); });
}
BENCHMARK(merge_sums)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

// θ ← θ − lr(g + λΛ(θ − μ)): θ, g, Λ, μ read, θ written.
void sgd_with_prior(benchmark::State& state) {
  constexpr std::size_t kSize = 2 * kElements;
  Options client("client", LocalOptions::declared());
  const auto sgd = optimizers().at("sgd").make(client);
  sgd->reset(kSize);
  Flat theta(kSize, 1.0f), grads(kSize, 0.1f), precision(kSize, 0.5f), centre(kSize, 1.0f);
  const LinearTerm prior{.strength = 0.1f, .precision = precision, .centre = centre};
  against_triad(state, {.read = 16.0 * kSize, .written = 4.0 * kSize}, [&] { sgd->step(theta, grads, prior, 1e-3f); });
}
BENCHMARK(sgd_with_prior)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

// The server's solve: three double sums read, two floats written.
void solve_product(benchmark::State& state) {
  const FlatDouble precision(kElements, 2.0), precision_mean(kElements, 3.0), mean(kElements, 1.0);
  Flat out_mean(kElements), out_precision(kElements);
  against_triad(state, {.read = 24.0 * kElements, .written = 8.0 * kElements, .owned = 8.0 * kElements}, [&] {
    gauss::solve_product({precision, precision_mean, mean, 2.0}, 1e-8, gauss::ZeroPrecision::average,
                         {out_mean, out_precision});
  });
}
BENCHMARK(solve_product)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);

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

void kl_of_naturals(benchmark::State& state) {
  const Flat xi_a(kSmall, 2.0f), chi_a(kSmall, 1.0f), xi_b(kSmall, 3.0f), chi_b(kSmall, 0.5f);
  for (auto _ : state) {
    double kl = gauss::kl(gauss::ConstNaturalView{xi_a, chi_a}, gauss::ConstNaturalView{xi_b, chi_b});
    benchmark::DoNotOptimize(kl);
  }
  report(state);
}
BENCHMARK(kl_of_naturals);

void product_in_place(benchmark::State& state) {
  Flat xi_a(kSmall, 2.0f), chi_a(kSmall, 1.0f);
  const Flat xi_b(kSmall, 1e-3f), chi_b(kSmall, 1e-3f);
  const gauss::NaturalView a{xi_a, chi_a};
  for (auto _ : state) {
    gauss::product(a, gauss::ConstNaturalView{xi_b, chi_b}, a);
    benchmark::DoNotOptimize(xi_a.data());
  }
  report(state);
}
BENCHMARK(product_in_place);

}  // namespace
}  // namespace parley

BENCHMARK_MAIN();
