"""What scripts rely on in distributed plans, beyond what the golden files show."""

import json
from functools import partial

import pytest

from runyard.compute.gpus import GpuShare, given_gpus
from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import EnvironmentSpec, LaunchPlan, ProcessSpec
from tests.runs.golden_plans import a_run, mpi, on_nodes, tensorflow, torch


def processes(plan: LaunchPlan) -> list[ProcessSpec]:
    return [process for node in plan.nodes for process in node.processes]


def tf_config(process: ProcessSpec) -> dict:
    return json.loads(process.env["TF_CONFIG"])


def tasks(plan: LaunchPlan) -> dict[str, tuple[str, int]]:
    """Which task each log is of."""
    found = {}
    for process in processes(plan):
        task = tf_config(process)["task"]
        found[process.log.removeprefix("azureml-logs/70_driver_log-").removesuffix(".txt")] = (
            task["type"],
            task["index"],
        )
    return found


def chief_wish(wish: str) -> dict:
    return {"environment": {"environmentVariables": {"RUNYARD_TF_CHIEF": wish}}}


def setting(process: ProcessSpec, name: str) -> str | None:
    words = process.command
    return next((words[i + 2] for i, word in enumerate(words) if word == "--mca" and words[i + 1] == name), None)


def test_a_tf_config_names_the_cluster_its_own_task_and_the_cloud():
    plan = on_nodes(tensorflow("1.13", 2, 1), 2)
    config = tf_config(plan.nodes[1].processes[0])
    assert config["cluster"] == {
        "worker": ["127.0.3.2:<port:0:worker-0>", "127.0.3.3:<port:1:worker-1>"],
        "ps": ["127.0.3.2:<port:0:ps-0>"],
    }
    assert (config["task"], config["environment"]) == ({"type": "worker", "index": 1}, "cloud")


def test_tasks_go_round_the_nodes():
    plan = on_nodes(tensorflow("1.13", 2, 3, nodeCount=2), 2)
    assert [[wish.name for wish in node.ports] for node in plan.nodes] == [
        ["worker-0", "ps-0", "ps-2"],
        ["worker-1", "ps-1"],
    ]
    assert sorted(process.rank for process in processes(plan)) == [0, 1, 2, 3, 4]


def test_every_task_wishes_for_a_port_of_its_own():
    plan = on_nodes(tensorflow("1.13", 3, 2), 3)
    wished = sorted(wish.preferred for node in plan.nodes for wish in node.ports)
    assert wished == [2222, 2223, 2224, 2225, 2226]


def test_worker_0_is_the_chief_of_tensorflow_2_and_the_logs_keep_their_names():
    plan = on_nodes(tensorflow("2.3", 3, 1), 3)
    assert tasks(plan) == {
        "worker-0": ("chief", 0),
        "worker-1": ("worker", 0),
        "worker-2": ("worker", 1),
        "ps-0": ("ps", 0),
    }
    assert len(tf_config(processes(plan)[0])["cluster"]["worker"]) == 2


def test_only_the_chief_of_tensorflow_2_is_waited_for():
    plan = on_nodes(tensorflow("2.3", 2, 1), 2)
    assert [process.log for process in processes(plan) if process.is_essential] == [
        "azureml-logs/70_driver_log-worker-0.txt"
    ]


def test_all_workers_of_tensorflow_1_are_waited_for_with_a_chief_or_without():
    for wish in ("", "1"):
        plan = on_nodes(tensorflow("1.13", 2, 1, **chief_wish(wish)), 2)
        assert [process.is_essential for process in processes(plan)] == [True, False, True]


@pytest.mark.parametrize(
    ("version", "servers", "wish", "has_chief"),
    [
        ("1.13", 1, "", False),
        ("1.13", 1, "1", True),
        ("2.3", 1, "", True),
        ("2.3", 1, "0", False),
        ("2.3", 0, "", False),
        ("2.3", 0, "1", True),
        ("", 1, "", False),
        ("", 1, "1", True),
    ],
)
def test_who_is_called_chief(version, servers, wish, has_chief):
    plan = on_nodes(tensorflow(version, 2, servers, **chief_wish(wish)), 2)
    assert ("chief" in tf_config(processes(plan)[0])["cluster"]) is has_chief


