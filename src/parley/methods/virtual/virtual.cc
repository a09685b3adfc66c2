#include "parley/methods/virtual/virtual.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/gauss/diagonal.h"
#include "parley/gauss/normal.h"
#include "parley/methods/virtual/ivon.h"
#include "parley/methods/virtual/options.h"
#include "parley/methods/virtual/snr.h"
#include "parley/model/variational.h"

namespace parley {
namespace {

constexpr const char* kPrecision = "precision";
constexpr const char* kSnr = "snr";
// What a client sends.
constexpr const char *kDeltaPrecision = "delta_precision", *kDeltaShift = "delta_shift", *kMeasured = "measured",
                     *kFloored = "floored", *kPrivateStarted = "private_started";
// Of a client's record: its factor s_i, and the posteriors it trained (means, then ρ).
constexpr const char* kFactorPrecision = "factor_precision";
constexpr const char* kFactorShift = "factor_shift";
constexpr const char* kOwn = "own";
constexpr const char* kPrivate = "private";
// The least part of its precision that a round may leave to a weight of the server.
constexpr float kLeastShare = 1e-3f;

// Owns a Gaussian in natural form.
struct Natural {
  Flat precision, shift;
  explicit Natural(std::size_t size) : precision(size), shift(size) {}
  operator gauss::ConstNaturalView() const { return {precision, shift}; }
};

class Virtual final : public Method, private Posterior, private Personal {
 public:
  explicit Virtual(const MethodContext& context)
      : layout_(context.layout),
        options_(context.options),
        holders_(context.holders()),
        examples_(context.examples),
        snr_layout_(std::make_shared<const Layout>(snr_layout(*context.layout))) {
    if (const double decay = context.client.real("weight_decay"); decay > 0.0) {
      fail("client.weight_decay = {}: it would pull ln σ towards 0 too; virtual has a prior, method.prior_scale",
           decay);
    }
    if (options_.ivon) refuse_for_ivon(context.client);
    refuse_server_step(context.server);
  }

  void check_model(const NewModel& model) const override { (void)make_variational(model(), options_.with_private); }
  const Posterior* posterior() const override { return this; }
  const Personal* personal() const override { return this; }

  // Statistics all: a stage that changed what is sent would leave server and client with different factors.
  Schema schema() const override {
    const std::size_t shared = layout_->trainable(), measured = layout_->size() - shared;
    Schema schema{
        .channels = {{.name = kDeltaPrecision, .count = shared, .weighting = Weighting::plain, .statistic = true},
                     {.name = kDeltaShift, .count = shared, .weighting = Weighting::plain, .statistic = true}}};
    if (measured > 0) schema.channels.push_back({.name = kMeasured, .count = measured, .statistic = true});
    if (options_.snr) {
      schema.channels.push_back(
          {.name = kSnr, .count = snr_layout_->size(), .weighting = Weighting::plain, .statistic = true});
    }
    schema.scalars = {{kFloored, Weighting::plain}};
    if (options_.with_private) schema.scalars.push_back({kPrivateStarted, Weighting::plain});
    return schema;
  }

  void start(State& state) const override {
    state.add(kPrecision, layout_, true, Flat(layout_->size(), static_cast<float>(initial_precision())));
    if (options_.snr) state.add(kSnr, snr_layout_, false, Flat(snr_layout_->size()));
  }

  void client(const ClientTask& task, Update& update) const override {
    auto& model = static_cast<Variational&>(task.model);  // model() made it
    ClientRecord record = recall(task);
    load(task, record, model, update);
    train(task, model, cavity(task, record, model), update);
    send(task, model, record, update);
    if (options_.snr) count_snr(*layout_, model.means(), model.rhos(), update[kSnr]);
    task.memory.keep(std::move(record));
  }

