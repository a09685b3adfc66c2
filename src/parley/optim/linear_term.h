// What a method adds to the task's gradient: strength · precision ∘ (θ − centre) + offset.
//
// One shape serves the family: FedProx (strength μ, centre θ_s), FOLA's prior (strength λ, precision Λ_s, centre μ_s),
// FedCurv (precision ΣF, offset −ΣFθ), SCAFFOLD (offset c − c_i). The optimisers apply it inside their own pass over
// memory, so a penalty costs no extra sweep.
#pragma once

#include <span>

namespace parley {

struct LinearTerm {
  float strength = 0.0f;
  std::span<const float> precision = {};  // empty: 1 everywhere
  std::span<const float> centre = {};     // empty: 0 everywhere
  std::span<const float> offset = {};     // empty: 0 everywhere

  bool adds_nothing() const { return strength == 0.0f && offset.empty(); }
};

}  // namespace parley
