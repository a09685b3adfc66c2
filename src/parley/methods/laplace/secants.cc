#include "parley/methods/laplace/secants.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace parley {
namespace {

constexpr const char* kCount = "secants";  // that were ever added
constexpr double kLeastCurvature = 0.2;    // of y, as a share of the factors'

std::string steps(std::size_t place) {
  return "secant_step_" + std::to_string(place);
}
std::string changes(std::size_t place) {
  return "secant_change_" + std::to_string(place);
}

// to += factor·from.
void add_scaled(double factor, std::span<const double> from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

}  // namespace

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void Secants::start(State& state) const {
  if (!any()) return;
  state.add_scalar(kCount, false, 0.0);
  for (std::size_t place = 0; place < most_; ++place) {
    state.add(steps(place), layout_, false, Flat(layout_->size(), 0.0f));
    state.add(changes(place), layout_, false, Flat(layout_->size(), 0.0f));
  }
}

bool Secants::known(const State& state) const {
  return any() && state.scalar(kCount) > 0.0;
}

void Secants::add(State& state, std::span<const double> s, std::span<const double> y,
                  std::span<const double> curved) const {
  const double expected = dot(s, curved), found = dot(s, y);
  const double share =
      found >= kLeastCurvature * expected ? 1.0 : (1.0 - kLeastCurvature) * expected / (expected - found);
  double& count = state.scalar(kCount);
  const std::size_t place = static_cast<std::size_t>(count) % most_;
  std::ranges::transform(s, state.at(steps(place)).begin(), [](double x) { return static_cast<float>(x); });
  const auto change = state.at(changes(place));
  for (std::size_t i = 0; i < y.size(); ++i) change[i] = static_cast<float>(share * y[i] + (1.0 - share) * curved[i]);
  count += 1.0;
}

std::vector<Secants::Pair> Secants::newest_first(const State& state) const {
  const auto count = static_cast<std::size_t>(state.scalar(kCount));
  std::vector<Pair> pairs;
  for (std::size_t back = 1; back <= std::min(count, most_); ++back) {
    const std::size_t place = (count - back) % most_;
    const auto s = state.at(steps(place)).first(layout_->trainable());
    const auto y = state.at(changes(place)).first(layout_->trainable());
    Pair pair{.s = {s.begin(), s.end()}, .y = {y.begin(), y.end()}, .curvature = 0.0};
    pair.curvature = dot(pair.s, pair.y);
    if (pair.curvature > 0.0) pairs.push_back(std::move(pair));
  }
  return pairs;
}

void Secants::precondition(const State& state, const Precondition& first, std::span<double> gradient) const {
  const std::vector<Pair> pairs = newest_first(state);
  if (pairs.empty()) {
    const std::span<double> alone[] = {gradient};
    return first(alone);
  }
  std::vector<double> shares;
  for (const auto& pair : pairs) {
    shares.push_back(dot(pair.s, gradient) / pair.curvature);
    add_scaled(-shares.back(), pair.y, gradient);
  }
  // The first matrix is scaled by what it made of the newest y (Nocedal & Wright, Eq. 7.20).
  std::vector<double> newest = pairs[0].y;
  const std::span<double> both[] = {gradient, newest};
  first(both);
  const double scale = pairs[0].curvature / dot(pairs[0].y, newest);
  for (double& x : gradient) x *= scale;
  for (std::size_t i = pairs.size(); i-- > 0;) {
    add_scaled(shares[i] - dot(pairs[i].y, gradient) / pairs[i].curvature, pairs[i].s, gradient);
  }
}

}  // namespace parley