@pytest.mark.parametrize(
    ("requirement", "has_chief"),
    [("tensorflow==2.15.0", True), ("tensorflow-cpu~=2.1", True), ("tensorflow==1.15.5", False), ("tensorflow", False)],
)
def test_without_an_estimator_the_environment_tells_the_version(requirement, has_chief):
    run = tensorflow("", 2, 1)
    plan = on_nodes(run, 2, environment=EnvironmentSpec(requirements=("numpy==2.0", requirement)))
    assert ("chief" in tf_config(processes(plan)[0])["cluster"]) is has_chief


def test_a_parameter_server_sees_no_gpu():
    plan = on_nodes(tensorflow("1.13", 2, 1), 2, gpus=GpuShare((("0",), ("1",))))
    seen = {process.role: process.env["CUDA_VISIBLE_DEVICES"] for process in plan.nodes[0].processes}
    assert seen == {"worker": "0", "ps": ""}


def test_torch_ranks_count_on_over_the_nodes():
    plan = on_nodes(torch("Gloo", 2, 5), 2)
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")
    assert [" ".join(process.env[name] for name in names) for process in processes(plan)] == [
        "0 0 0 3 5",
        "1 1 0 3 5",
        "2 2 0 3 5",
        "3 0 1 2 5",
        "4 1 1 2 5",
    ]


def test_torch_starts_one_process_for_each_gpu_and_one_without_any():
    gpus = GpuShare((("0", "1"), ("2", "3")))
    assert len(processes(on_nodes(torch("Nccl", 2), 2, gpus=gpus))) == 4
    assert len(processes(on_nodes(torch("Nccl", 2), 2))) == 2


def test_a_torch_command_is_started_once_a_node_unless_told_otherwise():
    gpus = GpuShare((("0", "1"), ("2", "3")))
    command = {"script": None, "command": "torchrun train.py"}
    assert len(processes(on_nodes(torch("Nccl", 2, **command), 2, gpus=gpus))) == 2
    assert len(processes(on_nodes(torch("Nccl", 2, 4, **command), 2, gpus=gpus))) == 4


def test_one_torch_process_has_the_log_of_one_process():
    assert processes(on_nodes(torch("Nccl", 1), 1))[0].log == "azureml-logs/70_driver_log.txt"


def test_the_older_variables_of_torch_lead_to_the_same_place():
    env = processes(on_nodes(torch("gloo", 2), 2))[1].env
    assert env["AZ_BATCHAI_PYTORCH_INIT_METHOD"] == f"tcp://{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    assert env["AZ_BATCHAI_TASK_INDEX"] == env["RANK"] == "1"


