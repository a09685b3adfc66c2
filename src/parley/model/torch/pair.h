// Two networks of one kind side by side: a shared one, and a client's own that hears it at every layer (Kiss 2021,
// Eq. 3.14):
//
//   h_l = act(U_l h_{l−1} + b_l + α_l V_l a_l)
//
// h_l is what the own network's layer l gives, and a_l what the shared one's does, behind its activation; at the last
// layer there is none. V_l mixes channels, at each place of an image alike; α_l is a single number, the client's gate.
// What is pooled is pooled before the sum, which gives V_l a quarter of the places.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "parley/model/torch/network.h"
#include "parley/model/torch/shown_layers.h"

namespace parley {

// α·V a for [batch, width] or [batch, width, height, width']; α·a where the width is 0, for layers whose own weights
// have V among them.
class LateralImpl final : public torch::nn::Module {
 public:
  explicit LateralImpl(std::int64_t width);
  torch::Tensor forward(const torch::Tensor& a);

 private:
  torch::Tensor gate_;
  Conv map_{nullptr};
};
TORCH_MODULE(Lateral);

// A network that can be either of the two: every layer l of its forward() is tell(l, act(hear(l, z))). Alone, hear and
// tell give back what they are given.
class PairedNetwork : public Network {
 protected:
  // Makes this the own network beside `shared`, which must run before it in every pass and outlive it. `widths`: the
  // channels that each layer gives, as Lateral has them.
  void listen_to(PairedNetwork& shared, const std::vector<std::int64_t>& widths);
  bool listens() const { return shared_ != nullptr; }
  // α_l V_l a_l
  torch::Tensor heard(std::size_t layer);
  torch::Tensor hear(std::size_t layer, const torch::Tensor& z) { return listens() ? z + heard(layer) : z; }
  torch::Tensor tell(std::size_t layer, torch::Tensor a);
  torch::Tensor relu(std::size_t layer, const torch::Tensor& z) { return tell(layer, torch::relu(hear(layer, z))); }
  torch::Tensor outputs(std::size_t layer, const torch::Tensor& z) { return tell(layer, hear(layer, z)); }

 private:
  PairedNetwork* shared_ = nullptr;
  bool listened_to_ = false;
  std::vector<Lateral> laterals_;
  std::vector<torch::Tensor> told_;
};

// Both as one network, whose answers are the own one's. Its parts are called "shared" and "private".
std::shared_ptr<Network> side_by_side(std::shared_ptr<PairedNetwork> shared, std::shared_ptr<PairedNetwork> own);
// Net's constructor takes a Net* last, the one to listen to.
template <class Net, class... Arguments>
std::shared_ptr<Network> make_beside(const Arguments&... arguments) {
  auto shared = std::make_shared<Net>(arguments..., nullptr);
  return side_by_side(shared, std::make_shared<Net>(arguments..., shared.get()));
}

}  // namespace parley
