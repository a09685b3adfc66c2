"""Apple's pfl-research: FedAvg on its simulated backend, one process a core under torchrun."""
import time

import numpy as np
import torch
from common import Task, make_model, report
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops.selector import get_framework_module
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel

task = Task.from_arguments()
work, rows = task.work, task.rows()
np.random.seed(1)
torch.manual_seed(1)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = make_model(work)

    def forward(self, x):
        return self.inner(x)

    def loss(self, x, y):
        self.train()
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {"loss": Weighted(0.0, len(y))}


tensors = {}


def dataset_of(user):
    if user not in tensors:
        tensors[user] = list(task.tensors(rows[user]))
    return Dataset(raw_data=tensors[user], user_id=str(user))


federated = FederatedDataset(dataset_of, get_user_sampler("random", list(range(work.clients))))
backend = SimulatedBackend(training_data=federated, val_data=None, postprocessors=[])
network = Network()
model = PyTorchModel(network, local_optimizer_create=torch.optim.SGD,
                     central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0))
start = time.perf_counter()
FederatedAveraging().run(
    algorithm_params=NNAlgorithmParams(central_num_iterations=work.rounds, evaluation_frequency=10**9,
                                       train_cohort_size=work.cohort, val_cohort_size=0),
    backend=backend, model=model,
    model_train_params=NNTrainHyperParams(local_learning_rate=work.lr, local_num_epochs=work.epochs,
                                          local_batch_size=work.batch),
    model_eval_params=None, callbacks=[])
elapsed = time.perf_counter() - start
if get_framework_module().distributed.global_rank == 0:
    report(time.perf_counter() - elapsed, task.accuracy(network))
