"""TensorFlow's own distribution: workers and parameter servers that learn who they are from TF_CONFIG."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.core.definitions.run import RunDefinition
from runyard.model.plan import NodePlan, PortWish, ProcessSpec
from runyard.planning.distribution import Distribution, distribution_of
from runyard.planning.launch_single import command_of
from runyard.planning.resources import Resources
from runyard.planning.variables import direct_variables, gpu_variables

_FIRST_PORT = 2222
_PINNED = re.compile(r"(?i)tensorflow(?:[-_](?:cpu|gpu|intel))?\s*+(?:\[[^\]]*+\]\s*+)?[=~]=++\s*+(\d++)")


@dataclass(frozen=True)
class _Task:
    """`rank` counts workers first; `name` is that of its port and log, whether the worker is called chief or not."""

    rank: int
    name: str
    type: str
    index: int
    node: int
    role: str


def parameter_server_layout(definition: RunDefinition, found: Resources) -> tuple[NodePlan, ...]:
    """Worker i and parameter server i are on node i mod node_count."""
    asked = distribution_of(definition)
    tasks = _tasks(asked, _major_version(definition, found))
    cluster = _cluster(tasks, found.addresses)
    return tuple(_node(definition, found, tasks, cluster, node) for node in range(asked.node_count))


def _tasks(asked: Distribution, version: int | None) -> list[_Task]:
    has_chief = _has_chief(asked, version)
    # TensorFlow 2's coordinator is the chief alone: its workers serve it and never return. TensorFlow 1's all train.
    follower = "server" if has_chief and asked.servers and version != 1 else "worker"
    tasks = []
    for i in range(asked.workers):
        node, name = i % asked.node_count, f"worker-{i}"
        if has_chief and i == 0:
            tasks.append(_Task(i, name, "chief", 0, node, "worker"))
        elif has_chief:
            tasks.append(_Task(i, name, "worker", i - 1, node, follower))
        else:
            tasks.append(_Task(i, name, "worker", i, node, "worker"))
    for i in range(asked.servers):
        tasks.append(_Task(asked.workers + i, f"ps-{i}", "ps", i, i % asked.node_count, "ps"))
    return tasks


def _has_chief(asked: Distribution, version: int | None) -> bool:
    if asked.has_chief is not None:
        return asked.has_chief
    return version is not None and version >= 2 and asked.servers > 0


def _major_version(definition: RunDefinition, found: Resources) -> int | None:
    """TensorFlow's, as the estimator or else the environment names it; None where neither does."""
    estimator = definition.runyard.estimator
    named = estimator.version.partition(".")[0]
    if estimator.framework in ("", "TensorFlow") and named.isdigit():
        return int(named)
    pins = (_PINNED.match(line) for line in found.environment.requirements)
    return next((int(pin[1]) for pin in pins if pin), None)


def _cluster(tasks: Sequence[_Task], addresses: Sequence[str]) -> dict[str, list[str]]:
    cluster: dict[str, list[str]] = {}
    for task in tasks:
        cluster.setdefault(task.type, []).append(f"{addresses[task.node]}:<port:{task.node}:{task.name}>")
    return cluster


def _node(
    definition: RunDefinition,
    found: Resources,
    tasks: Sequence[_Task],
    cluster: Mapping[str, Sequence[str]],
    node: int,
) -> NodePlan:
    here = [task for task in tasks if task.node == node]
    gpus = found.gpus_of(node)
    processes = tuple(
        ProcessSpec(
            rank=task.rank,
            command=command_of(definition),
            env={
                **definition.environment.variables,
                **direct_variables(definition, found.addresses),
                **gpu_variables(() if task.type == "ps" else gpus),
                "TF_CONFIG": _tf_config(cluster, task),
            },
            log=f"azureml-logs/70_driver_log-{task.name}.txt",
            role=task.role,
        )
        for task in here
    )
    wishes = tuple(PortWish(task.name, _FIRST_PORT + task.rank) for task in here)
    return NodePlan(found.addresses[node], processes, gpus, found.name_of(node), wishes)


def _tf_config(cluster: Mapping[str, Sequence[str]], task: _Task) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": task.type, "index": task.index}, "environment": "cloud"})
