"""FedLab's standalone simulation: one process, one thread."""
import time

import torch
from common import Task, report
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.contrib.dataset.basic_dataset import FedDataset
from fedlab.core.standalone import StandalonePipeline

task = Task.from_arguments()
work, rows = task.work, task.rows()


class Dealt(FedDataset):
    def __init__(self):
        self.sets = [torch.utils.data.TensorDataset(*task.tensors(r)) for r in rows]

    def preprocess(self):
        pass

    def get_dataset(self, id, type="train"):
        return self.sets[id]

    def get_dataloader(self, id, batch_size, type="train"):
        return torch.utils.data.DataLoader(self.sets[id], batch_size=batch_size, shuffle=True)


model = task.model()
handler = SyncServerHandler(model, work.rounds, sample_ratio=work.cohort / work.clients, cuda=False)
trainer = SGDSerialClientTrainer(task.model(), work.clients, cuda=False)
trainer.setup_dataset(Dealt())
trainer.setup_optim(work.epochs, work.batch, work.lr)
start = time.perf_counter()
StandalonePipeline(handler, trainer).main()
elapsed = time.perf_counter() - start
report(time.perf_counter() - elapsed, task.accuracy(handler.model))
