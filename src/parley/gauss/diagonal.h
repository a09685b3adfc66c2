// Diagonal Gaussians on flat spans, in natural form: precision ξ = 1/σ² and shift χ = μ/σ².
//
// In these coordinates a product of densities is a sum of vectors, so posteriors fold like everything else that
// clients send. The views own nothing. Every function is one pass over memory and allocates nothing.
//
// Sizes:    all spans of a call have the same length. A wrong one is a bug (assertion).
// Aliasing: an output may be one of the inputs, element for element; it must not overlap one in another way.
// Proper:   a Gaussian is proper when every precision is finite and above 0. A ratio need not be (VIRTUAL's cavities
//           and deltas are differences); what needs a proper one says so.
#pragma once

#include <cstddef>
#include <span>

namespace parley::gauss {

struct ConstNaturalView {
  std::span<const float> precision;  // ξ
  std::span<const float> shift;      // χ
  std::size_t size() const { return precision.size(); }
};
struct NaturalView {
  std::span<float> precision;
  std::span<float> shift;
  std::size_t size() const { return precision.size(); }
  operator ConstNaturalView() const { return {precision, shift}; }
};

// The same Gaussian by its mean and precision, as FOLA keeps it.
struct ConstMeanView {
  std::span<const float> mean;       // μ
  std::span<const float> precision;  // ξ
  std::size_t size() const { return precision.size(); }
};

// a^t:  ξ = tξ_a,  χ = tχ_a  (damping of a delta)
void power(ConstNaturalView a, float t, NaturalView out);

// Adds t·∂KL(N(μ, σ²)‖b) by μ and by ρ = ln σ:  t(ξ_bμ − χ_b)  and  t(ξ_bσ² − 1). b may be improper: its normaliser
// does not depend on μ and σ.
//
// The sums are then divided by 1 + step·t·ξ_b and 1 + 2·step·t·ξ_bσ² (where ξ_b > 0), so that gradient descent with
// this step takes the KL's part implicitly, the second to first order: explicitly it diverges once step·t·ξ_b
// exceeds 2.
void add_kl_gradient(ConstNaturalView b, float t, float step, std::span<const float> mean,
                     std::span<const float> variance, std::span<float> by_mean, std::span<float> by_rho);

}  // namespace parley::gauss
