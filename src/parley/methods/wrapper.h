// A method around a method: hands everything on to the one inside. Overrides add what the wrapper is for.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "parley/methods/method.h"

namespace parley {

class MethodWrapper : public Method {
 public:
  explicit MethodWrapper(std::unique_ptr<Method> method) : method_(std::move(method)) {}

  Schema schema() const override { return method_->schema(); }
  void start(State& state) const override { method_->start(state); }
  void client(const ClientTask& task, Update& update) const override { method_->client(task, update); }
  void server(ServerTask& task) const override { method_->server(task); }
  bool trains() const override { return method_->trains(); }
  void check_model(const NewModel& model) const override { method_->check_model(model); }
  const Posterior* posterior() const override { return method_->posterior(); }
  const Personal* personal() const override { return method_->personal(); }
  const CohortRule* cohort_rule() const override { return method_->cohort_rule(); }
  std::string class_distribution() const override { return method_->class_distribution(); }

 protected:
  std::unique_ptr<Method> method_;
};

}  // namespace parley
