#include "parley/methods/fedec/weights.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "parley/gauss/eigen_maps.h"

namespace parley {
namespace {

std::vector<double> normalised(std::vector<double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  assert(total > 0.0);
  for (double& weight : weights) weight /= total;
  return weights;
}

}  // namespace

std::vector<double> match_weights(const ClientRows& z, std::span<const double> target, std::span<const double> start) {
  constexpr int kMostSteps = 1000;
  constexpr double kSettled = 1e-9;
  const ConstMap<double> mixes(z.values.data(), index(z.rows()), index(z.columns));
  const Eigen::Map<const Eigen::VectorXd> t(target.data(), index(target.size()));
  Eigen::VectorXd pi = Eigen::Map<const Eigen::VectorXd>(start.data(), index(start.size()));
  pi /= pi.sum();
  for (int step = 0; step < kMostSteps; ++step) {
    const Eigen::VectorXd mixture = mixes.transpose() * pi;
    // A class that nobody has cannot be matched, by any weights.
    const Eigen::VectorXd ratio = (mixture.array() > 0.0).select(t.array() / mixture.array(), 0.0);
    Eigen::VectorXd next = pi.array() * (mixes * ratio).array();
    next /= next.sum();
    const double moved = (next - pi).lpNorm<Eigen::Infinity>();
    pi = std::move(next);
    if (moved < kSettled) break;
  }
  return {pi.data(), pi.data() + pi.size()};
}

std::vector<double> elbo_weights(std::span<const double> elbo, double temperature) {
  const double best = *std::ranges::max_element(elbo);
  std::vector<double> weights;
  for (const double x : elbo) weights.push_back(std::exp((x - best) / temperature));
  return normalised(std::move(weights));
}

}  // namespace parley
