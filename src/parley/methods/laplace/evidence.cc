#include "parley/methods/laplace/evidence.h"

#include <algorithm>
#include <cmath>

namespace parley {
namespace {

double effective_numbers(std::span<const double> eigenvalues, double examples, double precision) {
  double sum = 0.0;
  for (const double h : eigenvalues) {
    const double known = examples * std::max(h, 0.0);
    sum += known / (known + precision);
  }
  return sum;
}

}  // namespace

Evidence maximise_evidence(std::span<const double> eigenvalues, double squares, double examples) {
  // The derivative by log δ, ½(effective − δ‖θ‖²), falls with δ throughout: its one zero is between these.
  double low = std::log(1e-12), high = std::log(static_cast<double>(eigenvalues.size()) / squares + 1e-12);
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high), precision = std::exp(middle);
    (effective_numbers(eigenvalues, examples, precision) > precision * squares ? low : high) = middle;
  }
  Evidence best{.precision = std::exp(0.5 * (low + high)), .effective = 0.0, .log_penalty = 0.0};
  best.effective = effective_numbers(eigenvalues, examples, best.precision);
  best.log_penalty = -0.5 * best.precision * squares;
  for (const double h : eigenvalues) {
    best.log_penalty -= 0.5 * std::log1p(examples * std::max(h, 0.0) / best.precision);
  }
  return best;
}

}  // namespace parley
