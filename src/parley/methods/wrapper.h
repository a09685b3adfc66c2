// A method around a method: hands everything on to the one inside. Overrides add what the wrapper is for.
//
// What a wrapper sends stands behind the channels and scalars of the method inside, so that both know their places.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "parley/methods/method.h"

namespace parley {

class MethodWrapper : public Method {
 public:
  explicit MethodWrapper(std::unique_ptr<Method> method) : method_(std::move(method)) {}

  std::vector<std::size_t> cohort(const CohortTask& task) const override { return method_->cohort(task); }
  Schema schema() const override { return method_->schema(); }
  void start(State& state) const override { method_->start(state); }
  void client(const ClientTask& task, Update& update) const override { method_->client(task, update); }
  void server(ServerTask& task) const override { method_->server(task); }
  std::unique_ptr<Model> client_model() const override { return method_->client_model(); }
  void load_shared(const ClientTask& task) const override { method_->load_shared(task); }
  std::size_t own_networks() const override { return method_->own_networks(); }
  void load_own(const ClientTask& task, std::size_t network) const override { method_->load_own(task, network); }
  bool load_untrained(const ClientTask& task) const override { return method_->load_untrained(task); }
  bool has_posterior() const override { return method_->has_posterior(); }
  void draw(const State& state, const PosteriorDraw& how, Stream& stream, std::span<float> theta) const override {
    method_->draw(state, how, stream, theta);
  }

 protected:
  std::unique_ptr<Method> method_;
};

}  // namespace parley