def test_nodes_of_one_machine_meet_on_loopback_whatever_interface_the_user_named():
    user = {"environment": {"environmentVariables": {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_TREE_THRESHOLD": "0"}}}
    env = processes(on_nodes(torch("Nccl", 2, **user), 2))[0].env
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"], env["NCCL_TREE_THRESHOLD"]) == ("lo", "lo", "0")
    far = processes(on_nodes(torch("Nccl", 2, **user), 2, addresses=("10.0.0.4", "10.0.0.5")))[0].env
    assert far["NCCL_SOCKET_IFNAME"] == "eth0"
    assert "GLOO_SOCKET_IFNAME" not in far


def test_mpirun_is_the_one_process_and_every_node_knows_its_ranks():
    plan = on_nodes(mpi(3, 2), 3)
    assert [process.role for process in processes(plan)] == ["launcher"]
    assert [node.ranks for node in plan.nodes] == [(0, 1), (2, 3), (4, 5)]
    assert plan.secret == "s3cret"


def test_what_follows_the_rank_starter_is_the_script_as_it_was_given():
    arguments = ["--data", "$AZUREML_DATAREFERENCE_mnist", "--name", "a b'c", "--rank", "$OMPI_COMM_WORLD_RANK"]
    command = processes(on_nodes(mpi(2, 1, arguments=arguments), 2))[0].command
    starter = command.index("{rank_starter}")
    assert command[starter + 1 :] == ("{python}", "train.py", *arguments)


def test_mpi_ranks_of_a_node_see_its_gpus_and_find_the_first_node():
    plan = on_nodes(mpi(2, 1), 2, gpus=GpuShare((("0",), ("1",))))
    assert [node.env["CUDA_VISIBLE_DEVICES"] for node in plan.nodes] == ["0", "1"]
    assert {node.env["AZ_BATCH_MASTER_NODE"] for node in plan.nodes} == {"127.0.3.2:<port:0:master>"}
    alone = on_nodes(mpi(1, 2), 1).nodes[0].env
    assert (alone["AZ_BATCHAI_MPI_MASTER_NODE"], "AZ_BATCH_MASTER_NODE" in alone) == ("127.0.3.2", False)


@pytest.mark.parametrize(
    ("addresses", "network"),
    [
        (("10.0.0.4", "10.0.0.7"), "10.0.0.4/30"),
        (("10.0.0.4", "10.0.1.9"), "10.0.0.0/23"),
        (("10.0.0.4", "192.168.0.1"), None),
        (("node-a", "node-b"), None),
        (("127.0.3.2", "127.0.3.3"), "lo"),
    ],
)
def test_machines_reach_one_another_by_the_network_they_share(addresses, network):
    launcher = processes(on_nodes(mpi(2, 1), 2, addresses=addresses))[0]
    assert setting(launcher, "oob_tcp_if_include") == network
    assert setting(launcher, "btl_tcp_if_include") == network
    assert setting(launcher, "btl") == ("tcp,self" if network == "lo" else None)


def test_a_communicator_without_its_section_is_planned():
    assert len(on_nodes(a_run(communicator="OpenMpi"), 1).nodes[0].ranks) == 1


def test_gpus_that_a_pool_gave_are_used_by_all_nodes_or_by_none():
    assert given_gpus(RunDefinition.parse({}), [("0",), ("3",)]).per_node == (("0",), ("3",))
    wanted = {"runyard": {"estimator": {"use_gpu": True}}}
    lacking = given_gpus(RunDefinition.parse(wanted), [("0",), ()])
    assert (lacking.per_node, "1 of 2 nodes have no GPU" in lacking.notice) == (((), ()), True)
    assert given_gpus(RunDefinition.parse({"runyard": {"estimator": {"use_gpu": False}}}), [("0",)]).per_node == ((),)


@pytest.mark.parametrize(
    "a_distributed_run",
    [partial(tensorflow, "1.13", 2, 1), partial(torch, "Gloo", 2), partial(mpi, 2, 1)],
    ids=["tensorflow", "torch", "mpi"],
)
def test_processes_do_not_ask_the_proxy_for_one_another(a_distributed_run):
    given = {"http_proxy": "http://p:1", "NO_PROXY": "intra.net"}
    plan = on_nodes(a_distributed_run(environment={"environmentVariables": given}), 2)
    found = [process.env for process in processes(plan)] + [node.env for node in plan.nodes if node.ranks]
    for env in found:
        assert env["no_proxy"] == env["NO_PROXY"] == "intra.net,127.0.3.2,127.0.3.3"


@pytest.mark.parametrize(
    ("given", "planned"),
    [
        ({}, {}),
        ({"no_proxy": "intra.net"}, {"no_proxy": "intra.net"}),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, {"no_proxy": "*", "NO_PROXY": "*"}),
        (
            {"grpc_proxy": "http://p:1", "no_grpc_proxy": "a"},
            dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.3.2,127.0.3.3") | {"no_grpc_proxy": "a,127.0.3.2,127.0.3.3"},
        ),
    ],
    ids=["no proxy", "only exceptions", "exceptions for all", "a proxy for grpc alone"],
)
def test_what_proxies_are_not_asked_for_stays_as_it_was_given(given, planned):
    plan = on_nodes(tensorflow("1.13", 2, 1, environment={"environmentVariables": given}), 2)
    env = processes(plan)[0].env
    assert {name: value for name, value in env.items() if name.lower().startswith("no_")} == planned


def test_ranks_that_wait_leave_the_cores_of_one_machine_to_the_others_unless_told_otherwise():
    name = "OMPI_MCA_mpi_yield_when_idle"
    assert [node.env[name] for node in on_nodes(mpi(2, 1), 2).nodes] == ["1", "1"]
    told = mpi(2, 1, environment={"environmentVariables": {name: "0"}})
    assert [node.env[name] for node in on_nodes(told, 2).nodes] == ["0", "0"]
    assert name not in on_nodes(mpi(2, 1), 2, addresses=("10.0.0.4", "10.0.0.7")).nodes[0].env
