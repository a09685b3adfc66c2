#include "parley/model/torch/pair.h"

#include <utility>

namespace parley {
namespace {

class Pair final : public Network {
 public:
  Pair(std::shared_ptr<PairedNetwork> shared, std::shared_ptr<PairedNetwork> own)
      : shared_(register_module("shared", std::move(shared))), own_(register_module("private", std::move(own))) {}

  torch::Tensor forward(const torch::Tensor& inputs) override {
    shared_->forward(inputs);
    return own_->forward(inputs);
  }
  std::optional<Graded> grade(const torch::Tensor& inputs, std::span<const std::int32_t> labels) override {
    if (!shared_->grade(inputs, labels)) return std::nullopt;
    return own_->grade(inputs, labels);
  }
  void reseed(const Stream& noise) override {
    shared_->reseed(noise);
    own_->reseed(noise);
  }

 private:
  std::shared_ptr<PairedNetwork> shared_, own_;
};

}  // namespace

LateralImpl::LateralImpl(std::int64_t width) : gate_(register_parameter("gate", torch::ones(1))) {
  if (width > 0) map_ = register_module("map", Conv(torch::nn::Conv2dOptions(width, width, /*kernel=*/1).bias(false)));
}

torch::Tensor LateralImpl::forward(const torch::Tensor& a) {
  if (map_.is_empty()) return gate_ * a;
  if (a.dim() == 4) return gate_ * map_(a);
  return gate_ * map_(a.unsqueeze(2).unsqueeze(3)).flatten(1);
}

void PairedNetwork::listen_to(PairedNetwork& shared, const std::vector<std::int64_t>& widths) {
  for (const std::int64_t width : widths) {
    laterals_.push_back(register_module(fmt::format("lateral{}", laterals_.size() + 1), Lateral(width)));
  }
  shared_ = &shared;
  shared.listened_to_ = true;
  shared.told_.resize(widths.size());
}

torch::Tensor PairedNetwork::heard(std::size_t layer) {
  return laterals_[layer](shared_->told_[layer]);
}

torch::Tensor PairedNetwork::tell(std::size_t layer, torch::Tensor a) {
  if (listened_to_) told_[layer] = a;
  return a;
}

std::shared_ptr<Network> side_by_side(std::shared_ptr<PairedNetwork> shared, std::shared_ptr<PairedNetwork> own) {
  return std::make_shared<Pair>(std::move(shared), std::move(own));
}

}  // namespace parley
