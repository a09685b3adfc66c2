// Answers that come after the model has moved on: what becomes of them, and of which methods they can be used at all.
#pragma once

#include "parley/update/broadcast.h"
#include "parley/update/update.h"

namespace parley {

// Why an answer of this schema is of no use once the model has moved on; empty when it still is. What a method has
// averaged must be differences: of the weights, or of what else the server keeps.
std::string spoils_with_age(const Schema& schema);

// Turns what answered `then` into what answers `now` with `factor` of the change: θ + s·(x − θ_then), in place of x.
// What was measured and not learned (running statistics, an optimiser's moments) goes from θ towards x by that factor,
// so that a variance stays one. REQUIRES a schema that does not spoil.
void bring_forward(Update& update, const Broadcast& then, const Broadcast& now, double factor);

// s(τ) = (1 + τ)^−power, for an answer that is τ models behind (Nguyen et al. 2022 use ½).
double discount(std::size_t staleness, double power);

}  // namespace parley
