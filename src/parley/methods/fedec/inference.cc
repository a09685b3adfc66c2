#include "parley/methods/fedec/inference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "parley/gauss/eigen_maps.h"
#include "parley/optim/local_training.h"
#include "parley/optim/optimizer.h"

namespace parley {
namespace {

using Row = Eigen::Matrix<float, 1, Eigen::Dynamic>;

std::int64_t extent(std::size_t n) {
  return static_cast<std::int64_t>(n);
}

std::shared_ptr<const Layout> layout_of(const InferenceOptions& options, std::size_t moments) {
  const std::int64_t c = extent(options.classes), f = extent(moments), h = extent(options.hidden);
  std::vector<LayoutEntry> entries = {
      {"encoder.mean.weight", {f, c}},
      {"encoder.mean.bias", {c}, Role::bias},
      {"encoder.log_variance.weight", {f, c}},
      {"encoder.log_variance.bias", {c}, Role::bias},
  };
  if (h > 0) {
    entries.push_back({"decoder.hidden.weight", {c, h}});
    entries.push_back({"decoder.hidden.bias", {h}, Role::bias});
  }
  entries.push_back({"decoder.weight", {h > 0 ? h : c, f}});
  if (h > 0) entries.push_back({"decoder.bias", {f}, Role::bias});
  return std::make_shared<const Layout>(std::move(entries));
}

Matrix<float> softmax_rows(const Matrix<float>& u) {
  Matrix<float> z = (u.colwise() - u.rowwise().maxCoeff()).array().exp();
  return z.array().colwise() / z.rowwise().sum().array();
}

// Successive projections (Araújo et al. 2001): the row that is furthest out, then again in what is left when its
// direction is taken out. On points within a simplex these are the ones at its corners.
std::vector<Eigen::Index> extreme_rows(const Matrix<float>& x, std::size_t wanted) {
  constexpr float kNothingLeft = 1e-6f;
  Matrix<double> left(x.rows(), x.cols() + 1);  // a last coordinate of 1 makes corners independent
  left << x.cast<double>(), Eigen::VectorXd::Constant(x.rows(), std::sqrt(static_cast<double>(x.cols())));
  std::vector<Eigen::Index> chosen;
  while (chosen.size() < wanted) {
    Eigen::Index furthest = 0;
    const double length = std::sqrt(left.rowwise().squaredNorm().maxCoeff(&furthest));
    if (length < kNothingLeft) break;
    chosen.push_back(furthest);
    const Eigen::RowVectorXd direction = left.row(furthest) / length;
    left -= (left * direction.transpose()) * direction;
  }
  return chosen;
}

std::unique_ptr<Optimizer> adam() {
  const auto registry = optimizers();
  auto options = LocalOptions::declared();
  for (const auto& option : registry.at("adam").about.options) options.push_back(option);
  return registry.at("adam").make(Options("client", options));
}

template <class Derived>
void fill_normal(Stream& stream, double scale, Eigen::MatrixBase<Derived>& values) {
  for (Eigen::Index i = 0; i < values.rows(); ++i) {
    for (Eigen::Index j = 0; j < values.cols(); ++j) values(i, j) = static_cast<float>(scale * stream.normal());
  }
}

// Every moment with mean 0 and variance 1 over the clients; one that is the same for all is 0.
Matrix<float> standardised(const ClientRows& moments) {
  const ConstMap<double> raw(moments.values.data(), index(moments.rows()), index(moments.columns));
  Matrix<double> x = raw.rowwise() - raw.colwise().mean();
  for (Eigen::Index j = 0; j < x.cols(); ++j) {
    const double deviation = std::sqrt(x.col(j).squaredNorm() / static_cast<double>(x.rows()));
    const bool varies = deviation > 1e-9 * std::abs(raw(0, j)) && std::isnormal(deviation);
    x.col(j) *= varies ? 1.0 / deviation : 0.0;
  }
  return x.cast<float>();
}

// The weights, or their gradients, as matrices over one flat vector. A bias is a row. What a decoder does not have is
// empty.
struct Weights {
  Weights(const Layout& layout, std::span<float> flat)
      : mean(matrix(layout, flat, "encoder.mean.weight")),
        mean_bias(matrix(layout, flat, "encoder.mean.bias")),
        log_variance(matrix(layout, flat, "encoder.log_variance.weight")),
        log_variance_bias(matrix(layout, flat, "encoder.log_variance.bias")),
        hidden(matrix(layout, flat, "decoder.hidden.weight")),
        hidden_bias(matrix(layout, flat, "decoder.hidden.bias")),
        decoder(matrix(layout, flat, "decoder.weight")),
        decoder_bias(matrix(layout, flat, "decoder.bias")) {}

