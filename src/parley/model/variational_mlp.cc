#include <algorithm>
#include <cassert>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/gauss/loops.h"
#include "parley/gauss/normal.h"
#include "parley/model/dense.h"
#include "parley/model/losses.h"
#include "parley/model/variational.h"

namespace parley {
namespace {

// What a layer reads: an input through a matrix of Gaussian weights, W_μ and W_σ², times a gate where there is one.
struct Term {
  std::size_t input;   // place among the nodes
  std::size_t weight;  // entry of the layout
  std::optional<std::size_t> gate = std::nullopt;
};

// Numbers that pass through the network, a row an example: the data (node 0), or what a layer gives.
struct Node {
  std::size_t width = 0;
  std::span<const float> value;  // behind the activation
  Flat own, square, delta;       // the value's memory, its square, the gradient of the loss at the node
  bool reached = false;          // whether this backward() has already written delta
};

// A layer: outputs ~ N(Σ g·x W_μᵀ + b_μ, Σ g²·x² W_σ²ᵀ + b_σ²), each example's drawn by itself, then the activation.
struct Site {
  std::size_t node;
  std::vector<Term> terms;
  std::size_t bias;
  bool activated;
  Flat deviation, noise;  // σ of the outputs and the z that were drawn; going back, noise becomes ∂ by the variance
};

// A scalar weight, drawn once a batch.
struct Gate {
  float value, noise;
};

std::vector<LayoutEntry> private_entries(const MlpPlan& plan) {
  std::vector<LayoutEntry> entries;
  for (std::size_t l = 0; l < plan.layers(); ++l) {
    const auto in = static_cast<std::int64_t>(plan.widths[l]), out = static_cast<std::int64_t>(plan.widths[l + 1]);
    const std::string name = fmt::format("private/fc{}.", l + 1);
    entries.push_back({.name = name + "weight", .shape = {out, in}});
    entries.push_back({.name = name + "lateral", .shape = {out, out}});
    entries.push_back({.name = name + "gate", .shape = {1}});
    entries.push_back({.name = name + "bias", .shape = {out}, .role = Role::bias});
  }
  return entries;
}

class VariationalMlp final : public Variational {
 public:
  VariationalMlp(const MlpPlan& plan, bool with_private)
      : Variational(plan.layout(), with_private ? private_entries(plan) : std::vector<LayoutEntry>()), plan_(plan) {
    const std::size_t layers = plan_.layers();
    nodes_.emplace_back().width = plan_.widths.front();
    for (std::size_t l = 0; l < layers; ++l) add_site(l, {{.input = l, .weight = 2 * l}}, 2 * l + 1);
    if (!with_private) return;
    for (std::size_t l = 0; l < layers; ++l) {
      const std::size_t entry = 2 * layers + 4 * l;
      add_site(l,
               {{.input = l == 0 ? 0 : layers + l, .weight = entry},
                {.input = l + 1, .weight = entry + 1, .gate = entry + 2}},
               entry + 3);
    }
    gates_.resize(layout().entries().size());
  }

  std::size_t outputs() const override { return plan_.widths.back(); }
  Loss loss() const override { return plan_.loss; }
  void predict(const Batch& batch, std::span<float> outputs) override;

 private:
  void add_site(std::size_t layer, std::vector<Term> terms, std::size_t bias) {
    sites_.push_back({nodes_.size(), std::move(terms), bias, layer + 1 < plan_.layers()});
    nodes_.emplace_back().width = plan_.widths[layer + 1];
  }
  double backward_once(const Batch& batch) override;
  void reserve(std::size_t rows);
  void draw_gates();
  void forward(const Batch& batch);
  void forward(Site& site, std::size_t rows);
  void backward(Site& site, std::size_t rows);
  void backward(const Term& term, const Site& site, std::size_t rows);
  void reach(const Term& term, const Site& site, std::size_t rows);
  float gate(const Term& term) const { return term.gate ? gates_[*term.gate].value : 1.0f; }
  const float* variance(std::size_t entry) const { return variances().data() + layout().entries()[entry].offset; }

