// Everything a user can name, in one place.
#pragma once

#include "parley/data/partition.h"
#include "parley/data/source.h"
#include "parley/engine/peer/graph.h"
#include "parley/engine/peer/peers.h"
#include "parley/methods/method.h"
#include "parley/model/model.h"
#include "parley/optim/optimizer.h"
#include "parley/optim/server_step.h"
#include "parley/stages/stage.h"

namespace parley {

struct Catalogue {
  DatasetRegistry datasets = parley::datasets();
  PartitionRegistry partitions = parley::partitions();
  ModelRegistry models = native_models();  // the program adds the LibTorch ones
  OptimizerRegistry optimizers = parley::optimizers();
  ServerStepRegistry server_steps = parley::server_steps();
  StageRegistry stages = parley::stages();
  GraphRegistry graphs = parley::graphs();
  PeerRegistry peers = parley::peers();
  MethodRegistry methods = with_peers(parley::methods(), peers);
};

}  // namespace parley
