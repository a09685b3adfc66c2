// The method seam: three small functions on an update that is summed.
//
//   client:  (broadcast, my data) -> Update     train locally, write the channels
//   fold:    Sum += Update                      done by the engine, from the schema alone
//   server:  (state, Sum) -> next state         a few vector operations
//
// A method never knows whether it runs on threads, MPI or a network. It is made from the layout of the model and the
// settings alone, so that a server needs neither model nor data; what a client has besides comes with its task. It
// holds options, never state: what must survive a round lives in the State (server) or in the client's record, and both
// are checkpointed by the engine.
//
// Threads:  one Method serves all workers; everything is const.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parley/base/random.h"
#include "parley/base/registry.h"
#include "parley/model/model.h"
#include "parley/optim/local_training.h"
#include "parley/optim/server_step.h"
#include "parley/update/broadcast.h"
#include "parley/update/record.h"
#include "parley/update/state.h"
#include "parley/update/sum.h"
#include "parley/update/update.h"

namespace parley {

using NewModel = std::function<std::unique_ptr<Model>()>;

// Everything a client half may use. The model's weights hold whatever the last client left: load first.
struct ClientTask {
  std::size_t round;  // from 1
  std::size_t client;
  std::size_t cohort = 0;  // clients that were asked to take part in the round
  std::uint64_t seed;
  Broadcast broadcast;
  View data;
  Model& model;
  LocalTrainer& trainer;
  const LocalOptions& local;
  ClientMemory& memory;
  std::span<const float> initial;  // the weights that the run started from, which a client can draw or read itself
  // Where the local optimiser starts, and then what it ended with; null: afresh. Set by who carries it between rounds.
  OptimizerState* optimizer_state = nullptr;

  double lr() const { return local.lr_in(round); }
  Stream stream(std::string_view purpose) const { return Stream(seed, purpose, round, client); }
  // Copies the broadcast channel `name` into the model.
  void load(std::string_view name = "theta") const;
  // The same with weights of the client's own.
  void load_weights(std::span<const float> weights) const;
  // Mean loss of the model as it is, over the client's data, in evaluation mode. Throws RefusedUpdate when not finite.
  double loss() const;
  // Local training as [client] says, with the method's term. Fills update.training.
  void train(Update& update, const LinearTerm& term = {}, const LocalHooks& hooks = {}) const;
};

// What a server has to learn from that holds examples of its own (server.examples).
struct ServerExamples {
  NewModel new_model;
  View examples;
};

// Everything a server half may use.
struct ServerTask {
  std::size_t round;
  std::size_t clients;     // in the whole federation
  std::size_t cohort = 0;  // that were asked to take part, accepted or not
  State& state;
  Sum& sum;
  const ServerStep& step;
  const ServerExamples* own = nullptr;  // null: it holds none
  // What the method wants in metrics.jsonl beside the common numbers.
  std::map<std::string, double> metrics = {};
  // Set by a method that has nothing more to gain from further rounds: the run then ends with this one.
  bool finished = false;

  // Lets the server step take "theta" towards `target`. What is not trained (running statistics) is replaced.
  void move_theta(std::span<const double> target) const;
};

// --- What some methods are besides ---

// A distribution over weights that the state holds, with the method's options.
class Posterior {
 public:
  struct Draw {
    double examples;         // that the posterior has seen, over all clients
    double scale;            // on the covariance: 1 as it is, 0 the mean
    double prior_precision;  // of every weight before any data; > 0, so that the posterior is proper
  };
  // Writes one network to `theta`, of the layout's size: what is trained is drawn, the rest is the state's. All
  // randomness comes from `stream`.
  virtual void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const = 0;

