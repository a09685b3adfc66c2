"""A bare loop in PyTorch: what a researcher writes first. One thread, one process, no framework."""
import time

import numpy as np
import torch
from common import Task, report, train

task = Task.from_arguments()
work, rows = task.work, task.rows()
data = [task.tensors(r) for r in rows]
model, local = task.model(), task.model()
rng = np.random.default_rng(1)
start = time.perf_counter()
for _ in range(work.rounds):
    cohort = rng.choice(work.clients, work.cohort, replace=False)
    mean = [torch.zeros_like(p) for p in model.parameters()]
    with torch.no_grad():
        total = sum(len(rows[k]) for k in cohort)
    for k in cohort:
        local.load_state_dict(model.state_dict())
        train(local, *data[k], work)
        with torch.no_grad():
            for m, p in zip(mean, local.parameters()):
                m.add_(p, alpha=len(rows[k]) / total)
    with torch.no_grad():
        for p, m in zip(model.parameters(), mean):
            p.copy_(m)
elapsed = time.perf_counter() - start
report(time.perf_counter() - elapsed, task.accuracy(model))
