// Diagonal Gaussians on flat spans, in natural form: precision ξ = 1/σ² and shift χ = μ/σ².
//
// In these coordinates a product of densities is a sum of vectors, so posteriors fold like everything else that
// clients send. The views own nothing. Every function is one pass over memory and allocates nothing; sums over many
// elements are formed in double, in a fixed order that does not depend on the vector unit.
//
// Sizes:    all spans of a call have the same length. A wrong one is a bug (assertion).
// Aliasing: an output may be one of the inputs, element for element; it must not overlap one in another way.
// Proper:   a Gaussian is proper when every precision is finite and above 0. A ratio need not be (VIRTUAL's cavities
//           and deltas are differences); what needs a proper one says so. refuse_improper() guards the door.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

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
struct MeanView {
  std::span<float> mean;
  std::span<float> precision;
  std::size_t size() const { return precision.size(); }
  operator ConstMeanView() const { return {mean, precision}; }
};

// χ = ξμ
void to_natural(ConstMeanView from, NaturalView to);
// μ = χ/ξ. REQUIRES ξ ≠ 0 everywhere.
void to_mean(ConstNaturalView from, MeanView to);

// a·b:  ξ = ξ_a + ξ_b,  χ = χ_a + χ_b
void product(ConstNaturalView a, ConstNaturalView b, NaturalView out);
// Π f_i^{a_i}:  ξ = Σ a_i ξ_i,  χ = Σ a_i χ_i  (Liu & Zheng 2021, Eq. 9, before the division). Summed in double.
void product(std::span<const ConstNaturalView> factors, std::span<const double> powers, NaturalView out);
// a/b:  ξ = ξ_a − ξ_b,  χ = χ_a − χ_b  (VIRTUAL's cavity s/s_i and delta s_i new/s_i old). May be improper.
void ratio(ConstNaturalView a, ConstNaturalView b, NaturalView out);
// a^t:  ξ = tξ_a,  χ = tχ_a  (damping of a delta, the K-th root of a prior)
void power(ConstNaturalView a, float t, NaturalView out);

// The one Gaussian with the mean and variance of the mixture Σ a_i N(μ_i, σ_i²)  (Liu & Zheng 2021, Eq. 6):
// mean = Σ aμ,  variance = Σ a(σ² + μ²) − mean², computed as Σ a(σ² + (μ − mean)²), which does not cancel.
// The weights are divided by their sum. REQUIRES proper components, weights ≥ 0 with a positive sum.
void collapse(std::span<const ConstMeanView> components, std::span<const double> weights, MeanView out);

// KL(a‖b) = Σ ½[ξ_b/ξ_a − 1 + ln(ξ_a/ξ_b) + ξ_b(μ_a − μ_b)²], in nats. Never negative. REQUIRES both proper.
double kl(ConstNaturalView a, ConstNaturalView b);
double kl(ConstMeanView a, ConstMeanView b);
// Adds t·∂KL(N(μ, σ²)‖b) by μ and by ρ = ln σ:  t(ξ_bμ − χ_b)  and  t(ξ_bσ² − 1). b may be improper: its normaliser
// does not depend on μ and σ.
//
// The sums are then divided by 1 + step·t·ξ_b and 1 + 2·step·t·ξ_bσ² (where ξ_b > 0), so that gradient descent with
// this step takes the KL's part implicitly, the second to first order: explicitly it diverges once step·t·ξ_b
// exceeds 2.
void add_kl_gradient(ConstNaturalView b, float t, float step, std::span<const float> mean,
                     std::span<const float> variance, std::span<float> by_mean, std::span<float> by_rho);
// H = Σ ½ ln(2πe/ξ), in nats. REQUIRES proper.
double entropy(std::span<const float> precision);
// ln N(θ | a) = Σ ½[ln ξ − ln 2π − ξ(θ − μ)²]. REQUIRES proper.
double log_density(ConstNaturalView a, std::span<const float> theta);
double log_density(ConstMeanView a, std::span<const float> theta);

// Whether a precision of exactly 0 ("nobody knows anything here") may pass.
enum class Zero { refused, allowed };

// The first precision that is not finite or not above 0 (below 0 where zero is allowed); size() when there is none.
std::size_t first_improper(std::span<const float> precision, Zero zero = Zero::refused);
bool is_proper(std::span<const float> precision, Zero zero = Zero::refused);
// Throws RefusedUpdate with the channel, the place and the value. The round goes on without that client.
void refuse_improper(std::string_view channel, std::span<const float> precision, Zero zero = Zero::refused);

}  // namespace parley::gauss
