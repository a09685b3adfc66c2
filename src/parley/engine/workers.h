// The threads of this process and what each owns: a client side, with its models and buffers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parley/engine/client_side.h"

namespace parley {

class Workers {
 public:
  // As many as `threads`; one where the model allows no second.
  Workers(const ClientSetup& setup, std::size_t threads);

  std::size_t size() const { return sides_.size(); }
  ClientSide& front() { return *sides_.front(); }
  // job(side, index) for every index in [0, count), on all threads; the first exception is rethrown.
  using Job = std::function<void(ClientSide& side, std::size_t index)>;
  void run(std::size_t count, const Job& job);

 private:
  std::vector<std::unique_ptr<ClientSide>> sides_;
};

}  // namespace parley
