// What each client's data is made of, inferred on the server from batch-norm statistics alone (FeDEC, §3.2.3).
//
// A client's mean and raw second moment of a norm channel are linear in its class distribution: Σ_c z_kc·(moment of
// class c). So a variational encoder–decoder, shared by all clients, explains the reported moments x_k:
//
//   encoder   u_k ~ N(m(x_k), diag σ²(x_k)), linear in x_k;   z_k = softmax(u_k), C classes
//   decoder   x̂_k = Σ_c z_kc·p_c (linear: C prototypes), or an MLP of z_k
//   loss      mean over clients of mean squared error(x̂_k, x_k) + kl·KL(q(u_k) ‖ N(0, 1 − 1/C))          (Eq. 9)
//
// The prior is the logistic-normal nearest to a flat Dirichlet. Classes are known up to their order only, and their
// purity only as far as some clients are nearly pure: nobody tells the server what a class is.
//
// Cost: about 6·K·F·C multiplications a step for K clients and F moments; no LibTorch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "parley/base/options.h"
#include "parley/base/random.h"
#include "parley/tensor/flat.h"
#include "parley/tensor/layout.h"

namespace parley {

struct InferenceOptions {
  std::size_t classes = 0;
  std::size_t steps = 0;  // of Adam a round
  double lr = 0.0;
  double kl = 0.0;
  std::size_t hidden = 0;  // units of an MLP decoder; 0: linear

  static std::vector<Option> declared();
};

// Numbers of each client, a row each. (Eigen's matrices stay in source files: how they are allocated depends on the
// instruction set that a file is compiled for.)
struct ClientRows {
  std::size_t columns = 0;
  std::vector<double> values = {};

  std::size_t rows() const { return values.size() / columns; }
  std::span<const double> row(std::size_t k) const { return std::span(values).subspan(k * columns, columns); }
  bool operator==(const ClientRows&) const = default;
};

struct Inferred {
  ClientRows z;
  std::vector<double> elbo;     // of each client: −loss
  double reconstruction = 0.0;  // mean squared error; the moments have variance 1
};

class Inference {
 public:
  // REQUIRES classes and moments > 0.
  Inference(const InferenceOptions& options, std::size_t moments);

  // Of the weights of encoder and decoder.
  const std::shared_ptr<const Layout>& layout() const { return layout_; }

  // The weights to start from, for these moments: prototypes are the most extreme clients, and the encoder asks which
  // of them is nearest.
  Flat initial(const ClientRows& moments, Stream& stream) const;
  // Trains the weights on the moments, from where they are. All randomness comes from `stream`. What it gives is not
  // finite when that diverged.
  Inferred infer(const ClientRows& moments, std::span<float> weights, Stream& stream) const;
  // The loss that infer() minimises, for one draw of u, and its gradient; what a test of the gradient asks.
  double loss(const ClientRows& moments, std::span<float> weights, Stream& stream, std::span<float> gradient) const;

 private:
  InferenceOptions options_;
  std::shared_ptr<const Layout> layout_;
};

}  // namespace parley
