// The product of the clients' Laplace approximations, all taken at one point: the broadcast weights W.
//
// There gradient and curvature are sums over all data, whoever holds them, so the product is the Laplace approximation
// of the pooled data and its mode one natural-gradient step:
//
//   V ← mV − η (B + √d/π·I)⁻¹ (G + pW) (A + π√d·I)⁻¹,   W ← W + V
//
// or, where the same clients take part in every round, the step that secants (secants.h) make of it, without momentum;
// with, for each layer, G the mean gradient, A = E[ã ãᵀ] of its inputs (a 1 appended for the bias), B = E[δ δᵀ] of the
// gradients at its outputs for labels that the model itself draws, and d = damping + p. The curvature is K-FAC's
// (Martens & Grosse 2015), the posterior N(W, (N·A ⊗ B + prior)⁻¹) that of Ritter et al. 2018. Weights in no layer
// have a diagonal in place of A ⊗ B. The first `warm` rounds are those of local training and fola's structured product.
#pragma once

#include "parley/methods/method.h"

namespace parley {

void add_laplace(MethodRegistry& registry);

}  // namespace parley
