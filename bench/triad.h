// A hot loop against the machine's memory bandwidth.
//
// Each case alternates, in one process, with a triad a[i] = b[i] + s·c[i] on doubles (McCalpin's STREAM), so that a
// noisy machine slows both alike; the counters are medians over the repetitions. Arrays are far larger than the
// last-level cache. Bytes are what the program reads and writes: 24 an element for the triad. A store to a line that
// was not read first makes the processor read it (read for ownership): the triad then moves 32 bytes an element. The
// folds and optimiser steps read what they write, so theirs are complete. One core is limited by the lines it waits
// for, while written lines leave by themselves; so the hardest comparison counts only what is fetched. Hence three
// ratios:
//   vs_stream   bytes read and written; the triad as STREAM counts it (24 an element)
//   vs_traffic  the same, with the reads for ownership (triad 32)
//   vs_fetched  bytes read, with the reads for ownership, without the writes (triad 24)
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "parley/tensor/flat.h"

namespace parley {

inline constexpr std::size_t kElements = std::size_t{1} << 23;  // 64 MB of doubles, 32 MB of floats an array

inline double seconds(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double> values) {
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
inline void against_triad(benchmark::State& state, Moved moved, auto&& work) {
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

}  // namespace parley
