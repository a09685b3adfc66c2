#include "parley/engine/aliases.h"

#include <cctype>
#include <map>

namespace parley {
namespace {

std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

constexpr const char *kAdam = "this is server.step = \"adam\" with method.name = \"fedavg\"",
                     *kRobust =
                         "no rule against hostile clients is built in; a method of your own sees every client's update "
                         "when its channel says Weighting::each (CONTRIBUTING.md)",
                     *kRate = "the learning rate is client.lr, and the server's is server.lr",
                     *kEpochs = "passes over a client's data in a round are client.epochs",
                     *kBatch = "examples per step are client.batch", *kRounds = "the number of rounds is run.rounds",
                     *kClients = "the number of clients is partition.clients",
                     *kShare = "the share of the clients in a round is server.participation",
                     *kLeast = "the least number of accepted updates is server.min_clients",
                     *kMethod = "the method is method.name", *kData = "the data set is data.name",
                     *kOptimizer = "the local optimiser is client.optimizer",
                     *kSeed = "the seed is run.seed, and that of the deal partition.seed";

const std::map<std::string, const char*>& names() {
  static const std::map<std::string, const char*> all{
      {"fedadam", kAdam},
      {"fedopt", "this is server.step (momentum, adam, adagrad, yogi) with method.name = \"fedavg\""},
      {"fedyogi", "this is server.step = \"yogi\" with method.name = \"fedavg\""},
      {"fedadagrad", "this is server.step = \"adagrad\" with method.name = \"fedavg\""},
      {"fedavgm", "this is server.step = \"momentum\" with method.name = \"fedavg\""},
      {"krum", kRobust},
      {"multikrum", kRobust},
      {"bulyan", kRobust},
      {"median", kRobust},
      {"fedmedian", kRobust},
      {"trimmedmean", kRobust},
      {"fedtrimmedavg", kRobust},
      {"learningrate", kRate},
      {"stepsize", kRate},
      {"clientlr", kRate},
      {"locallr", kRate},
      {"serverlr", kRate},
      {"epochsperround", kEpochs},
      {"localepochs", kEpochs},
      {"numepochs", kEpochs},
      {"nepochs", kEpochs},
      {"batchsize", kBatch},
      {"localbatchsize", kBatch},
      {"numrounds", kRounds},
      {"nrounds", kRounds},
      {"globalrounds", kRounds},
      {"commrounds", kRounds},
      {"communicationrounds", kRounds},
      {"numserverrounds", kRounds},
      {"numclients", kClients},
      {"nclients", kClients},
      {"numsupernodes", kClients},
      {"numpartitions", kClients},
      {"fractionfit", kShare},
      {"fractiontrain", kShare},
      {"clientfraction", kShare},
      {"samplerate", kShare},
      {"clientsperround", kShare},
      {"minfitclients", kLeast},
      {"minavailableclients", kLeast},
      {"strategy", kMethod},
      {"algorithm", kMethod},
      {"aggregator", kMethod},
      {"dataset", kData},
      {"optimizer", kOptimizer},
      {"optimiser", kOptimizer},
      {"training", kRate},
      {"randomseed", kSeed},
      {"dirichletalpha", "this is partition.alpha with partition.kind = \"dirichlet\""},
  };
  return all;
}

}  // namespace

std::string known_elsewhere(std::string_view name) {
  const auto found = names().find(plain(name));
  return found == names().end() ? "" : found->second;
}

}  // namespace parley
