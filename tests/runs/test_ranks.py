"""The processes of a run over the wire, on runs whose logs the test writes itself."""

from urllib.parse import quote, urlsplit

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.principal import OWNER
from runyard.core.records.nodes import NodeTask, NodeTaskState
from runyard.core.records.runs import attempt_id
from runyard.runs.history.logs import rank_logs, streamed_log
from runyard.runs.history.ranks import Ranks
from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import AT, a_run
from tests.grants import access_to
from tests.wire_client import PREFIX

FIRST, SECOND = "azureml-logs/70_driver_log_0.txt", "azureml-logs/70_driver_log_1.txt"
LAUNCHER = "azureml-logs/55_azureml-execution-node-0.txt"
TWO_WORKERS = {"communicator": "ParameterServer", "nodeCount": 2, "tensorflow": {"workerCount": 2}}


@pytest.fixture
def run(client):
    return client.interactive_run(f"ranks-{client.workspace}")["id"]


def write(client, run, log, text, offset=0):
    client.post(f"/runs/{run}/logs/{log}?offset={offset}", text)


def end(client, run):
    client.patch(f"/runs/{run}", {"status": "Completed"})


def said(lines):
    return [(line["rank"], line["text"]) for line in lines if "log" in line]


def test_all_ranks_are_pushed_as_they_write(client, run):
    write(client, run, FIRST, b"zero\n")
    stream = client.lines(f"/runs/{run}/stream?ranks=all")
    assert next(stream)["status"] == "Running"
    assert said([next(stream)]) == [(0, "zero\n")]
    write(client, run, SECOND, b"one\n")
    assert said([next(stream)]) == [(1, "one\n")]
    write(client, run, FIRST, b"more\n", offset=5)
    assert said([next(stream)]) == [(0, "more\n")]
    end(client, run)
    assert list(stream)[-1]["end"]["status"] == "Completed"


def test_one_rank_alone_is_streamed_whatever_its_name(client, run):
    for log, text in ((FIRST, b"zero\n"), (SECOND, b"one\n"), (LAUNCHER, b"starting\n")):
        write(client, run, log, text)
    end(client, run)
    assert said(client.lines(f"/runs/{run}/stream?ranks=1")) == [(1, "one\n")]


def test_each_log_goes_on_where_it_was_read_to(client, run):
    write(client, run, FIRST, "ä\nzero\n".encode())
    write(client, run, SECOND, b"one\n")
    end(client, run)
    again = client.lines(f"/runs/{run}/stream?ranks=all&from=3~{FIRST}&from=4~{SECOND}")
    assert said(again) == [(0, "zero\n")]


def test_a_long_log_does_not_keep_the_others_back(client, run):
    write(client, run, FIRST, b"x" * 200_000 + b"\n")
    write(client, run, SECOND, b"one\n")
    end(client, run)
    pieces = said(client.lines(f"/runs/{run}/stream?ranks=all"))
    assert pieces.index((1, "one\n")) == 1
    assert "".join(text for rank, text in pieces if rank == 0) == "x" * 200_000 + "\n"


@pytest.mark.parametrize("query", ["ranks=-1", "ranks=two", "ranks=²", "ranks=all&from=x~y", "ranks=all&from=3~../y"])
def test_what_is_no_rank_and_no_place_is_refused(client, run, query):
    answer = client.ask("GET", f"{PREFIX}/runs/{run}/stream?{quote(query, safe='=&')}")
    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize("digits", [19, 5000])
@pytest.mark.parametrize(
    "path",
    [
        "/runs/{run}/stream?ranks={number}",
        "/runs/{run}/stream?ranks=all&from={number}~azureml-logs/70_driver_log_0.txt",
        "/runs/{run}/stream?offset={number}",
        "/runs/{run}/stream?tail={number}",
        "/runs/{run}/wait?version={number}",
        "/runs/{run}/metrics?name=loss&rank={number}",
        "/runs/{run}/logs/azureml-logs/70_driver_log_0.txt?offset={number}",
        "/runs/{run}/logs/azureml-logs/70_driver_log_0.txt?limit={number}",
        "/workspaces/{workspace}/runs?before={number}",
        "/workspaces/{workspace}/runs?limit={number}",
        "/workspaces/{workspace}/assets/computes/cpu?version={number}",
    ],
)
def test_a_number_that_nothing_can_count_to_is_refused(client, run, path, digits):
    refused = client.refusal("GET", path.format(run=run, workspace=client.workspace, number="9" * digits))
    assert (refused["status"], refused["code"]) == (400, "invalid_argument")
    assert len(refused["problem"]) < 300


