#!/usr/bin/python3
"""Recomputes a Parley run with numpy alone and compares the weights.

    /usr/bin/python3 examples/recompute.py build/release/bin/parley

Everything that decides the run comes from files that this program writes: data, split, initial weights. Full batches
in file order leave nothing to chance. Needs numpy. Exit 0 when the weights agree to 1e-5.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

EXPERIMENT = """
[run]
rounds = 3
[data]
name = "npy"
path = "toy"
test_x = "x.npy"
test_y = "y.npy"
[partition]
kind = "file"
path = "split.json"
[model]
name = "logistic"
init = "init.safetensors"
[client]
epochs = 2
batch = 0
shuffle = false
lr = 0.5
"""


def load(path):
    """A safetensors file: 8 bytes length, a JSON header, raw little-endian floats."""
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + n]), raw[8 + n :]
    header.pop("__metadata__", None)
    return {k: np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]) for k, t in header.items()}


def save(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": t.shape, "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.astype("<f4").tobytes()
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def train(w, b, x, y):
    """Two full-batch steps of softmax regression."""
    for _ in range(2):
        z = x @ w.T + b
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        w, b = w - 0.5 * p.T @ x / len(y), b - 0.5 * p.mean(0)
    return w, b


def main():
    parley = os.path.abspath(sys.argv[1])
    folder = tempfile.TemporaryDirectory(prefix="recompute-")
    os.chdir(folder.name)
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(120, 5)).astype("f4"), rng.integers(0, 3, 120)
    split = [list(range(0, 20)), list(range(20, 70)), list(range(70, 120))]
    w, b = rng.normal(size=(3, 5)).astype("f4"), np.zeros(3, "f4")

    os.mkdir("toy")
    np.save("toy/x.npy", x)
    np.save("toy/y.npy", y)
    json.dump(split, open("split.json", "w"))
    save("init.safetensors", {"fc1.weight": w, "fc1.bias": b})
    open("experiment.toml", "w").write(EXPERIMENT)
    subprocess.run([parley, "run", "experiment.toml", "--out", "run"], check=True)

    for _ in range(3):  # FedAvg: the average of the clients' weights, by their numbers of examples
        trained = [train(w, b, x[rows], y[rows]) for rows in split]
        share = np.array([len(rows) for rows in split]) / 120
        w, b = sum(s * t[0] for s, t in zip(share, trained)), sum(s * t[1] for s, t in zip(share, trained))
    model = load("run/model.safetensors")
    difference = max(abs(model["fc1.weight"] - w).max(), abs(model["fc1.bias"] - b).max())
    print(f"largest difference {difference:.1e}")
    return 0 if difference < 1e-5 else 1


sys.exit(main())