  void server(ServerTask& task) const override {
    const std::size_t shared = layout_->trainable();
    const auto theta = task.state.at("theta"), precision = task.state.at(kPrecision);
    const auto by_precision = task.sum.total(kDeltaPrecision), by_shift = task.sum.total(kDeltaShift);
    const double rate = rate_of(task.cohort);
    std::vector<double> target(theta.begin(), theta.end());
    double floored = task.sum.scalar(kFloored);
    for (std::size_t i = 0; i < shared; ++i) {
      const double before = precision[i], after = before + rate * by_precision[i];
      if (after > kLeastShare * before) {
        target[i] = (before * theta[i] + rate * by_shift[i]) / after;  // s ← s·ΠΔ^d
        precision[i] = static_cast<float>(after);
      } else {
        ++floored;  // no client that keeps to send() brings it here
      }
    }
    if (layout_->size() > shared) {
      std::ranges::copy(task.sum.take_mean(kMeasured), target.begin() + static_cast<std::ptrdiff_t>(shared));
    }
    task.move_theta(target);
    if (options_.snr) {
      std::ranges::transform(task.sum.total(kSnr), task.state.at(kSnr).begin(),
                             [](double count) { return static_cast<float>(count); });
    }
    report(task, floored);
  }

 private:
  bool other_model() const override { return true; }
  std::unique_ptr<Model> model(const NewModel& shared) const override {
    auto model = make_variational(shared(), options_.with_private);
    model->set_draws(options_.draws);
    return model;
  }
  std::size_t networks() const override { return options_.own_networks; }
  void load_own(const ClientTask& task, std::size_t network) const override {
    task.model.reseed(task.stream(fmt::format("own network {}", network)));
  }

  // The precision counts all examples and the prior already.
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    const std::size_t shared = layout_->trainable();
    const auto mean = state.at("theta");
    std::ranges::copy(mean, theta.begin());
    gauss::sample({mean.first(shared), state.at(kPrecision).first(shared)}, static_cast<float>(std::sqrt(how.scale)),
                  stream, theta.first(shared));
  }

  void refuse_for_ivon(const Options& client) const {
    if (options_.beta == 0.0) fail("method.beta = 0: local = \"ivon\" weighs the data by examples/beta; use more");
    if (const std::string& optimizer = client.text("optimizer"); optimizer != "sgd") {
      fail("client.optimizer = \"{}\": method.local = \"ivon\" takes its own steps; leave it \"sgd\"", optimizer);
    }
    if (const double norm = client.real("clip_norm"); norm > 0.0) {
      fail("client.clip_norm = {}: method.local = \"ivon\" does not clip; set 0", norm);
    }
  }

  // Precision and factors take the whole of every delta, so the mean must too: their product is the posterior.
  void refuse_server_step(const Options& server) const {
    if (const std::string& step = server.text("step"); step != "replace") {
      fail("server.step = \"{}\": virtual multiplies posteriors, which is the step; use \"replace\"", step);
    }
    if (const double lr = server.real("lr"); lr != 1.0) {
      fail("server.lr = {}: virtual would move its mean without its precision; use 1, and method.rate to damp", lr);
    }
  }

  // Ivon divides its steps by ξβ/n_i. A fixed ρ would make the first as long as a client is large.
  double initial_precision() const {
    if (!options_.ivon || options_.ivon_curvature == 0.0) return std::exp(-2.0 * options_.rho);
    const double mean_size = static_cast<double>(examples_) / static_cast<double>(holders_);
    return options_.ivon_curvature * mean_size / options_.beta;
  }
  double rate_of(std::size_t cohort) const {
    return options_.rate > 0.0 ? options_.rate : 1.0 / static_cast<double>(cohort);
  }
  // A client's part of the prior, and of the posterior that everything starts from. Those without data have no factor:
  // nobody would ever take it out again.
  double share(const ClientTask& task) const {
    return options_.by_examples ? static_cast<double>(task.data.size()) / static_cast<double>(examples_)
                                : 1.0 / static_cast<double>(holders_);
  }

  ClientRecord recall(const ClientTask& task) const {
    if (const ClientRecord* record = task.memory.known()) return *record;
    const std::size_t shared = layout_->trainable();
    const auto precision = static_cast<float>(share(task) * initial_precision());
    ClientRecord record{{kFactorPrecision, Flat(shared, precision)}, {kFactorShift, Flat(shared)}};
    Flat& shift = record[kFactorShift];
    for (std::size_t i = 0; i < shared; ++i) shift[i] = precision * task.initial[i];
    return record;
  }

