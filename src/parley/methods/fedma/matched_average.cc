#include "parley/methods/fedma/matched_average.h"

#include <Eigen/Core>
#include <algorithm>
#include <cassert>

#include "parley/base/assignment.h"

namespace parley {
namespace {

// More rounds than matching has ever been seen to need; it can only go on for ever when costs are equal.
constexpr int kMostPasses = 20;

// One row a unit: all that tells it from the others.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix describe_units(const UnitChain& chain, std::size_t layer, std::span<const float> theta) {
  const auto &here = chain.layers()[layer], &next = chain.layers()[layer + 1];
  const bool last = layer + 1 == chain.hidden_layers();
  const std::size_t block = next.row() / here.units();
  Matrix units(here.units(), here.row() + here.vectors.size() + (last ? next.units() * block : 0));
  const auto weights = here.weight.of(theta), onward = next.weight.of(theta);
  for (std::size_t u = 0; u < here.units(); ++u) {
    float* to = units.row(static_cast<Eigen::Index>(u)).data();
    to = std::copy_n(weights.begin() + static_cast<std::ptrdiff_t>(u * here.row()), here.row(), to);
    // Running statistics are no weights, and on another scale.
    for (const auto& vector : here.vectors) *to++ = is_trainable(vector.role) ? vector.of(theta)[u] : 0.0f;
    for (std::size_t v = 0; last && v < next.units(); ++v) {
      to = std::copy_n(onward.begin() + static_cast<std::ptrdiff_t>(v * next.row() + u * block), block, to);
    }
  }
  return units;
}

// The place of each unit among those of `reference`. Of ‖u − r‖² the part that depends on the choice is ‖r‖² − 2u·r.
std::vector<std::size_t> places(const Matrix& units, const Matrix& reference) {
  const Eigen::MatrixXd u = units.cast<double>(), r = reference.cast<double>();
  using Cost = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Cost cost = -2.0 * u * r.transpose();
  cost.rowwise() += r.rowwise().squaredNorm().transpose();
  const auto count = static_cast<std::size_t>(units.rows());
  return assign({cost.data(), count * count}, count, count);
}

bool in_order(std::span<const std::size_t> place) {
  for (std::size_t u = 0; u < place.size(); ++u) {
    if (place[u] != u) return false;
  }
  return true;
}

// A layer of all networks, and the mean of their units.
class LayerMatching {
 public:
  LayerMatching(const UnitChain& chain, std::size_t layer, std::span<WeightedNetwork> networks)
      : chain_(chain), layer_(layer), networks_(networks) {}

  void run(std::span<const float> reference) {
    one_after_the_other(describe_units(chain_, layer_, reference));
    for (int pass = 0; pass < kMostPasses; ++pass) {
      const Matrix mean = mean_of_all();
      bool moved = false;
      for (auto& network : networks_) moved |= match(network, mean);
      if (!moved) return;
    }
  }

 private:
  void one_after_the_other(Matrix reference) {
    Matrix sum = Matrix::Zero(reference.rows(), reference.cols());
    double weight = 0.0;
    for (auto& network : networks_) {
      match(network, reference);
      sum += static_cast<float>(network.weight) * describe_units(chain_, layer_, network.theta);
      weight += network.weight;
      reference = sum / static_cast<float>(weight);
    }
  }

  Matrix mean_of_all() const {
    Matrix sum = static_cast<float>(networks_[0].weight) * describe_units(chain_, layer_, networks_[0].theta);
    double weight = networks_[0].weight;
    for (const auto& network : networks_.subspan(1)) {
      sum += static_cast<float>(network.weight) * describe_units(chain_, layer_, network.theta);
      weight += network.weight;
    }
    return sum / static_cast<float>(weight);
  }

  // Whether a unit moved.
  bool match(WeightedNetwork& network, const Matrix& reference) const {
    const auto place = places(describe_units(chain_, layer_, network.theta), reference);
    if (in_order(place)) return false;
    chain_.move_units(network.theta, layer_, place);
    return true;
  }

  const UnitChain& chain_;
  std::size_t layer_;
  std::span<WeightedNetwork> networks_;
};

}  // namespace

void match_units(const UnitChain& chain, std::size_t layer, std::span<const float> reference, std::span<float> theta) {
  const Matrix units = describe_units(chain, layer, theta);
  chain.move_units(theta, layer, places(units, describe_units(chain, layer, reference)));
}

FlatDouble matched_average(const UnitChain& chain, std::size_t first, std::span<const float> reference,
                           std::span<WeightedNetwork> networks) {
  assert(!networks.empty());
  for (std::size_t layer = first; layer < chain.hidden_layers(); ++layer) {
    LayerMatching(chain, layer, networks).run(reference);
  }
  FlatDouble mean(reference.size(), 0.0);
  double weight = 0.0;
  for (const auto& network : networks) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += network.weight * network.theta[i];
    weight += network.weight;
  }
  for (double& x : mean) x /= weight;
  return mean;
}

}  // namespace parley
