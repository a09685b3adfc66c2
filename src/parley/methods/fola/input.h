#pragma once

#include "parley/methods/method.h"

namespace parley {

// FOLA with curvature = "input": one Gaussian product per layer, with the precision A_n ⊗ I, where A_n = E[ã ãᵀ] over
// the layer's inputs (a 1 appended for the bias) on the client's own data.
//
//   W = W_S + (Σ a_n (W_n − W_S) P_n) (Σ a_n P_n)⁻¹,   P_1 = A_n + ρI, later with the memory of layered.h
//
// Where a client never saw an input direction it does not vote on it; ρ is the ridge towards the plain average. The
// prior is the same metric: λ/2·tr((W−W_S) A_S (W−W_S)ᵀ), taken as an implicit step every `prior_every` steps.
// What belongs to no layer (norms, running statistics) is averaged.
std::unique_ptr<Method> make_input_fola(const MethodContext& context);

}  // namespace parley
