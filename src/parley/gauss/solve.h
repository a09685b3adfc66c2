// From the folded sums of a round to the server's Gaussian. Reads double sums, writes floats, one pass.
//
// Sizes: all spans of a call have the same length, or are empty where that is allowed. A wrong one is a bug.
#pragma once

#include <span>

#include "parley/gauss/diagonal.h"

namespace parley::gauss {

// What the clients' posteriors add up to, with weights w_n (a_n = w_n/Σw).
struct ProductSums {
  std::span<const double> precision;       // Σ wP
  std::span<const double> precision_mean;  // Σ wPμ
  std::span<const double> mean;            // Σ wμ; may be empty for ZeroPrecision::shrink
  double weight = 0.0;                     // Σ w > 0
};

// The mean of a parameter that nobody is sure of (P ≈ 0).
enum class ZeroPrecision {
  average,  // μ = (Σ aPμ + ε Σ aμ)/(Σ aP + ε): falls back to the average; exact for one client
  shrink,   // μ = Σ aPμ/(Σ aP + ε): falls back to 0
};

// The Gaussian product (Liu & Zheng 2021, Eq. 9): P_S = Σ aP, and μ_S by the rule. P_S does not include ε.
//
// With `average`, μ_S is computed as the average plus a correction, and a correction no larger than the rounding of a
// product Pμ that travelled as a float is dropped: it carries no information, and without it one client in is that
// client out, bit for bit, and equally sure clients give FedAvg's bits (up to the rounding of Pμ where terms cancel).
//
// REQUIRES precisions ≥ 0, weight > 0, epsilon ≥ 0. A total of exactly 0 gives the average, or 0 with `shrink`.
void solve_product(const ProductSums& sums, double epsilon, ZeroPrecision rule, MeanView out);

// What the mixture of the clients' posteriors adds up to.
struct MixtureSums {
  std::span<const double> mean;    // Σ wμ
  std::span<const double> square;  // Σ w(σ² + (μ − c)²)
  std::span<const float> centre;   // c; empty: 0
  double weight = 0.0;             // Σ w > 0
};

// The mixture's mean and variance (Liu & Zheng 2021, Eq. 6): mean = Σ aμ, variance = Σ a(σ² + (μ−c)²) − (mean − c)².
//
// The variance does not depend on c, its accuracy does: a float holds σ² + μ² to 2⁻²⁴ μ², which may be more than σ².
// With c = the round's broadcast mean, the squares are small. A variance below `least_variance` (rounding may even
// make it negative) is raised to it. REQUIRES weight > 0, least_variance > 0.
void solve_mixture(const MixtureSums& sums, double least_variance, MeanView out);

}  // namespace parley::gauss
