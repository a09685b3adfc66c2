// A federation in a box for tests of methods: the two sides of a round on analytic models, no threads, no files.
#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "parley/engine/normed_model.h"
#include "parley/engine/server_side.h"
#include "parley/methods/aggregate.h"
#include "parley/methods/method.h"
#include "parley/methods/optimizer_state.h"
#include "parley/model/quadratic.h"
#include "parley/store/client_store.h"

namespace parley {

class TestBed {
 public:
  // One client a row: ½ Σ_j h_j (θ_j − m_j)². `copies` of its row make a client's examples; with a `spread`, at m − s
  // and m + s by turns.
  struct Quadratics {
    std::vector<std::vector<float>> h, m;
    std::vector<std::size_t> copies;
    std::vector<std::vector<float>> spread = {};
  };

  // One client an entry: examples x with targets y, for a linear model.
  struct Regression {
    std::vector<std::vector<std::vector<float>>> x, y;
  };

  // One client an entry: examples x with their classes, for a model that is given.
  struct Classification {
    std::vector<std::vector<std::vector<float>>> x;
    std::vector<std::vector<std::int32_t>> labels;
    std::size_t classes;
  };

  using Settings = std::map<std::string, Value>;  // "client.lr" and so on, over the defaults

  TestBed(const std::string& method, const Quadratics& problem, const Settings& settings = {}, bool uniform = false)
      : uniform_(uniform) {
    deal(problem);
    build(method, settings, "quadratic");
  }

  // `new_model` in place of the linear one.
  TestBed(const std::string& method, const Regression& problem, const Settings& settings = {}, NewModel new_model = {})
      : uniform_(false), new_model_(std::move(new_model)) {
    deal(problem);
    build(method, settings, "linear");
  }

  TestBed(const std::string& method, const Classification& problem, const Settings& settings, NewModel new_model)
      : uniform_(false), new_model_(std::move(new_model)) {
    deal(problem);
    build(method, settings, "logistic");
  }

  // The defaults of [client] with this optimiser.
  static Options client_options(const std::string& optimizer) {
    auto declared = LocalOptions::declared();
    declared.push_back({"optimizer", optimizer, ""});
    const auto registry = optimizers();
    for (const auto& option : registry.at(optimizer).about.options) declared.push_back(option);
    return Options("client", declared);
  }

  const Method& method() const { return *method_; }
  const SharedSchema& schema() const { return server_->schema(); }
  State& state() { return server_->state(); }
  // Whether the method asked for no further round in its last.
  bool finished() const { return finished_; }
  ClientStore& store() { return store_; }
  std::span<float> theta() { return state().at("theta"); }
  std::size_t clients() const { return rows_.size(); }
  const Layout& layout() const { return *layout_; }
  const Dataset& data() const { return data_; }
  const std::vector<std::uint32_t>& rows(std::size_t client) const { return rows_[client]; }

  // What the client sends; what it wants to remember is staged.
  Update train(std::size_t round, std::size_t client) {
    Answer answer;
    side_->answer(invitation(round, client), {.train = view(client)}, store_.load(client), answer);
    if (answer.record) store_.stage(client, std::move(*answer.record));
    return std::move(answer.update);
  }

  // The shared model as the client would use it.
  Flat load_shared(std::size_t client) {
    ClientMemory memory(store_.load(client));
    personal_of(*method_).load_shared(side_->task(invitation(0, client), view(client), memory, side_->shared()));
    const auto weights = side_->shared().parameters();
    return {weights.begin(), weights.end()};
  }

  void serve(std::size_t round, Sum& sum) {
    const OpenRound open{
        .number = round, .cohort = std::vector<std::size_t>(cohort_), .broadcast = Broadcast(server_->state(), round)};
    FoldedRound folded{std::move(sum), {}};
    finished_ = server_->close(open, folded).finished;
    store_.commit(round);
  }

  void round(std::size_t number) {
    std::vector<std::size_t> everyone(rows_.size());
    std::iota(everyone.begin(), everyone.end(), 0u);
    round(number, everyone);
  }

