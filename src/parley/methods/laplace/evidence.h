// The prior that the marginal likelihood prefers (MacKay 1992; for networks Immer et al. 2021), from what the server
// has anyway: A and B, which are sums over the clients, and the weights.
#pragma once

#include <span>

namespace parley {

// log p(data | δ) ≈ −N·loss − ½ δ‖θ‖² + ½ Σ log(δ / (N·h + δ)) for the prior N(0, I/δ), N examples and the eigenvalues
// h of their mean curvature at θ.
struct Evidence {
  double precision;    // δ at which it is largest
  double effective;    // Σ N·h / (N·h + δ): how many numbers the data determine
  double log_penalty;  // the two terms behind the loss
};
// REQUIRES squares = ‖θ‖² > 0 and examples > 0. Eigenvalues below 0, which rounding makes, count as 0.
Evidence maximise_evidence(std::span<const double> eigenvalues, double squares, double examples);

}  // namespace parley
