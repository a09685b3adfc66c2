"""A run's model as a PyTorch state_dict.

    from state_dict import state_dict
    net.load_state_dict(state_dict("runs/first/model.safetensors"))     # strict

model.safetensors holds the weights under their own names; what else a method keeps (a posterior's precision, control
variates) stands behind "name/" and is left out here. Counters become whole numbers again. Needs safetensors and torch.
"""
import sys

import torch
from safetensors.torch import load_file


def state_dict(file):
    weights = {name: tensor for name, tensor in load_file(file).items() if "/" not in name}
    return {
        name: tensor.round().to(torch.int64) if name.endswith("num_batches_tracked") else tensor
        for name, tensor in weights.items()
    }


if __name__ == "__main__":
    for name, tensor in state_dict(sys.argv[1]).items():
        print(name, tuple(tensor.shape), tensor.dtype)