  // The posterior that training starts from.
  void load(const ClientTask& task, const ClientRecord& record, Variational& model, Update& update) const {
    const std::size_t shared = model.shared(), own = model.gaussians() - shared;
    const auto mean = model.means(), rho = model.rhos();
    const auto both = [&](const Flat& from, std::size_t begin, std::size_t count) {
      std::copy_n(from.begin(), count, mean.begin() + static_cast<std::ptrdiff_t>(begin));
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(count), count,
                  rho.begin() + static_cast<std::ptrdiff_t>(begin));
    };
    const auto theta = task.broadcast.at("theta"), precision = task.broadcast.at(kPrecision);
    std::ranges::copy(theta.subspan(shared),
                      model.parameters().begin() + static_cast<std::ptrdiff_t>(2 * model.gaussians()));
    if (const auto last = record.find(kOwn); last != record.end()) {
      both(last->second, 0, shared);
    } else {
      std::ranges::copy(theta.first(shared), mean.begin());
      for (std::size_t i = 0; i < shared; ++i) rho[i] = -0.5f * std::log(precision[i]);
    }
    if (const auto last = record.find(kPrivate); last != record.end()) {
      both(last->second, shared, own);
    } else if (own > 0) {
      Stream stream(task.seed, "private part", 0, task.client);
      model.start_private(stream, mean.subspan(shared));
      std::ranges::fill(rho.subspan(shared), static_cast<float>(-0.5 * std::log(initial_precision())));
      update.scalar(kPrivateStarted) = 1.0;
    }
    model.reseed(task.stream("training noise"));
  }

  // What the free energy holds the posterior to: s/s_i·p^{1/K} for the shared weights, p for private ones.
  Natural cavity(const ClientTask& task, const ClientRecord& record, const Variational& model) const {
    Natural cavity(model.gaussians());
    const auto prior = static_cast<float>(options_.prior_precision);
    const auto shared_prior = static_cast<float>(share(task) * options_.prior_precision);
    const auto theta = task.broadcast.at("theta"), precision = task.broadcast.at(kPrecision);
    const Flat &own_precision = record.at(kFactorPrecision), &own_shift = record.at(kFactorShift);
    for (std::size_t i = 0; i < model.shared(); ++i) {
      cavity.precision[i] = precision[i] - own_precision[i] + shared_prior;
      cavity.shift[i] = precision[i] * theta[i] - own_shift[i];
    }
    std::fill(cavity.precision.begin() + static_cast<std::ptrdiff_t>(model.shared()), cavity.precision.end(), prior);
    return cavity;
  }

  void train(const ClientTask& task, Variational& model, const Natural& cavity, Update& update) const {
    const auto examples = static_cast<double>(task.data.size());
    if (options_.ivon) {
      Ivon ivon(model, cavity, examples / options_.beta, options_.ivon_decay);
      task.train(update, {},
                 {.step = [&](std::span<const float> gradients, float step) { ivon.step(gradients, step); }});
      return;
    }
    const auto weight = static_cast<float>(options_.beta / examples), lr = static_cast<float>(task.lr());
    const std::size_t count = model.gaussians();
    task.train(update, {}, {.add_gradient = [&](std::span<float> gradients) {
                 gauss::add_kl_gradient(cavity, weight, lr, model.means(), model.variances(), gradients.first(count),
                                        gradients.subspan(count));
               }});
  }

