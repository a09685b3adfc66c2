#include "parley/engine/peer/mixing.h"

#include <algorithm>
#include <functional>

namespace parley {

Offer offer_of(std::span<const float> before, std::span<const float> after, bool mixes_old_weights) {
  if (after.empty()) after = before;  // whose training failed mixes what it had
  Offer offer;
  if (mixes_old_weights) {
    offer.weights.assign(before.begin(), before.end());
    offer.step.resize(before.size());
    std::ranges::transform(after, before, offer.step.begin(), std::minus<>());
  } else {
    offer.weights.assign(after.begin(), after.end());
  }
  return offer;
}

double metropolis_share(std::size_t degree, std::size_t other_degree) {
  return 1.0 / (1.0 + static_cast<double>(std::max(degree, other_degree)));
}

Flat mix(const Offer& own, std::span<const Partner> partners) {
  FlatDouble sum(own.weights.begin(), own.weights.end());
  for (const auto& [theirs, share] : partners) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share * (double{theirs[i]} - double{own.weights[i]});
  }
  Flat mixed(sum.begin(), sum.end());
  for (std::size_t i = 0; i < own.step.size(); ++i) mixed[i] += own.step[i];  // Eq. 3.15
  return mixed;
}

void merge_by_age(std::span<float> own, std::size_t& age, const Aged& other) {
  const double total = static_cast<double>(age + other.age);
  const double share = total == 0.0 ? 0.5 : static_cast<double>(other.age) / total;
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i] = static_cast<float>((1.0 - share) * own[i] + share * other.weights[i]);
  }
  age = std::max(age, other.age);
}

Flat mean_of(const std::vector<std::span<const float>>& models) {
  FlatDouble sum(models.front().size(), 0.0);
  for (const auto weights : models) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weights[i];
  }
  Flat mean(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    mean[i] = static_cast<float>(sum[i] / static_cast<double>(models.size()));
  return mean;
}

}  // namespace parley
