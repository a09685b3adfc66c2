#include "parley/model/torch/plugin.h"

#include <map>

#include "parley/model/torch/networks.h"
#include "parley/model/torch/script.h"

using namespace parley;

extern "C" Model* parley_make_torch_model(const std::string& name, const Options& options, const Task& task) {
  static const std::map<std::string, MakeNetwork*> makers{
      {"mlp", make_torch_mlp},
      {"cnn_mnist", make_mcmahan_cnn},
      {"cnn_cifar", make_mcmahan_cnn},
      {"lenet", make_lenet},
      {"cnn4", make_cnn4},
      {"resnet18", make_resnet18},
      {"densenet121", make_densenet121},
      {"mobilenetv2", make_mobilenetv2},
      {"bilstm", make_bilstm},
      {"char_lstm", make_char_lstm},
      {"shallow_convnet", make_shallow_convnet},
      {"torchscript", make_script},
  };
  return makers.at(name)(name, options, task).release();
}
