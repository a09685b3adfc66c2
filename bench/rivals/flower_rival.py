"""Flower's simulation: two actors of one processor each, its own FedAvg, no evaluation but one at the end."""
import sys
import time

from common import Task, report, train
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

NAME, FOLDER = sys.argv[1], sys.argv[2]
client_app, server_app = ClientApp(), ServerApp()
cache = {}


def shared():
    """Once an actor, not once a client: the kindest reading."""
    if not cache:
        cache["task"] = Task(NAME, FOLDER)
        cache["rows"] = cache["task"].rows()
        cache["model"] = cache["task"].model()
    return cache


@client_app.train()
def fit(message: Message, context: Context):
    task, model = shared()["task"], shared()["model"]
    rows = cache["rows"][int(context.node_config["partition-id"])]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model, *task.tensors(rows), task.work)
    return Message(content=RecordDict({"arrays": ArrayRecord(model.state_dict()),
                                       "metrics": MetricRecord({"num-examples": len(rows)})}), reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    task = Task(NAME, FOLDER)
    model = task.model()
    strategy = FedAvg(fraction_train=task.work.cohort / task.work.clients, fraction_evaluate=0.0,
                      min_train_nodes=task.work.cohort, min_available_nodes=task.work.clients)
    start = time.perf_counter()
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=task.work.rounds)
    elapsed = time.perf_counter() - start
    model.load_state_dict(result.arrays.to_torch_state_dict())
    report(time.perf_counter() - elapsed, task.accuracy(model))


run_simulation(server_app=server_app, client_app=client_app, num_supernodes=Task(NAME, FOLDER).work.clients,
               backend_config={"init_args": {"num_cpus": 2, "num_gpus": 0},
                               "client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