  // Δ_i = q/s, pruned and damped, to the server and into the client's factor.
  void send(const ClientTask& task, Variational& model, ClientRecord& record, Update& update) const {
    const std::size_t shared = model.shared();
    const gauss::NaturalView delta{update[kDeltaPrecision], update[kDeltaShift]};
    const auto theta = task.broadcast.at("theta"), precision = task.broadcast.at(kPrecision);
    const auto mean = model.means(), rho = model.rhos();
    const auto rate = static_cast<float>(rate_of(task.cohort));
    if (!options_.consistent && rate == 1.0f) {
      fail(
          "method.rate = 0: 1/cohort is 1 for a cohort of one, and damping = \"reference\" then sends nothing; set it");
    }
    // What a client may take away from the server's precision, lest the whole cohort leave nothing of it.
    const auto tolerance = static_cast<float>(options_.precision_tolerance);
    const float most = (1.0f - 2.0f * kLeastShare) / (rate * static_cast<float>(task.cohort));
    Flat own(shared);
    for (std::size_t i = 0; i < shared; ++i) {
      own[i] = std::exp(-2.0f * rho[i]);
      if (own[i] < (1.0f - most) * precision[i]) {
        own[i] = (1.0f - most) * precision[i];
        ++update.scalar(kFloored);
      }
      if (std::abs(own[i] - precision[i]) <= tolerance * precision[i]) own[i] = precision[i];
      delta.precision[i] = own[i] - precision[i];
      delta.shift[i] = own[i] * mean[i] - precision[i] * theta[i];
    }
    refuse_improper(own, delta.shift);
    const auto noise = options_.literal_snr ? std::span<const float>(delta.precision) : std::span<const float>(own);
    const auto segments = prune_by_snr(*layout_, options_.prune, noise, delta);
    if (!options_.consistent) gauss::power(delta, 1.0f - rate, delta);
    if (!segments.empty()) update.pack(kDeltaShift, pack_sparse(delta.shift, segments));
    if (!segments.empty() || tolerance > 0.0f) {
      update.pack(kDeltaPrecision, pack_sparse(delta.precision, all_tensors()));
    }
    const float kept = options_.consistent ? rate : 1.0f;
    Flat &own_precision = record.at(kFactorPrecision), &own_shift = record.at(kFactorShift);
    for (std::size_t i = 0; i < shared; ++i) {
      own_precision[i] += kept * delta.precision[i];
      own_shift[i] += kept * delta.shift[i];
    }
    if (layout_->size() > shared) {
      std::ranges::copy(model.parameters().subspan(2 * model.gaussians()), update[kMeasured].begin());
    }
    if (!options_.from_server) record[kOwn] = posterior(model, 0, shared);
    if (options_.with_private) record[kPrivate] = posterior(model, shared, model.gaussians() - shared);
  }

  // Segments whose numbers are mostly 0.
  std::vector<SparseSegment> all_tensors() const {
    std::vector<SparseSegment> segments;
    for (const auto& entry : layout_->entries()) {
      if (is_trainable(entry.role)) segments.push_back({entry.size, 0.0f});
    }
    return segments;
  }

  // By the tensor's name: a place among all weights tells nobody anything.
  void refuse_improper(std::span<const float> precision, std::span<const float> shift) const {
    for (const auto& entry : layout_->entries()) {
      if (!is_trainable(entry.role)) continue;
      for (std::size_t i = entry.offset; i < entry.offset + entry.size; ++i) {
        if (precision[i] > 0.0f && std::isfinite(precision[i]) && std::isfinite(shift[i])) continue;
        fail<RefusedUpdate>("improper posterior: {} has precision {} at {}; lower client.lr", entry.name, precision[i],
                            i - entry.offset);
      }
    }
  }

  static Flat posterior(Variational& model, std::size_t begin, std::size_t count) {
    const auto mean = model.means().subspan(begin, count), rho = model.rhos().subspan(begin, count);
    Flat both(mean.begin(), mean.end());
    both.insert(both.end(), rho.begin(), rho.end());
    return both;
  }

  void report(ServerTask& task, double floored) const {
    const auto precision = task.state.at(kPrecision).first(layout_->trainable());
    double sum = 0.0;
    for (const float p : precision) sum += p;
    task.metrics["precision_mean"] = sum / static_cast<double>(precision.size());
    task.metrics["floored"] = floored;
    if (options_.with_private) task.metrics[kPrivateStarted] = task.sum.scalar(kPrivateStarted);
  }

  std::shared_ptr<const Layout> layout_;
  VirtualOptions options_;
  std::size_t holders_, examples_;
  std::shared_ptr<const Layout> snr_layout_;
};

}  // namespace

void add_virtual(MethodRegistry& registry) {
  registry.add({.name = "virtual",
                .summary = "A Gaussian posterior over shared weights as a product of the clients' factors; private "
                           "networks beside it.",
                .source = "Corinzia et al. 2019",
                .options = VirtualOptions::declared()},
               [](const MethodContext& context) { return std::make_unique<Virtual>(context); });
}

}  // namespace parley
