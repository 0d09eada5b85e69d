"""The plans that are kept as files in golden/, for a person to read.

`python -m tests.runs.golden_plans` writes them anew after a wished change; `git diff` then shows what changed.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runyard.compute.gpus import Gpu, GpuShare, share_gpus
from runyard.core.definitions.run import RunDefinition
from runyard.core.plan_json import plan_to_json
from runyard.core.records.assets import Workspace
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import DataItem, EnvironmentSpec, LaunchPlan
from runyard.core.records.runs import AttemptId, RunId, RunRecord, RunStatus
from runyard.environments.planning.environment_spec import plan_environment
from runyard.runs.launch.plan import AttemptResources, plan_preparation, plan_run
from runyard.runs.launch.variables import RunContext

GOLDEN = Path(__file__).parent / "golden"
AT = datetime(2026, 1, 2, tzinfo=UTC)
WORKSPACE = Workspace("vision", "workspace-id", "sub", "group", "local", AT)
SUBMITTER = {"PATH": "/usr/bin", "HOME": "/home/ann", "LANG": "en_US.UTF-8", "SECRET": "x", "UV_CACHE_DIR": "/cache"}
ENVIRONMENT = EnvironmentSpec(python="3.11", requirements=("numpy",), choices=(("torch==2.1+cpu",), ("torch==2.1",)))
MNIST = DataItem(
    "mnist", "reference", "mount", "$AZUREML_DATAREFERENCE_mnist", datastore="blobs", variables=("mnist", "MNIST")
)
FAR = ("10.0.0.4", "10.0.0.7")


def a_run(**definition: Any) -> RunRecord:
    given = {
        "script": "train.py",
        "arguments": ["--rate", "0.1", "--data", "$AZUREML_DATAREFERENCE_mnist"],
        "framework": "Python",
        "communicator": "None",
        "environment": {"environmentVariables": {"MINE": "1"}},
        "runyard": {"submitter": {"python": "/usr/bin/python3", "variables": SUBMITTER}},
        **definition,
    }
    return RunRecord(
        RunId("r_1"), "vision", "digits", 1, RunStatus.STARTING, AT, attempt=1, definition=RunDefinition.parse(given)
    )


def resources(run: RunRecord, **more: Any) -> AttemptResources:
    return AttemptResources(
        **{
            "attempt_id": AttemptId("r_1.1"),
            "context": RunContext(WORKSPACE, "experiment-id", "http://127.0.0.1:9", "r_1.token"),
            "node_token": "node.r_1.1.token",
            "environment": ENVIRONMENT,
            "gpus": share_gpus(run.definition, (), slots=[0], most_slots=1),
            "code": (FileEntry("train.py", "ab" * 32, 12),),
            **more,
        }
    )


def on_nodes(run: RunRecord, count: int, **more: Any) -> LaunchPlan:
    """Planned on so many nodes of a cluster of this machine, unless `addresses` says otherwise."""
    local = {
        "addresses": tuple(f"127.0.3.{2 + node}" for node in range(count)),
        "names": tuple(f"cpu-cluster-{node}" for node in range(count)),
        "gpus": GpuShare(((),) * count),
        "secret": "s3cret",
    }
    return plan_run(run, resources(run, **{**local, **more}))


def tensorflow(version: str, workers: int, servers: int, **definition: Any) -> RunRecord:
    return a_run(
        framework="TensorFlow",
        communicator="ParameterServer",
        nodeCount=definition.pop("nodeCount", workers),
        tensorflow={"workerCount": workers, "parameterServerCount": servers},
        runyard={"estimator": {"framework": "TensorFlow", "version": version, "use_gpu": None}},
        **definition,
    )


def torch(communicator: str, nodes: int, processes: int | None = None, **definition: Any) -> RunRecord:
    section = {"communicationBackend": communicator, "processCount": processes, "nodeCount": nodes}
    return a_run(framework="PyTorch", communicator=communicator, nodeCount=nodes, pyTorch=section, **definition)


def mpi(nodes: int, per_node: int, **definition: Any) -> RunRecord:
    return a_run(communicator="IntelMpi", nodeCount=nodes, mpi={"processCountPerNode": per_node}, **definition)


def _script() -> LaunchPlan:
    run = a_run(maxRunDurationSeconds=3600)
    return plan_run(run, resources(run, data=(MNIST,)))


def _gpu_wanted() -> LaunchPlan:
    run = a_run(runyard={"estimator": {"framework": "TensorFlow", "version": "1.13", "use_gpu": True}})
    return plan_run(run, resources(run))


def _gpu() -> LaunchPlan:
    run = a_run(runyard={"estimator": {"framework": "PyTorch", "version": "2.1", "use_gpu": True}})
    share = share_gpus(run.definition, (Gpu("0", "H200", (9, 0)),), slots=[0], most_slots=1)
    return plan_run(run, resources(run, gpus=share))


def _command() -> LaunchPlan:
    run = a_run(script=None, command=["python", "train.py", "&&", "echo", "done"])
    return plan_run(run, resources(run))


def _preparation() -> LaunchPlan:
    run = a_run()
    return plan_preparation(run, resources(run))


CNTK = {
    "docker": {
        "baseImage": "cntk:2.5.1",
        "baseImageRegistry": {"address": "https://registry.example:5000"},
        "shmSize": "2g",
        "arguments": ["--ulimit", "memlock=-1", "-e NAME=value", "--cap-drop=NET_RAW"],
    },
    "python": {"condaDependencies": {"dependencies": ["python=3.6.2", {"pip": ["numpy==1.16.6"]}]}},
}
AS_IT_IS = {
    "docker": {
        "enabled": True,
        "buildContext": {
            "dockerfile": "FROM debian:12\nCOPY tools /tools\n",
            "files": [["Dockerfile", "ab" * 32, 34, 0o644], ["tools/a", "cd" * 32, 1, 0o755]],
        },
    },
    "python": {"userManagedDependencies": True, "interpreterPath": "/opt/python/bin/python"},
}


def _in_image(definition: Mapping[str, Any], nodes: int = 1) -> LaunchPlan:
    run = mpi(nodes, 1, **definition) if nodes > 1 else a_run(**definition)
    return on_nodes(run, nodes, environment=plan_environment(run.definition, gpu_present=False))


def _build() -> LaunchPlan:
    run = a_run(environment=CNTK, runyard={"build": {"force": False}})
    return plan_preparation(run, resources(run, environment=plan_environment(run.definition, gpu_present=False)))


PLANS: Mapping[str, Callable[[], LaunchPlan]] = {
    "script": _script,
    "gpu_wanted": _gpu_wanted,
    "gpu": _gpu,
    "command": _command,
    "preparation": _preparation,
    "image": lambda: _in_image({"environment": AS_IT_IS, "docker": {"useDocker": True, "shmSize": "512m"}}),
    "image_mpi_two_nodes": lambda: _in_image({"environment": CNTK, "target": "cluster"}, 2),
    "image_build": _build,
    "mpi_one_node": lambda: on_nodes(mpi(1, 4), 1),
    "mpi_two_nodes": lambda: on_nodes(mpi(2, 2), 2, data=(MNIST,)),
    "mpi_two_machines": lambda: on_nodes(
        mpi(2, 1), 2, addresses=FAR, gpus=GpuShare((("0", "1"), ("2", "3"))), shares_files=False, restores_outputs=True
    ),
    "parameter_server_tf1": lambda: on_nodes(tensorflow("1.13", 2, 1), 2, gpus=GpuShare((("0",), ("1",)))),
    "parameter_server_tf1_chief": lambda: on_nodes(
        tensorflow("1.13", 2, 1, environment={"environmentVariables": {"RUNYARD_TF_CHIEF": "1"}}), 2
    ),
    "parameter_server_tf2": lambda: on_nodes(tensorflow("2.3", 3, 2, nodeCount=3), 3),
    "multi_worker_tf2": lambda: on_nodes(tensorflow("2.3", 2, 0), 2),
    "torch_two_nodes": lambda: on_nodes(torch("Gloo", 2, 4), 2),
    "torch_each_gpu": lambda: on_nodes(torch("nccl", 2), 2, addresses=FAR, gpus=GpuShare((("0", "1"), ("4", "5")))),
    "torch_command": lambda: on_nodes(
        torch("Nccl", 2, script=None, command="torchrun --node_rank $NODE_RANK train.py"), 2
    ),
}


def shown(plan: LaunchPlan) -> str:
    return json.dumps(plan_to_json(plan), indent=1, sort_keys=True) + "\n"


def golden_file(name: str) -> Path:
    return GOLDEN / f"{name}.json"


def write_all() -> None:
    for name, make in PLANS.items():
        golden_file(name).write_text(shown(make()), encoding="utf-8")


if __name__ == "__main__":
    write_all()
