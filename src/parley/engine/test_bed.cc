#include "parley/engine/test_bed.h"

#include <numeric>

#include "parley/engine/normed_model.h"
#include "parley/methods/aggregate.h"
#include "parley/methods/optimizer_state.h"

namespace parley {

TestBed::TestBed(const std::string& method, const Quadratics& problem, const Settings& settings, bool uniform)
    : uniform_(uniform) {
  deal(problem);
  build(method, settings, "quadratic");
}

TestBed::TestBed(const std::string& method, const Regression& problem, const Settings& settings, NewModel new_model)
    : uniform_(false), new_model_(std::move(new_model)) {
  deal(problem);
  build(method, settings, "linear");
}

TestBed::TestBed(const std::string& method, const Classification& problem, const Settings& settings, NewModel new_model)
    : uniform_(false), new_model_(std::move(new_model)) {
  deal(problem);
  build(method, settings, "logistic");
}

Options TestBed::client_options(const std::string& optimizer) {
  auto declared = LocalOptions::declared();
  declared.push_back({"optimizer", optimizer, ""});
  const auto registry = optimizers();
  for (const auto& option : registry.at(optimizer).about.options) declared.push_back(option);
  return Options("client", declared);
}

Update TestBed::train(std::size_t round, std::size_t client) {
  Answer answer;
  side_->answer(invitation(round, client), {.train = view(client)}, store_.load(client), answer);
  if (answer.record) store_.stage(client, std::move(*answer.record));
  return std::move(answer.update);
}

Flat TestBed::load_shared(std::size_t client) {
  ClientMemory memory(store_.load(client));
  personal_of(*method_).load_shared(side_->task(invitation(0, client), view(client), memory, side_->shared()));
  const auto weights = side_->shared().parameters();
  return {weights.begin(), weights.end()};
}

void TestBed::serve(std::size_t round, Sum& sum) {
  const OpenRound open{
      .number = round, .cohort = std::vector<std::size_t>(cohort_), .broadcast = Broadcast(server_->state(), round)};
  FoldedRound folded{std::move(sum), {}};
  finished_ = server_->close(open, folded).finished;
  store_.commit(round);
}

void TestBed::round(std::size_t number) {
  std::vector<std::size_t> holders;
  for (std::size_t client = 0; client < rows_.size(); ++client) {
    if (!rows_[client].empty()) holders.push_back(client);
  }
  round(number, holders);
}

void TestBed::round(std::size_t number, const std::vector<std::size_t>& cohort) {
  cohort_ = cohort.size();
  Sum sum(schema());
  for (const std::size_t client : cohort) {
    const Update update = train(number, client);
    update.check(*schema());
    sum.add(update);
  }
  serve(number, sum);
}

void TestBed::rounds(std::size_t count) {
  for (std::size_t r = 1; r <= count; ++r) round(r);
}

Invitation TestBed::invitation(std::size_t round, std::size_t client) {
  return {.broadcast = Broadcast(server_->state(), round), .client = client, .cohort = cohort_, .seed = 1};
}

void TestBed::build(const std::string& method, const Settings& settings, const std::string& model) {
  aggregate_ = Options("aggregate", aggregate_options());
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
    new_model_ = [make = models.at(model).make.at("native"), options = Options("model", models.at(model).about.options),
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
  std::vector<std::size_t> sizes;
  for (const auto& rows : rows_) sizes.push_back(rows.size());
  const MethodContext context{.options = options_,
                              .client = client_,
                              .server = server_options_,
                              .aggregate = aggregate_,
                              .layout = layout_,
                              .task = {data_.shape, shown->outputs(), shown->loss()},
                              .clients = rows_.size(),
                              .examples = data_.size(),
                              .seed = 1,
                              .sizes = sizes};
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

Options& TestBed::section_of(const std::string& name) {
  return name == "client" ? client_ : name == "server" ? server_options_ : name == "aggregate" ? aggregate_ : options_;
}

void TestBed::deal(const Regression& problem) {
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

void TestBed::deal(const Classification& problem) {
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

void TestBed::deal(const Quadratics& problem) {
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

std::size_t framed(std::size_t channels, std::size_t scalars, std::size_t payload) {
  return 60 + 9 * channels + 8 * scalars + payload;
}

TestBed::Settings local(double lr, std::int64_t epochs) {
  return {{"client.lr", lr}, {"client.epochs", epochs}};
}

TestBed::Settings with(TestBed::Settings settings, const std::string& key, Value value) {
  settings[key] = std::move(value);
  return settings;
}

}  // namespace parley
