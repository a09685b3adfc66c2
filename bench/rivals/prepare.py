"""Writes the arrays of the data sets and the rows of each client: `python prepare.py FOLDER ROW,ROW`."""
import json
import sys
from pathlib import Path

import numpy as np
from workloads import WORKLOADS

CACHE = Path.home() / ".cache" / "parley"


def idx(name):
    bytes_ = (CACHE / "mnist" / name).read_bytes()
    shape = [int.from_bytes(bytes_[4 + 4 * i : 8 + 4 * i], "big") for i in range(bytes_[3])]
    return np.frombuffer(bytes_, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def mnist():
    for part, name in (("train", ""), ("t10k", "test_")):
        yield name + "x", idx(f"{part}-images-idx3-ubyte")[:, None]
        yield name + "y", idx(f"{part}-labels-idx1-ubyte").astype(np.int64)


def cifar10():
    from PIL import Image

    for part, name in (("train", ""), ("test", "test_")):
        files = sorted((CACHE / "cifar10_jpeg" / part).glob("*/*"))
        classes = sorted({file.parent.name for file in files})
        yield name + "x", np.stack([np.asarray(Image.open(file)).transpose(2, 0, 1) for file in files])
        yield name + "y", np.array([classes.index(file.parent.name) for file in files], np.int64)


folder, rows = Path(sys.argv[1]), sys.argv[2].split(",")
for row in rows:
    work = WORKLOADS[row]
    if not (folder / f"{work.data}_test_y.npy").exists():
        for name, values in {"mnist": mnist, "cifar10": cifar10}[work.data]():
            np.save(folder / f"{work.data}_{name}.npy", values)
    examples = len(np.load(folder / f"{work.data}_y.npy", mmap_mode="r"))
    order = np.random.default_rng(1).permutation(examples)
    (folder / f"{row}.json").write_text(json.dumps([sorted(map(int, part)) for part in np.array_split(order, work.clients)]))
