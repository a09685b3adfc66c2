// What the framework costs on top of LibTorch: one federated round of Parley (backend "torch") against a bare LibTorch
// loop that takes the same steps on the same batches. One process, one thread, both measured in turn, the best of
// several turns each, because the machine is shared.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "parley/engine/cohort.h"
#include "parley/engine/federation.h"
#include "parley/model/torch/torch_models.h"

namespace parley {
namespace {

constexpr const char* kExperiment = R"(
[data]
name = "synthetic"
features = 784
classes = 10
rows = 6000
[partition]
clients = 10
[model]
name = "mlp"
backend = "torch"
hidden = [500, 300]
[client]
batch = 32
lr = 0.01
)";

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The loop a person would write: nn::Sequential, SGD, the whole data set as one float tensor, batches by index.
class BareLoop {
 public:
  explicit BareLoop(const Dataset& data) {
    const auto& values = std::get<Values<float>>(data.values);
    inputs_ = torch::from_blob(const_cast<float*>(values.data()), {static_cast<long>(data.size()), 784}).clone();
    labels_ =
        torch::from_blob(const_cast<std::int32_t*>(data.labels.data()), {static_cast<long>(data.size())}, torch::kInt32)
            .to(torch::kInt64);
  }

  void client(std::span<const std::uint32_t> rows, Stream batches) {
    torch::nn::Sequential net(torch::nn::Linear(784, 500), torch::nn::ReLU(), torch::nn::Linear(500, 300),
                              torch::nn::ReLU(), torch::nn::Linear(300, 10));
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    std::vector<std::int64_t> order(rows.begin(), rows.end());
    batches.shuffle(std::span(order));
    for (std::size_t begin = 0; begin < order.size(); begin += 32) {
      const auto size = static_cast<long>(std::min<std::size_t>(32, order.size() - begin));
      const auto index = torch::from_blob(order.data() + begin, {size}, torch::kInt64);
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(net->forward(inputs_.index_select(0, index)), labels_.index_select(0, index))
          .backward();
      optimizer.step();
    }
  }

 private:
  torch::Tensor inputs_, labels_;
};

void run() {
  at::set_num_threads(1);
  Catalogue catalogue;
  add_torch_models(catalogue.models);
  DataCache cache;
  const Experiment experiment = build(resolve(Config::parse(kExperiment, "overhead"), catalogue), catalogue, cache);
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(experiment, store, 1);
  BareLoop bare(*experiment.federated.data.train);
  const auto& clients = experiment.federated.partition.clients;
  double best_parley = 1e9, best_bare = 1e9;
  for (std::size_t turn = 1; turn <= 7; ++turn) {
    best_bare = std::min(best_bare, seconds([&] {
                           for (std::size_t c = 0; c < clients.size(); ++c)
                             bare.client(clients[c], Stream(1, "b", turn, c));
                         }));
    best_parley = std::min(best_parley, seconds([&] { federation.round(turn); }));
  }
  std::printf("bare LibTorch loop  %.4f s a round\nParley, torch       %.4f s a round\noverhead            %+.1f %%\n",
              best_bare, best_parley, 100.0 * (best_parley / best_bare - 1.0));
}

}  // namespace
}  // namespace parley

int main() {
  parley::run();
}
