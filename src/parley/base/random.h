// Randomness with a name.
//
// Every draw comes from a stream that is named by (seed, round, client, purpose). Two streams with different names are
// independent, so adding a noise draw in one place never moves the batch order in another, and the order in which
// threads run cannot matter. The generator is xoshiro256++ (Blackman & Vigna 2018), keyed by SplitMix64; we write it
// here because the standard library's distributions differ between implementations, and bits are a promise.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace parley {

class Stream {
 public:
  // For what belongs to the whole run, round and client are 0.
  Stream(std::uint64_t seed, std::string_view purpose, std::uint64_t round = 0, std::uint64_t client = 0);

  std::uint64_t bits();
  double uniform();                         // [0, 1)
  double uniform(double low, double high);  // [low, high)
  std::uint64_t below(std::uint64_t n);     // {0, …, n−1}, unbiased; n > 0
  double normal();                          // N(0, 1)
  double gamma(double shape);               // Gamma(shape, 1); shape > 0
  // A draw from Dir(alpha), robust for very small alpha (works on logarithms).
  std::vector<double> dirichlet(std::span<const double> alpha);

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  double log_gamma_draw(double shape);

  std::array<std::uint64_t, 4> state_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace parley
