import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.files import FileEntry
from runyard.runs.launch.distribution import Distribution, DistributionKind, distribution_kind, distribution_of
from runyard.runs.submit import check_nodes, check_script


def tensorflow(workers: object, servers: object, nodes: object = 2, **more: object) -> dict:
    section = {"workerCount": workers, "parameterServerCount": servers}
    return {"communicator": "ParameterServer", "nodeCount": nodes, "tensorflow": section, **more}


def torch(processes: object, nodes: int = 2) -> dict:
    return {"communicator": "Nccl", "nodeCount": nodes, "pyTorch": {"processCount": processes}}


def mpi(per_node: object, nodes: object = 2) -> dict:
    return {"communicator": "Mpi", "nodeCount": nodes, "mpi": {"processCountPerNode": per_node}}


def with_variable(name: str, value: str, **definition: object) -> dict:
    return {**definition, "environment": {"environmentVariables": {name: value}}}


@pytest.mark.parametrize(
    ("communicator", "kind"),
    [
        (None, DistributionKind.SINGLE),
        ("", DistributionKind.SINGLE),
        ("None", DistributionKind.SINGLE),
        ("Mpi", DistributionKind.MPI),
        ("mpi", DistributionKind.MPI),
        ("IntelMpi", DistributionKind.MPI),
        ("OpenMpi", DistributionKind.MPI),
        ("ParameterServer", DistributionKind.PARAMETER_SERVER),
        ("parameterserver", DistributionKind.PARAMETER_SERVER),
        ("Gloo", DistributionKind.TORCH),
        ("NCCL", DistributionKind.TORCH),
    ],
)
def test_every_eras_spelling_is_understood(communicator, kind):
    assert distribution_kind(RunDefinition.parse({"communicator": communicator})) is kind


def test_what_the_definition_leaves_out_is_one_of_each():
    assert distribution_of(RunDefinition.parse({"communicator": "IntelMpi"})) == Distribution(
        DistributionKind.MPI, 1, per_node=1
    )
    assert distribution_of(
        RunDefinition.parse({"communicator": "ParameterServer", "tensorflow": None})
    ) == Distribution(DistributionKind.PARAMETER_SERVER, workers=1, servers=1)
    assert distribution_of(RunDefinition.parse({"communicator": "Gloo"})) == Distribution(DistributionKind.TORCH)


def test_a_single_process_ignores_counts_that_are_for_others():
    assert distribution_of(RunDefinition.parse({"nodeCount": 1, "mpi": {"processCountPerNode": 1}})) == Distribution(
        DistributionKind.SINGLE
    )


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"nodeCount": 2}, "node_count=2 without a distributed backend"),
        ({"nodeCount": 0}, "node_count must be a whole number of at least 1, got 0"),
        ({"nodeCount": -1, "communicator": "Mpi"}, "node_count must be .* got -1"),
        ({"nodeCount": "2"}, "node_count must be .* got '2'"),
        ({"nodeCount": True}, "node_count must be .* got True"),
        ({"nodeCount": 10**9, "communicator": "Mpi"}, "node_count must be at most 1000, got 1000000000"),
        (mpi(0), "process_count_per_node must be a whole number of at least 1, got 0"),
        (mpi(-1), "process_count_per_node must be .* got -1"),
        (mpi(1.5), "process_count_per_node must be .* got 1.5"),
        (mpi(100000), "process_count_per_node must be at most 256, got 100000"),
        ({"communicator": "Mpi", "mpi": "four"}, "mpi must be an object"),
        (tensorflow(0, 1), "worker_count must be a whole number of at least 1, got 0"),
        (tensorflow(-1, 1), "worker_count must be .* got -1"),
        (tensorflow(2, -1), "parameter_server_count must be a whole number of at least 0, got -1"),
        (tensorflow(5, 1), r"worker_count must be at most 2 with node_count=2 \(one worker a node\), got 5"),
        (tensorflow(2, 9999), "parameter_server_count must be at most 512 on 2 nodes, got 9999"),
        (tensorflow(2, 499), "at most 500 together, got 2 and 499"),
        (torch(0), "process_count must be a whole number of at least 1, got 0"),
        (torch(-1), "process_count must be .* got -1"),
        (torch(1), r"process_count must be at least node_count \(2\)"),
        (torch(10**9), "process_count must be at most 512 on 2 nodes"),
        ({"communicator": "telepathy"}, "communicator 'telepathy' is unknown"),
        (
            with_variable("RUNYARD_TF_CHIEF", "yes", communicator="ParameterServer"),
            "RUNYARD_TF_CHIEF must be 1 .* got 'yes'",
        ),
    ],
)
def test_a_count_that_cannot_be_right_is_named(definition, said):
    with pytest.raises(InvalidArgument, match=said):
        check_nodes(RunDefinition.parse(definition), "cpu-cluster", max_nodes=4)


