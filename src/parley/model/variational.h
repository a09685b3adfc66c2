// Networks of Gaussian weights, behind the model seam: w = μ + σz, one μ and one ρ = ln σ for every trained weight.
//
// parameters() are the means, then the ρ of each, then what is measured; gradients() likewise. So optimisers, linear
// terms and hooks work on a variational network as on any other. The layout has the deterministic network's names for
// the means that are shared, `private/…` for a client's own, and `rho/…` in front of either for its ρ.
//
// backward() gives the loss and gradient at one draw of the noise (the mean over several with draws > 1), predict()
// what one draw predicts. reseed() fixes the noise of everything that follows.
//
// σ = e^ρ and not softplus(ρ): at the small σ of use the two are the same to 1 %, and in ln σ every gradient is a
// product with σ².
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "parley/model/model.h"
#include "parley/tensor/flat.h"

namespace parley {

class Variational : public Model {
 public:
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradients() override { return gradients_; }
  void reseed(const Stream& noise) override { noise_ = noise; }
  double backward(const Batch& batch) final;

  // The number of Gaussians: those of the shared weights, in the order of the deterministic network, then private ones.
  std::size_t gaussians() const { return gaussians_; }
  std::size_t shared() const { return shared_; }
  std::span<float> means() { return parameters().first(gaussians_); }
  std::span<float> rhos() { return parameters().subspan(gaussians_, gaussians_); }
  // σ² of every Gaussian as of the last backward() or predict().
  std::span<const float> variances() const { return variances_; }
  // Draws of the noise for each backward().
  void set_draws(std::size_t draws) { draws_ = draws; }

  // Means for a client's private part to start from, `gaussians() − shared()` of them: fresh weights, but the identity
  // for what it hears of the shared network (…lateral…), 1 for gates, and 0 for its own last layer; so a new client
  // predicts about what the server does.
  virtual void start_private(Stream& stream, std::span<float> means) const;

 protected:
  // From the deterministic network's layout and the entries of the private part.
  Variational(const Layout& network, std::vector<LayoutEntry> private_entries);

  // Of `flat`, parameters or gradients: the mean and the ρ of the entry at this place in the layout.
  std::span<float> mean_of(std::size_t entry, std::span<float> flat) const;
  std::span<float> rho_of(std::size_t entry, std::span<float> flat) const;
  // σ² = e^2ρ, all of them.
  void update_variances();
  // In the gradients, in place: from the derivative by σ² to that by ρ, 2σ²·∂σ².
  void from_variance_to_rho();
  Stream& noise() { return noise_; }
  std::span<float> variances_of_weights() { return variances_; }

 private:
  // One draw: the loss, and its gradient in gradients().
  virtual double backward_once(const Batch& batch) = 0;

  Layout layout_;
  std::size_t gaussians_, shared_, draws_ = 1;
  Flat parameters_, gradients_, variances_, summed_;
  Stream noise_{0, "noise of a variational network"};
};

// The variational form of a network: the one that is made for it or, where there is none, one whose weights are drawn
// anew for every batch (Bayes by backprop, Blundell et al. 2015). Throws InputError when a private part is asked for
// and the network has no form with one, or one with running statistics.
std::unique_ptr<Variational> make_variational(std::unique_ptr<Model> network, bool with_private);

}  // namespace parley
