// The networks written here, on LibTorch's operators.
#pragma once

#include <memory>
#include <string>

#include "parley/model/model.h"

namespace parley {

// `name` is what messages call the model. Each throws InputError when it cannot take the task.
using MakeNetwork = std::unique_ptr<Model>(const std::string& name, const Options& options, const Task& task);

// The same layout, numbers and dropout noise as the native mlp, up to rounding.
MakeNetwork make_torch_mlp;
// McMahan et al. 2017: 5×5 convolutions of 32 and 64 channels (same padding), each with relu and 2×2 pooling, a layer
// of 512, the outputs.
MakeNetwork make_mcmahan_cnn;

// The networks of "Federated learning with decoupled probabilistic-weighted gradient aggregation" (ICLR 2021
// submission), called FeDEC here. Every convolution is followed by a norm, and has no bias of its own: the norm would
// take it away again.
MakeNetwork make_lenet;        // Table 2; relu between the dense layers too, which would be a single one otherwise
MakeNetwork make_cnn4;         // Table 3
MakeNetwork make_resnet18;     // Table 4
MakeNetwork make_densenet121;  // Huang et al. 2017, for images of 32 × 32
MakeNetwork make_mobilenetv2;  // Sandler et al. 2018, for images of 32 × 32
MakeNetwork make_bilstm;       // two layers, on rows of token ids

// Corinzia et al. 2019, for the next character: two layers of LSTM, on rows of token ids.
MakeNetwork make_char_lstm;

// Schirrmeister et al. 2017, "shallow ConvNet", for EEG trials; the network of Kiss 2021, ch. 5.
MakeNetwork make_shallow_convnet;

}  // namespace parley
