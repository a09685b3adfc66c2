// Where the server goes from a gradient of the pooled data: the natural step that its curvature makes of it, corrected
// by secants or carried on by momentum, damped by what the last step did, and no longer than is trusted.
#pragma once

#include "parley/methods/laplace/global_curvature.h"
#include "parley/methods/laplace/line_search.h"
#include "parley/methods/laplace/secants.h"

namespace parley {

class Descent {
 public:
  // The scalar of an update that has the loss; the state's last one has the same name.
  static constexpr const char* kLoss = "loss";
  static constexpr const char* kPoints = "points";  // rounds at one point so far, in the state; clients see it
  static constexpr const char* kPrior = "prior";    // p, in the state

  // Curvature, search and options must outlive it.
  Descent(std::shared_ptr<const Layout> layout, const GlobalCurvature& curvature, const LineSearch& search,
          const LaplaceOptions& options);

  void start(State& state) const;
  // Chooses p by the marginal likelihood of so many examples; what is remembered of the last round becomes what it
  // would have been with it.
  void choose_prior(ServerTask& task, double examples) const;
  // From the clients' mean gradient, with the running statistics behind what is trained. Throws RunError when the loss
  // has risen too often or the curvature cannot be inverted.
  void step(ServerTask& task, FlatDouble target) const;
  // Goes as far as the search that ends says.
  void finish_search(ServerTask& task) const;

 private:
  void go(ServerTask& task, std::span<double> target) const;
  bool judge_last_step(ServerTask& task, double penalty) const;
  void learn_secant(ServerTask& task, bool take_back, std::span<double> gradient) const;
  void precondition(const ServerTask& task, std::span<const std::span<double>> gradients) const;
  double trust(const State& state) const;
  void choose_velocity(ServerTask& task, std::span<const double> gradient) const;

  std::shared_ptr<const Layout> layout_;
  const GlobalCurvature& curvature_;
  const LineSearch& search_;
  const LaplaceOptions& options_;
  Secants secants_;
};

}  // namespace parley
