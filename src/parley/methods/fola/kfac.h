// fola with curvature = "kfac": each layer's precision is A ⊗ B, the second moments of its inputs and of the gradients
// at its outputs (Martens & Grosse 2015; for convolutions Grosse & Martens 2016).
//
// The server keeps every client's two factors for the length of a round and solves for the mean by conjugate gradients.
// FedLPA (Liu et al. 2024) aggregates layer by layer in a similar metric.
#pragma once

#include <memory>

#include "parley/methods/method.h"

namespace parley {

std::unique_ptr<Method> make_kfac_fola(const MethodContext& context);

}  // namespace parley
