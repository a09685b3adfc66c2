#include "parley/model/torch/plugin.h"

#include "parley/model/torch/networks.h"
#include "parley/model/torch/script.h"

extern "C" parley::Model* parley_make_torch_model(const std::string& name, const parley::Options& options,
                                                  const parley::Task& task) {
  if (name == "mlp") return parley::make_torch_mlp(options, task).release();
  if (name == "torchscript") return parley::make_script(options, task).release();
  return parley::make_torch_cnn(name, task).release();
}
