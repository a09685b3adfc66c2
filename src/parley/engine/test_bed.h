// A federation in a box for tests of methods: the two sides of a round on analytic models, no threads, no files.
#pragma once

#include <memory>
#include <vector>

#include "parley/engine/server_side.h"
#include "parley/methods/method.h"
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

  TestBed(const std::string& method, const Quadratics& problem, const Settings& settings = {}, bool uniform = false);
  // `new_model` in place of the linear one.
  TestBed(const std::string& method, const Regression& problem, const Settings& settings = {}, NewModel new_model = {});
  TestBed(const std::string& method, const Classification& problem, const Settings& settings, NewModel new_model);

  // The defaults of [client] with this optimiser.
  static Options client_options(const std::string& optimizer);

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
  Update train(std::size_t round, std::size_t client);
  // The shared model as the client would use it.
  Flat load_shared(std::size_t client);
  void serve(std::size_t round, Sum& sum);
  void round(std::size_t number);
  // A round in which these take part.
  void round(std::size_t number, const std::vector<std::size_t>& cohort);
  void rounds(std::size_t count);

 private:
  Invitation invitation(std::size_t round, std::size_t client);
  View view(std::size_t client) const { return {.data = &data_, .rows = rows_[client]}; }

  void build(const std::string& method, const Settings& settings, const std::string& model);
  Options& section_of(const std::string& name);
  void deal(const Regression& problem);
  void deal(const Classification& problem);
  void deal(const Quadratics& problem);

  bool uniform_;
  Options client_, server_options_, options_, aggregate_;
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
std::size_t framed(std::size_t channels, std::size_t scalars, std::size_t payload);

TestBed::Settings local(double lr, std::int64_t epochs);
TestBed::Settings with(TestBed::Settings settings, const std::string& key, Value value);

}  // namespace parley