  static Map<float> matrix(const Layout& layout, std::span<float> flat, const char* name) {
    const LayoutEntry* entry = layout.find(name);
    if (entry == nullptr) return {nullptr, 0, 0};
    const std::int64_t rows = entry->shape.size() == 1 ? 1 : entry->shape[0];
    return {entry->of(flat).data(), rows, entry->shape.back()};
  }

  bool linear() const { return hidden.size() == 0; }

  Map<float> mean, mean_bias, log_variance, log_variance_bias, hidden, hidden_bias, decoder, decoder_bias;
};

// One pass through encoder and decoder; a row for each client.
struct Pass {
  Matrix<float> noise;               // ε
  Matrix<float> mean, log_variance;  // of u
  Matrix<float> u, z;
  Matrix<float> hidden;  // of an MLP decoder
  Matrix<float> error;   // x̂ − x
};

class EncoderDecoder {
 public:
  EncoderDecoder(const InferenceOptions& options, Matrix<float> x)
      : x_(std::move(x)),
        kl_(static_cast<float>(options.kl)),
        prior_variance_(1.0f - 1.0f / static_cast<float>(std::max<std::size_t>(options.classes, 2))) {}

  // From the pass's noise to its error.
  void forward(const Weights& weights, Pass& pass) const {
    pass.mean = (x_ * weights.mean).rowwise() + Row(weights.mean_bias);
    pass.log_variance = (x_ * weights.log_variance).rowwise() + Row(weights.log_variance_bias);
    pass.u = pass.mean.array() + (0.5f * pass.log_variance.array()).exp() * pass.noise.array();
    pass.z = softmax_rows(pass.u);
    if (weights.linear()) {
      pass.error = pass.z * weights.decoder - x_;
      return;
    }
    pass.hidden = ((pass.z * weights.hidden).rowwise() + Row(weights.hidden_bias)).array().tanh();
    pass.error = ((pass.hidden * weights.decoder).rowwise() + Row(weights.decoder_bias)) - x_;
  }

  // The gradient of the loss, the mean over clients of squared error and KL.
  void backward(const Weights& weights, const Pass& pass, Weights& gradient) const {
    const auto clients = static_cast<float>(x_.rows());
    const Matrix<float> d_u = to_latent(pass, decode_backward(weights, pass, gradient));
    const float kl = kl_ / clients;
    const Matrix<float> variance = pass.log_variance.array().exp();
    const Matrix<float> d_mean = d_u + (kl / prior_variance_) * pass.mean;
    const Matrix<float> d_log_variance = 0.5f * (d_u.array() * pass.noise.array() * variance.array().sqrt() +
                                                 kl * (variance.array() / prior_variance_ - 1.0f));
    gradient.mean = x_.transpose() * d_mean;
    gradient.mean_bias = d_mean.colwise().sum();
    gradient.log_variance = x_.transpose() * d_log_variance;
    gradient.log_variance_bias = d_log_variance.colwise().sum();
  }

  // Of each client: mean squared error + kl·KL.
  std::vector<double> losses(const Pass& pass) const {
    const Eigen::ArrayXXf divergence =
        0.5f * ((pass.log_variance.array().exp() + pass.mean.array().square()) / prior_variance_ - 1.0f +
                std::log(prior_variance_) - pass.log_variance.array());
    std::vector<double> losses;
    for (Eigen::Index k = 0; k < x_.rows(); ++k) {
      losses.push_back(pass.error.row(k).squaredNorm() / static_cast<float>(x_.cols()) + kl_ * divergence.row(k).sum());
    }
    return losses;
  }

  // At u = m(x), without noise.
  Inferred conclude(const Weights& weights) const {
    Pass pass;
    pass.noise = Matrix<float>::Zero(x_.rows(), weights.mean.cols());
    forward(weights, pass);
    Inferred inferred{.z = {.columns = static_cast<std::size_t>(pass.z.cols())},
                      .reconstruction = pass.error.squaredNorm() / static_cast<double>(pass.error.size())};
    inferred.z.values.assign(pass.z.data(), pass.z.data() + pass.z.size());
    for (const double loss : losses(pass)) inferred.elbo.push_back(-loss);
    return inferred;
  }

