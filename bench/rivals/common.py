"""What the rivals share: the arrays, the split, the model in PyTorch, and how a result is told to the runner."""
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from workloads import WORKLOADS

torch.set_num_threads(1)


class Task:
    """One workload with its data: `python RIVAL.py WORKLOAD FOLDER`, the folder being what ./run has written."""

    def __init__(self, name, folder):
        self.name, self.folder = name, Path(folder)
        self.work = WORKLOADS[name]
        self._arrays = {}

    @staticmethod
    def from_arguments():
        return Task(sys.argv[1], sys.argv[2])

    def array(self, name):
        if name not in self._arrays:
            self._arrays[name] = np.load(self.folder / f"{self.work.data}_{name}.npy", mmap_mode="r")
        return self._arrays[name]

    def rows(self):
        """The rows of each client, the same for everyone."""
        return json.loads((self.folder / f"{self.name}.json").read_text())

    def tensors(self, rows):
        x = torch.from_numpy(self.array("x")[rows].astype(np.float32) / 255)
        return x, torch.from_numpy(self.array("y")[rows].astype(np.int64))

    def model(self, seed=1):
        torch.manual_seed(seed)
        return make_model(self.work)

    def accuracy(self, model):
        x = torch.from_numpy(self.array("test_x").astype(np.float32) / 255)
        y = torch.from_numpy(self.array("test_y").astype(np.int64))
        model.eval()
        with torch.no_grad():
            right = sum(int((model(x[i : i + 500]).argmax(1) == y[i : i + 500]).sum()) for i in range(0, len(y), 500))
        return right / len(y)


def make_model(work):
    nn = torch.nn
    side, channels = (28, 1) if work.data == "mnist" else (32, 3)
    if work.model.startswith("cnn"):
        pooled = side // 4
        return nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * pooled * pooled, 512), nn.ReLU(), nn.Linear(512, 10))
    widths = [channels * side * side, *work.hidden, 10]
    layers = [nn.Flatten()]
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += [nn.Linear(a, b)] + ([nn.ReLU()] if i + 2 < len(widths) else [])
    return nn.Sequential(*layers)


def train(model, x, y, work):
    """Local SGD, the plain way."""
    optimizer = torch.optim.SGD(model.parameters(), lr=work.lr)
    loss = torch.nn.CrossEntropyLoss()
    model.train()
    for _ in range(work.epochs):
        order = torch.randperm(len(y))
        for i in range(0, len(y), work.batch):
            rows = order[i : i + work.batch]
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()


def report(start, accuracy):
    """Training seconds: from the first round to the end of the last, without evaluation."""
    print("RESULT " + json.dumps({"train_seconds": time.perf_counter() - start, "accuracy": accuracy}), flush=True)