@pytest.mark.parametrize("environment", ["none", [1], {"environmentVariables": ["A=1"]}, {"environmentVariables": 7}])
def test_an_environment_without_variables_by_name_is_refused(environment):
    with pytest.raises(InvalidArgument, match=r"^environment(\.environmentVariables)? must"):
        check_nodes(RunDefinition.parse({"environment": environment}), "local", max_nodes=1)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("A=B", "1", "'A=B'"), ("", "1", "''"), ("A\0", "1", "no name of a variable"), ("A", "1\0", "value has a NUL")],
)
def test_a_variable_that_no_process_can_have_is_refused(name, value, said):
    with pytest.raises(InvalidArgument, match=f"environment_variables has .*{said}"):
        check_nodes(RunDefinition.parse(with_variable(name, value)), "local", max_nodes=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "echo \0"}, "command has .*NUL"),
        ({"script": "a.py", "arguments": ["--lr", "\0"]}, "arguments has .*NUL"),
        ({"script": "a.py", "arguments": 5}, "arguments must be a list, got 5"),
        ({"script": "a.py", "arguments": "--lr 1"}, "arguments must be a list"),
    ],
)
def test_what_no_program_can_be_given_is_refused(given, said):
    with pytest.raises(InvalidArgument, match=said):
        check_script(RunDefinition.parse(given), [FileEntry("a.py", "0" * 64, 1)])


def test_too_many_workers_are_told_how_many_nodes_they_need():
    with pytest.raises(InvalidArgument) as refused:
        distribution_of(RunDefinition.parse(tensorflow(5, 1, mpi={"processCountPerNode": 2})))
    assert "(process_count_per_node=2 workers a node)" in str(refused.value)
    assert "node_count=3" in refused.value.hint


def test_workers_and_servers_of_the_documented_example_fit():
    assert distribution_of(RunDefinition.parse(tensorflow(2, 1))) == Distribution(
        DistributionKind.PARAMETER_SERVER, 2, workers=2, servers=1
    )


def test_a_gang_that_can_never_fit_is_refused_with_the_numbers():
    with pytest.raises(InvalidArgument, match="node_count must be at most 4 on 'cpu-cluster', got 8"):
        check_nodes(RunDefinition.parse(mpi(1, nodes=8)), "cpu-cluster", max_nodes=4)
    check_nodes(RunDefinition.parse(mpi(1, nodes=8)), "amlcompute", max_nodes=8)


@pytest.mark.parametrize(("given", "meant"), [("", 1), ("1", 1), (" 3 ", 3)])
def test_attempts_are_one_unless_asked_for(given, meant):
    assert RunDefinition.parse(with_variable("RUNYARD_MAX_ATTEMPTS", given)).max_attempts == meant
    assert RunDefinition.parse({}).max_attempts == 1


@pytest.mark.parametrize("given", ["0", "-1", "many", "101", "1.5", "\u0663", "9" * 5000])
def test_attempts_that_are_no_number_are_refused_at_once(given):
    with pytest.raises(InvalidArgument, match="RUNYARD_MAX_ATTEMPTS must be a whole number from 1 to 100"):
        check_nodes(RunDefinition.parse(with_variable("RUNYARD_MAX_ATTEMPTS", given)), "local", max_nodes=1)