 private:
  // Fills the decoder's gradient; returns the loss's with respect to z.
  Matrix<float> decode_backward(const Weights& weights, const Pass& pass, Weights& gradient) const {
    const Matrix<float> d_x = (2.0f / static_cast<float>(x_.size())) * pass.error;
    if (weights.linear()) {
      gradient.decoder = pass.z.transpose() * d_x;
      return d_x * weights.decoder.transpose();
    }
    gradient.decoder = pass.hidden.transpose() * d_x;
    gradient.decoder_bias = d_x.colwise().sum();
    const Matrix<float> d_hidden = (d_x * weights.decoder.transpose()).array() * (1.0f - pass.hidden.array().square());
    gradient.hidden = pass.z.transpose() * d_hidden;
    gradient.hidden_bias = d_hidden.colwise().sum();
    return d_hidden * weights.hidden.transpose();
  }

  Matrix<float> to_latent(const Pass& pass, const Matrix<float>& d_z) const {
    const Eigen::VectorXf common = (pass.z.array() * d_z.array()).rowwise().sum();
    return pass.z.array() * (d_z.colwise() - common).array();
  }

  Matrix<float> x_;
  float kl_, prior_variance_;
};

}  // namespace

std::vector<Option> InferenceOptions::declared() {
  std::vector<Option> options{
      {"classes", std::int64_t{0}, "classes that clients are made of; 0 = the model's outputs", at_least(0)},
      {"inference_steps", std::int64_t{200}, "steps of the encoder–decoder per round", at_least(1)},
      {"inference_lr", 0.02, "their length (Adam)", above(0.0)},
      {"kl", 0.01, "weight of the encoder–decoder's KL term beside the mean squared error", at_least(0.0)},
      {"decoder",
       std::string("linear"),
       "from classes to statistics: one prototype per class, or a network of one hidden layer",
       {},
       {"linear", "mlp"}},
  };
  const auto mlp = only_with({"decoder", {"mlp"}}, {{"decoder_hidden", std::int64_t{32}, "hidden units", at_least(1)}});
  options.insert(options.end(), mlp.begin(), mlp.end());
  return options;
}

Inference::Inference(const InferenceOptions& options, std::size_t moments)
    : options_(options), layout_(layout_of(options, moments)) {
  assert(options.classes > 0 && moments > 0);
}

Flat Inference::initial(const ClientRows& moments, Stream& stream) const {
  constexpr float kSharpness = 2.0f;  // of the encoder's first guess, in nats for a squared distance of 1 a moment
  constexpr double kSmall = 0.1;
  const Matrix<float> x = standardised(moments);
  Flat flat(layout_->size(), 0.0f);
  Weights weights(*layout_, flat);
  Matrix<float> corners(index(options_.classes), x.cols());
  fill_normal(stream, kSmall, corners);  // for classes beyond the clients
  const auto chosen = extreme_rows(x, options_.classes);
  for (std::size_t c = 0; c < chosen.size(); ++c) corners.row(index(c)) = x.row(chosen[c]);
  // −κ|x − p|² less what all classes have in common.
  const float scale = kSharpness / static_cast<float>(x.cols());
  weights.mean = 2.0f * scale * corners.transpose();
  weights.mean_bias = -scale * corners.rowwise().squaredNorm().transpose();
  weights.log_variance_bias.setConstant(-2.0f);
  if (weights.linear()) {
    weights.decoder = corners;
  } else {
    fill_normal(stream, 1.0, weights.hidden);
    fill_normal(stream, 1.0 / std::sqrt(static_cast<double>(options_.hidden)), weights.decoder);
  }
  return flat;
}

double Inference::loss(const ClientRows& moments, std::span<float> flat, Stream& stream,
                       std::span<float> gradients) const {
  const EncoderDecoder model(options_, standardised(moments));
  Weights weights(*layout_, flat), gradient(*layout_, gradients);
  Pass pass;
  pass.noise.resize(index(moments.rows()), index(options_.classes));
  fill_normal(stream, 1.0, pass.noise);
  model.forward(weights, pass);
  model.backward(weights, pass, gradient);
  const auto losses = model.losses(pass);
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

Inferred Inference::infer(const ClientRows& moments, std::span<float> flat, Stream& stream) const {
  const EncoderDecoder model(options_, standardised(moments));
  Flat gradients(flat.size());
  Weights weights(*layout_, flat), gradient(*layout_, gradients);
  Pass pass;
  pass.noise.resize(index(moments.rows()), index(options_.classes));
  const auto optimizer = adam();
  optimizer->reset(flat.size());
  for (std::size_t step = 0; step < options_.steps; ++step) {
    fill_normal(stream, 1.0, pass.noise);  // the reparametrisation of u
    model.forward(weights, pass);
    model.backward(weights, pass, gradient);
    optimizer->step(flat, gradients, {}, static_cast<float>(options_.lr));
  }
  return model.conclude(weights);
}

}  // namespace parley
