// Bring your own: any TorchScript module that Python saved with torch.jit.save.
//
// The module takes [batch, input shape…] and gives [batch, outputs] (logits or predictions). Its
// parameters become the trainable part of the layout under their own names; frozen parameters, float buffers (running
// statistics) and whole-number buffers (counters) follow. The initial weights are the module's own.
// A module that draws random numbers uses LibTorch's global generator and is exclusive().
#pragma once

#include "parley/model/torch/networks.h"

namespace parley {

// Throws InputError for a path that cannot be read, a file that is no TorchScript, a module that
// does not fit the task.
MakeNetwork make_script;

}  // namespace parley