  MlpPlan plan_;
  std::vector<Node> nodes_;
  std::vector<Site> sites_;   // in the order in which they are computed
  std::vector<Gate> gates_;   // by entry of the layout
  Flat scratch_;              // rows × the widest node
  std::size_t capacity_ = 0;  // rows the buffers hold
};

void VariationalMlp::reserve(std::size_t rows) {
  if (rows <= capacity_) return;
  capacity_ = rows;
  nodes_[0].square.resize(rows * nodes_[0].width);
  for (auto& site : sites_) {
    Node& node = nodes_[site.node];
    for (Flat* buffer : {&node.own, &node.square, &node.delta, &site.deviation, &site.noise}) {
      buffer->resize(rows * node.width);
    }
    scratch_.resize(std::max(scratch_.size(), node.own.size()));
  }
}

void VariationalMlp::draw_gates() {
  for (const auto& site : sites_) {
    for (const auto& term : site.terms) {
      if (!term.gate) continue;
      Gate& gate = gates_[*term.gate];
      gate.noise = static_cast<float>(noise().normal());
      gate.value = mean_of(*term.gate, parameters())[0] + std::sqrt(*variance(*term.gate)) * gate.noise;
    }
  }
}

void VariationalMlp::forward(Site& site, std::size_t rows) {
  Node& to = nodes_[site.node];
  float *mean = to.own.data(), *deviation = site.deviation.data();
  for (std::size_t t = 0; t < site.terms.size(); ++t) {
    const Term& term = site.terms[t];
    const Node& from = nodes_[term.input];
    const float g = gate(term), keep = t == 0 ? 0.0f : 1.0f;
    multiply(Form::plain, Form::transposed, rows, to.width, from.width, from.value.data(),
             mean_of(term.weight, parameters()).data(), mean, g, keep);
    multiply(Form::plain, Form::transposed, rows, to.width, from.width, from.square.data(), variance(term.weight),
             deviation, g * g, keep);
  }
  gauss::fill_normal(noise(), std::span(site.noise).first(rows * to.width));
  const float *bias = mean_of(site.bias, parameters()).data(), *bias_variance = variance(site.bias);
  const auto draw = [&](auto activation) {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t begin = row * to.width;
      float *value = mean + begin, *sigma = deviation + begin, *square = to.square.data() + begin;
      const float* z = site.noise.data() + begin;
      gauss::for_each(to.width, [=](std::size_t j) {
        sigma[j] = std::sqrt(sigma[j] + bias_variance[j]);
        value[j] = activation(value[j] + bias[j] + sigma[j] * z[j]);
        square[j] = value[j] * value[j];
      });
    }
  };
  if (site.activated) {
    with_activation(plan_.activation, [&](auto kind) { draw([kind](float x) { return activate<kind()>(x); }); });
  } else {
    draw([](float x) { return x; });
  }
  to.value = to.own;
}

void VariationalMlp::forward(const Batch& batch) {
  assert(batch.inputs.size() == batch.size * plan_.widths.front());
  reserve(batch.size);
  update_variances();
  draw_gates();
  Node& data = nodes_[0];
  data.value = batch.inputs;
  const float* x = batch.inputs.data();
  float* const square = data.square.data();
  gauss::for_each(batch.inputs.size(), [=](std::size_t i) { square[i] = x[i] * x[i]; });
  for (auto& site : sites_) forward(site, batch.size);
}

void VariationalMlp::predict(const Batch& batch, std::span<float> outputs) {
  if (batch.size == 0) return;
  forward(batch);
  std::copy_n(nodes_.back().own.begin(), outputs.size(), outputs.begin());
}

// The gradient at the term's input: g·δW_μ + 2x∘(g²·∂σ² W_σ²).
void VariationalMlp::reach(const Term& term, const Site& site, std::size_t rows) {
  if (term.input == 0) return;  // nobody asks for the gradient at the data
  Node& from = nodes_[term.input];
  const Node& to = nodes_[site.node];
  const float g = gate(term);
  multiply(Form::plain, Form::plain, rows, from.width, to.width, to.delta.data(),
           mean_of(term.weight, parameters()).data(), from.delta.data(), g, from.reached ? 1.0f : 0.0f);
  multiply(Form::plain, Form::plain, rows, from.width, to.width, site.noise.data(), variance(term.weight),
           scratch_.data(), 2.0f * g * g);
  const float *x = from.value.data(), *by_square = scratch_.data();
  float* const delta = from.delta.data();
  gauss::for_each(rows * from.width, [=](std::size_t i) { delta[i] += x[i] * by_square[i]; });
  from.reached = true;
}

void VariationalMlp::backward(const Term& term, const Site& site, std::size_t rows) {
  const Node &from = nodes_[term.input], &to = nodes_[site.node];
  const auto by_mean = mean_of(term.weight, gradients()), by_variance = rho_of(term.weight, gradients());
  multiply(Form::transposed, Form::plain, to.width, from.width, rows, to.delta.data(), from.value.data(),
           by_mean.data());
  multiply(Form::transposed, Form::plain, to.width, from.width, rows, site.noise.data(), from.square.data(),
           by_variance.data());
  if (term.gate) {
    // The products above are without the gate g; ⟨W_μ, ·⟩ and ⟨W_σ², ·⟩ are the derivatives by g and g².
    const auto weight = mean_of(term.weight, parameters());
    const float g = gate(term), *spread = variance(term.weight);
    const auto by_gate = static_cast<float>(gauss::sum(by_mean.size(), [&](std::size_t i) {
      return double{weight[i]} * by_mean[i] + 2.0 * g * spread[i] * by_variance[i];
    }));
    for (float& x : by_mean) x *= g;
    for (float& x : by_variance) x *= g * g;
    mean_of(*term.gate, gradients())[0] = by_gate;
    rho_of(*term.gate, gradients())[0] =
        by_gate * gates_[*term.gate].noise / (2.0f * std::sqrt(*variance(*term.gate)));  // ∂ by its variance
  }
  reach(term, site, rows);
}

void VariationalMlp::backward(Site& site, std::size_t rows) {
  Node& node = nodes_[site.node];
  const std::size_t count = rows * node.width;
  float *delta = node.delta.data(), *noise = site.noise.data();
  if (site.activated) {
    with_activation(plan_.activation, [&](auto kind) { multiply_by_slope<kind()>(count, node.value.data(), delta); });
  }
  const float* sigma = site.deviation.data();
  gauss::for_each(count, [=](std::size_t i) { noise[i] *= 0.5f * delta[i] / sigma[i]; });  // ∂ by σ², as ∂σ = δz
  sum_rows(rows, delta, mean_of(site.bias, gradients()));
  sum_rows(rows, noise, rho_of(site.bias, gradients()));
  for (const auto& term : site.terms) backward(term, site, rows);
}

double VariationalMlp::backward_once(const Batch& batch) {
  assert(batch.size > 0);
  forward(batch);
  for (auto& node : nodes_) node.reached = false;
  Node& last = nodes_.back();
  const std::size_t count = batch.size * last.width;
  std::copy_n(last.own.begin(), count, last.delta.begin());
  const double mean_loss = loss_and_gradient(plan_.loss, batch, outputs(), std::span(last.delta).first(count));
  for (auto site = sites_.rbegin(); site != sites_.rend(); ++site) backward(*site, batch.size);
  from_variance_to_rho();
  return mean_loss;
}

}  // namespace

std::unique_ptr<Variational> make_variational_mlp(const MlpPlan& plan, bool with_private) {
  if (plan.dropout > 0.0) {
    fail("model.dropout = {}: a network of Gaussian weights draws noise of its own; set 0", plan.dropout);
  }
  return std::make_unique<VariationalMlp>(plan, with_private);
}

}  // namespace parley