 protected:
  ~Posterior() = default;
};

// What a client has to itself, where that is more than what training leaves in its model.
class Personal {
 public:
  // Whether clients train another model than the shared one; then model() makes it, one for each worker. Throws
  // InputError for a shared model that has no such form.
  virtual bool other_model() const { return false; }
  virtual std::unique_ptr<Model> model(const NewModel& /*shared*/) const { return nullptr; }
  // Puts the shared model into task.model as this client would use it, with whatever parts it keeps to itself.
  virtual void load_shared(const ClientTask& task) const { task.load(); }
  // After client(), with the task it had: the client's own model, as networks that are asked one by one and averaged.
  virtual std::size_t networks() const { return 1; }
  virtual void load_own(const ClientTask& /*task*/, std::size_t /*network*/) const {}
  // Puts into task.model what a client has that never took part, where that is not the shared model. Else false.
  virtual bool load_untrained(const ClientTask& /*task*/) const { return false; }

  virtual ~Personal() = default;
};

// Who may be asked to take part in a round.
struct CohortTask {
  std::uint64_t seed;
  std::size_t round;
  std::span<const std::size_t> holders;  // the clients that hold data, in order
  std::size_t wanted;                    // server.participation of them, at least one
};
// Some of the holders in any order, at least one. By the task alone: a resumed run must ask the same ones.
class CohortRule {
 public:
  virtual std::vector<std::size_t> cohort(const CohortTask& task) const = 0;

 protected:
  ~CohortRule() = default;
};
// `wanted` of the holders without replacement, by (seed, round) alone.
std::vector<std::size_t> draw_at_random(const CohortTask& task);

class Method {
 public:
  virtual ~Method() = default;

  virtual Schema schema() const = 0;
  // Adds the method's own channels and scalars to a state that already has "theta".
  virtual void start(State& /*state*/) const {}
  // Fills the update's channels and scalars; the engine has set its weight. Throws RefusedUpdate when training failed.
  virtual void client(const ClientTask& task, Update& update) const = 0;
  virtual void server(ServerTask& task) const = 0;

  // False: clients only measure, so none has a model of its own to ask.
  virtual bool trains() const { return true; }
  // Where there is a model: throws InputError when clients could not train this one.
  virtual void check_model(const NewModel& /*model*/) const {}

  // Null: it is none of these.
  virtual const Posterior* posterior() const { return nullptr; }
  virtual const Personal* personal() const { return nullptr; }
  virtual const CohortRule* cohort_rule() const { return nullptr; }
  // The channel of the state in which the method says what classes each client holds, a row for each; empty: none.
  virtual std::string class_distribution() const { return ""; }
};

// What a client of the method has to itself; the default where the method says nothing.
const Personal& personal_of(const Method& method);

// What a method is made from. `client` and the like are the resolved sections; a method refuses settings it cannot
// honour here, with an InputError that names the key.
struct MethodContext {
  const Options& options;  // [method]
  const Options& client;
  const Options& server;
  const Options& aggregate;
  std::shared_ptr<const Layout> layout;
  Task task;  // what goes into the model and comes out of it
  std::size_t clients;
  std::size_t examples;                 // of all clients
  std::uint64_t seed;                   // of the run; names the streams of start() and server()
  std::vector<std::size_t> sizes = {};  // how many examples each client holds

  // Clients that hold data. The others never take part: a share of anything that was left to them would be lost.
  std::size_t holders() const;
  // The same with other options for [method], or for [aggregate].
  MethodContext with_options(const Options& other) const;
  MethodContext with_aggregate(const Options& other) const;
};

struct MakeMethod {
  std::function<std::unique_ptr<Method>(const MethodContext& context)> make;
  bool pools_data = false;  // one client holds everybody's rows

  // So that a registry's line can end with a lambda.
  template <class Make>
  MakeMethod(Make maker, bool pools = false) : make(std::move(maker)), pools_data(pools) {}
  std::unique_ptr<Method> operator()(const MethodContext& context) const { return make(context); }
};
using MethodRegistry = Registry<MakeMethod>;

// Every method, in one list.
MethodRegistry methods();

}  // namespace parley
