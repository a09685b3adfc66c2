// What the server's own gradients say about curvature: between two rounds at W and W + s they differ by y = H·s, with H
// the Hessian of the pooled data. The factors A ⊗ B leave out how layers act on each other and how inputs and
// derivatives go together, and underrate the stiffest directions tenfold; L-BFGS (Liu & Nocedal 1989) with them as its
// first matrix puts that back along the last few steps. It takes no bytes: clients send nothing for it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parley/update/state.h"

namespace parley {

double dot(std::span<const double> a, std::span<const double> b);

class Secants {
 public:
  Secants(std::shared_ptr<const Layout> layout, std::size_t most) : layout_(std::move(layout)), most_(most) {}

  bool any() const { return most_ > 0; }
  void start(State& state) const;
  bool known(const State& state) const;  // at least one pair

  // All vectors are of the numbers that are trained.
  // Takes y along with s; what is oldest goes. `curved` is (A ⊗ B + d)·s: where y has less than a fifth of that
  // curvature, or a negative one, it is mixed with it until it has (Powell's damping; Nocedal & Wright, Eq. 18.15).
  void add(State& state, std::span<const double> s, std::span<const double> y, std::span<const double> curved) const;

  // In place, from each of some vectors to (A ⊗ B + d)⁻¹ times them.
  using Precondition = std::function<void(std::span<const std::span<double>>)>;
  // In place, from a gradient to the inverse of the corrected curvature times it.
  void precondition(const State& state, const Precondition& first, std::span<double> gradient) const;

 private:
  struct Pair {
    std::vector<double> s, y;
    double curvature;  // sᵀy
  };
  std::vector<Pair> newest_first(const State& state) const;

  std::shared_ptr<const Layout> layout_;
  std::size_t most_;
};

}  // namespace parley
