// What a travelling model believes about itself, class by class, and what a node promises it (Kiss 2021, ch. 6).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parley/base/random.h"
#include "parley/model/evaluation.h"

namespace parley {

// How a model does on a node's own test rows.
struct NodeTest {
  double accuracy = 0.0;
  std::vector<double> f1;  // by class; 0 for a class that is neither there nor predicted
};
NodeTest test_classes(Model& model, const View& view, EvaluationBuffer& buffer);

// Alg. 4: p ← max((1 − ξ)p, F1).
void update_belief(std::span<double> belief, std::span<const double> f1, double discount);

// Alg. 5: Σ_c max(1[class c is there], p_c).
double benefit(std::span<const double> belief, const std::vector<bool>& present);

// The classes that a node says it holds: each bit a lie with probability `flip` (randomised response). A node answers
// every question with the same bits, since fresh lies would average out.
std::vector<bool> presence(const View& data, double flip, Stream stream);

}  // namespace parley