  // A round in which these take part.
  void round(std::size_t number, const std::vector<std::size_t>& cohort) {
    cohort_ = cohort.size();
    Sum sum(schema());
    for (const std::size_t client : cohort) {
      const Update update = train(number, client);
      update.check(*schema());
      sum.add(update);
    }
    serve(number, sum);
  }

  void rounds(std::size_t count) {
    for (std::size_t r = 1; r <= count; ++r) round(r);
  }

 private:
  Invitation invitation(std::size_t round, std::size_t client) {
    return {.broadcast = Broadcast(server_->state(), round), .client = client, .cohort = cohort_, .seed = 1};
  }
  View view(std::size_t client) const { return {.data = &data_, .rows = rows_[client]}; }

  void build(const std::string& method, const Settings& settings, const std::string& model) {
    const auto methods = parley::methods();
    const auto optimizers = parley::optimizers();
    const auto steps = parley::server_steps();
    const auto& entry = methods.at(method);
    const auto setting = [&](const std::string& key, const std::string& fallback) {
      const auto found = settings.find(key);
      return found == settings.end() ? fallback : std::get<std::string>(found->second);
    };
    client_ = client_options(setting("client.optimizer", "sgd"));
    client_.set("batch", std::int64_t{0});
    client_.set("shuffle", false);
    const std::string step = setting("server.step", "replace");
    auto server_options = steps.at(step).about.options;
    server_options.push_back({"step", step, ""});
    server_options.push_back({"examples", std::int64_t{1}, ""});
    server_options_ = Options("server", server_options);
    options_ = Options("method", entry.about.options);
    // A quadratic has no form with private weights.
    if (model == "quadratic" && options_.values().contains("private")) options_.set("private", false);
    for (const auto& [key, value] : settings) {
      const std::string section = key.substr(0, key.find('.')), name = key.substr(key.find('.') + 1);
      if (key == "server.step" || section == "model") continue;
      section_of(section).set(name, value);
    }
    const auto models = native_models();
    if (!new_model_) {
      new_model_ = [make = models.at(model).make.at("native"),
                    options = Options("model", models.at(model).about.options),
                    task = Task{.input_shape = data_.shape, .outputs = data_.target_size, .loss = Loss::mse}] {
        return make(options, task);
      };
    }
    if (setting("model.norm", "") == "batch") {
      new_model_ = [inner = new_model_, features = data_.features()] {
        return std::make_unique<NormedModel>(inner(), features);
      };
    }
    const auto shown = new_model_();
    layout_ = std::make_shared<const Layout>(with_layers(shown->layout(), shown->layers()));
    initial_.assign(layout_->size(), 0.0f);
    const auto make_optimizer = optimizers.at(client_.text("optimizer")).make;
    const MethodContext context{.options = options_,
                                .client = client_,
                                .server = server_options_,
                                .aggregate = aggregate_,
                                .layout = layout_,
                                .task = {data_.shape, shown->outputs(), shown->loss()},
                                .clients = rows_.size(),
                                .examples = data_.size(),
                                .seed = 1};
    method_ = carry_optimizer_state(aggregate_by_role(entry.make(context), method, context), context,
                                    make_optimizer(client_)->slots());
    method_->check_model(new_model_);
    step_ = steps.at(setting("server.step", "replace")).make(server_options_);
    cohort_ = rows_.size();
    own_ = {.new_model = new_model_, .examples = all_.emplace(data_).view()};
    server_ = std::make_unique<ServerSide>(ServerSetup{.method = method_.get(),
                                                       .step = step_.get(),
                                                       .stages = &no_stages_,
                                                       .layout = layout_,
                                                       .initial = initial_,
                                                       .seed = 1,
                                                       .clients = rows_.size(),
                                                       .min_clients = 1,
                                                       .own = &own_});
    side_ = std::make_unique<ClientSide>(
        ClientSetup{.method = method_.get(),
                    .stages = &no_stages_,
                    .schema = server_->schema(),
                    .local = LocalOptions(client_),
                    .uniform_weights = uniform_,
                    .initial = initial_,
                    .new_model = new_model_,
                    .new_optimizer = [this, make_optimizer] { return make_optimizer(client_); }});
  }