def test_nothing_is_read_past_the_end_of_a_log_however_far(client, run):
    write(client, run, FIRST, b"zero\n")
    end(client, run)
    far = "9" * 18
    assert said(client.lines(f"/runs/{run}/stream?ranks=all&from={far}~{FIRST}")) == []
    assert said(client.lines(f"/runs/{run}/stream?log={FIRST}&offset={far}")) == []
    assert client.ask("GET", f"{PREFIX}/runs/{run}/logs/{FIRST}?offset={far}").body == b""
    assert client.ask("GET", f"{PREFIX}/runs/{run}/logs/{FIRST}?offset=1&limit={far}").body == b"ero\n"


def test_ranks_are_known_by_their_logs_where_no_node_tells(client, run):
    for log in (SECOND, FIRST, LAUNCHER):
        write(client, run, log, b"x\n")
    assert [(one["rank"], one["log"]) for one in client.get(f"/runs/{run}/ranks")["ranks"]] == [(0, FIRST), (1, SECOND)]


def gang(tmp_path, *parts, **definition):
    """What is said of a run whose nodes have told that."""
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    run = a_run("r1", nodes=("gang-0", "gang-1"), attempt=1, definition=definition)
    stores.runs.create(run)
    for node, (state, facts) in enumerate(parts):
        stores.parts.put(NodeTask(attempt_id(run.id, 1), node, state, AT, facts))
    found = Ranks(stores.parts, FileLogStore(tmp_path / "logs"), access_to(stores)).of(OWNER, run.id)
    stores.close()
    return found


def of_mpi(tmp_path, *facts):
    """The exit code and signal of every rank of an MPI job that has a rank on each node and has ended so."""
    ranks = ([[0, "worker", FIRST]], [[1, "worker", SECOND]])
    parts = [(NodeTaskState.ENDED, {"ranks": mine, **more}) for mine, more in zip(ranks, facts, strict=True)]
    return [(one.exit_code, one.signal) for one in gang(tmp_path, *parts, communicator="Mpi").ranks]


def test_all_ranks_of_an_mpi_job_that_completed_ended_well(tmp_path):
    assert of_mpi(tmp_path, {"outcome": "completed"}, {"outcome": "completed"}) == [(0, None), (0, None)]


def test_of_an_mpi_job_that_failed_the_end_of_the_blamed_rank_is_known(tmp_path):
    launcher = {"outcome": "failed", "error": {"message": "x"}, "rank": 1, "exit_code": 3, "failed_node": 1}
    assert of_mpi(tmp_path, launcher, {"outcome": "failed"}) == [(None, None), (3, None)]


def test_a_node_that_has_failed_and_still_delivers_is_said_to_be_failing(tmp_path):
    found = gang(tmp_path, (NodeTaskState.RUNNING, {}), (NodeTaskState.FAILING, {"outcome": "failed", "exit_code": 3}))
    assert [(node.state, node.exit_code) for node in found.nodes] == [("running", None), ("failing", 3)]


def test_a_node_that_only_serves_the_others_is_said_to_run(tmp_path):
    nodes = gang(tmp_path, (NodeTaskState.RUNNING, {}), (NodeTaskState.DONE, {})).nodes
    assert [(node.name, node.state) for node in nodes] == [("gang-0", "running"), ("gang-1", "running")]


def test_parameter_servers_are_numbered_after_the_workers():
    logs = [f"azureml-logs/70_driver_log-{name}.txt" for name in ("ps-0", "worker-0", "worker-1", "ps-1")]
    found = [
        (one.rank, one.role, one.path.rpartition("log-")[2]) for one in rank_logs(logs, RunDefinition(TWO_WORKERS))
    ]
    assert found == [
        (0, "worker", "worker-0.txt"),
        (1, "worker", "worker-1.txt"),
        (2, "ps", "ps-0.txt"),
        (3, "ps", "ps-1.txt"),
    ]


def test_a_follower_waits_for_the_first_rank():
    assert streamed_log([LAUNCHER, SECOND], is_over=False) == LAUNCHER
    assert streamed_log([SECOND], is_over=False) is None
    assert streamed_log([LAUNCHER, SECOND, FIRST], is_over=False) == FIRST
    assert streamed_log([LAUNCHER, SECOND], is_over=True) == SECOND


def test_a_page_of_several_ranks_shows_each_log_and_escapes_it(client, run):
    write(client, run, FIRST, b"the first says\n")
    write(client, run, SECOND, b"<b>the second says</b>\n")
    address = urlsplit(client.get(f"/runs/{run}")["web_view"])
    page = client.ask("GET", f"{address.path}?{address.query}", authorization="").body.decode()
    assert "Logs of the other ranks" in page
    assert "&lt;b&gt;the second says&lt;/b&gt;" in page
