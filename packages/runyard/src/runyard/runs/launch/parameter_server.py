"""TensorFlow parameter servers: each process reads its role from TF_CONFIG."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import NodePlan, PortRequest, ProcessSpec
from runyard.runs.launch.distribution import Distribution, distribution_of
from runyard.runs.launch.layout import AttemptResources, command_of
from runyard.runs.launch.variables import gpu_variables, no_proxy_variables

_FIRST_PORT = 2222
_PINNED = re.compile(r"(?i)tensorflow(?:[-_](?:cpu|gpu|intel))?\s*+(?:\[[^\]]*+\]\s*+)?[=~]=++\s*+(\d++)")


@dataclass(frozen=True)
class _Task:
    """One process. `rank` counts workers first; `name` is that of its port and log, also for the chief."""

    rank: int
    name: str
    type: str
    index: int
    node: int
    role: str


def parameter_server_layout(definition: RunDefinition, resources: AttemptResources) -> tuple[NodePlan, ...]:
    """Node plans: worker i and parameter server i on node i mod node_count."""
    distribution = distribution_of(definition)
    tasks = _tasks(distribution, _major_version(definition, resources))
    cluster = _cluster(tasks, resources.addresses)
    return tuple(_node(definition, resources, tasks, cluster, node) for node in range(distribution.node_count))


def _tasks(distribution: Distribution, version: int | None) -> list[_Task]:
    has_chief = _has_chief(distribution, version)
    # In TensorFlow 2 the chief coordinates, and workers serve it and never return. In TensorFlow 1 all train.
    follower = "server" if has_chief and distribution.servers and version != 1 else "worker"
    tasks = []
    for i in range(distribution.workers):
        node, name = i % distribution.node_count, f"worker-{i}"
        if has_chief and i == 0:
            tasks.append(_Task(i, name, "chief", 0, node, "worker"))
        elif has_chief:
            tasks.append(_Task(i, name, "worker", i - 1, node, follower))
        else:
            tasks.append(_Task(i, name, "worker", i, node, "worker"))
    for i in range(distribution.servers):
        tasks.append(_Task(distribution.workers + i, f"ps-{i}", "ps", i, i % distribution.node_count, "ps"))
    return tasks


def _has_chief(distribution: Distribution, version: int | None) -> bool:
    if distribution.has_chief is not None:
        return distribution.has_chief
    return version is not None and version >= 2 and distribution.servers > 0


def _major_version(definition: RunDefinition, resources: AttemptResources) -> int | None:
    """Major version of TensorFlow in the estimator or the environment; None if neither names it."""
    estimator = definition.runyard.estimator
    named = estimator.version.partition(".")[0]
    if estimator.framework in ("", "TensorFlow") and named.isdigit():
        return int(named)
    pins = (_PINNED.match(line) for line in resources.environment.requirements)
    return next((int(pin[1]) for pin in pins if pin), None)


def _cluster(tasks: Sequence[_Task], addresses: Sequence[str]) -> dict[str, list[str]]:
    cluster: dict[str, list[str]] = {}
    for task in tasks:
        cluster.setdefault(task.type, []).append(f"{addresses[task.node]}:<port:{task.node}:{task.name}>")
    return cluster


def _node(
    definition: RunDefinition,
    resources: AttemptResources,
    tasks: Sequence[_Task],
    cluster: Mapping[str, Sequence[str]],
    node: int,
) -> NodePlan:
    here = [task for task in tasks if task.node == node]
    gpus = resources.gpus_of(node)
    processes = tuple(
        ProcessSpec(
            rank=task.rank,
            command=command_of(definition),
            env={
                **definition.environment.variables,
                **no_proxy_variables(definition, resources.addresses),
                **gpu_variables(() if task.type == "ps" else gpus),
                "TF_CONFIG": _tf_config(cluster, task),
            },
            log=f"azureml-logs/70_driver_log-{task.name}.txt",
            role=task.role,
        )
        for task in here
    )
    ports = tuple(PortRequest(task.name, _FIRST_PORT + task.rank) for task in here)
    return NodePlan(resources.addresses[node], processes, gpus, resources.name_of(node), ports)


def _tf_config(cluster: Mapping[str, Sequence[str]], task: _Task) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": task.type, "index": task.index}, "environment": "cloud"})