  Options& section_of(const std::string& name) {
    return name == "client"      ? client_
           : name == "server"    ? server_options_
           : name == "aggregate" ? aggregate_
                                 : options_;
  }

  void deal(const Regression& problem) {
    std::vector<float> values;
    data_.shape = {static_cast<std::int64_t>(problem.x[0][0].size())};
    data_.target_size = problem.y[0][0].size();
    std::uint32_t row = 0;
    for (std::size_t client = 0; client < problem.x.size(); ++client) {
      auto& rows = rows_.emplace_back();
      for (std::size_t i = 0; i < problem.x[client].size(); ++i) {
        rows.push_back(row++);
        const auto &x = problem.x[client][i], &y = problem.y[client][i];
        values.insert(values.end(), x.begin(), x.end());
        data_.targets.insert(data_.targets.end(), y.begin(), y.end());
      }
    }
    data_.values = std::move(values);
  }

  void deal(const Classification& problem) {
    std::vector<float> values;
    data_.shape = {static_cast<std::int64_t>(problem.x[0][0].size())};
    data_.classes = problem.classes;
    for (std::size_t client = 0; client < problem.x.size(); ++client) {
      auto& rows = rows_.emplace_back();
      for (std::size_t i = 0; i < problem.x[client].size(); ++i) {
        rows.push_back(static_cast<std::uint32_t>(data_.labels.size()));
        values.insert(values.end(), problem.x[client][i].begin(), problem.x[client][i].end());
        data_.labels.push_back(problem.labels[client][i]);
      }
    }
    data_.values = std::move(values);
  }

  void deal(const Quadratics& problem) {
    std::vector<std::vector<float>> h, m;
    for (std::size_t client = 0; client < problem.h.size(); ++client) {
      auto& rows = rows_.emplace_back();
      for (std::size_t copy = 0; copy < (problem.copies.empty() ? 1 : problem.copies[client]); ++copy) {
        rows.push_back(static_cast<std::uint32_t>(h.size()));
        h.push_back(problem.h[client]);
        m.push_back(problem.m[client]);
        if (problem.spread.empty()) continue;
        const float side = copy % 2 == 0 ? -1.0f : 1.0f;
        for (std::size_t j = 0; j < m.back().size(); ++j) m.back()[j] += side * problem.spread[client][j];
      }
    }
    data_ = quadratic_dataset(h, m);
  }

  bool uniform_;
  Options client_, server_options_, options_, aggregate_{"aggregate", aggregate_options()};
  Dataset data_;
  std::optional<WholeView> all_;  // that the server holds
  std::vector<std::vector<std::uint32_t>> rows_;
  std::size_t cohort_ = 0;
  NewModel new_model_;
  std::shared_ptr<const Layout> layout_;
  Flat initial_;
  ServerExamples own_;
  const Stages no_stages_;
  std::unique_ptr<Method> method_;
  std::unique_ptr<ServerStep> step_;
  std::unique_ptr<ServerSide> server_;
  std::unique_ptr<ClientSide> side_;
  bool finished_ = false;
  ClientStore store_{ClientStore::Keep::memory, {}, real_files()};
};

// Bytes of an update whose channels take so many: what the encoding adds to them (update/update.cc).
inline std::size_t framed(std::size_t channels, std::size_t scalars, std::size_t payload) {
  return 60 + 9 * channels + 8 * scalars + payload;
}

inline TestBed::Settings local(double lr, std::int64_t epochs) {
  return {{"client.lr", lr}, {"client.epochs", epochs}};
}

inline TestBed::Settings with(TestBed::Settings settings, const std::string& key, Value value) {
  settings[key] = std::move(value);
  return settings;
}

}  // namespace parley
