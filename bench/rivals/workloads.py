"""The rows of the comparison: what everyone trains, on which data, dealt to whom."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    data: str  # mnist or cifar10
    model: str  # as an experiment file of Parley names it
    hidden: tuple  # of an mlp
    clients: int
    cohort: int
    epochs: int
    batch: int
    lr: float
    rounds: int


WORKLOADS = {
    "logistic": Workload("mnist", "logistic", (), 1000, 10, 1, 10, 0.1, 100),
    "mlp200": Workload("mnist", "mlp", (200, 200), 100, 10, 5, 10, 0.05, 10),
    "mlp100": Workload("mnist", "mlp", (100, 100), 100, 10, 5, 20, 0.05, 20),
    "cnn_mnist": Workload("mnist", "cnn_mnist", (), 1000, 50, 1, 10, 0.1, 15),  # fewer rounds hardly train it
    # pfl-research's CIFAR-10 benchmark: 1,000 clients of 50 images, 50 a round, batches of 10.
    "cnn_cifar": Workload("cifar10", "cnn_cifar", (), 1000, 50, 1, 10, 0.05, 5),
}
