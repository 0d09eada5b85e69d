import hashlib
import threading

import pytest

SCRIPT = b"print('hello')\n"
SHA256 = hashlib.sha256(SCRIPT).hexdigest()


def submission(run_id, **definition):
    # A cluster that has no free node keeps the run waiting, so that nothing is started here.
    return {
        "run_id": run_id,
        "definition": {"script": "train.py", "target": "local", **definition},
        "snapshot": [["train.py", SHA256, len(SCRIPT), 0o644]],
    }


@pytest.fixture
def runs(client):
    return f"{client.here}/experiments/probe/runs"


def test_blobs_that_are_not_here_are_named(client, runs):
    other = hashlib.sha256(b"never sent").hexdigest()
    body = {**submission("missing-1"), "snapshot": [["train.py", other, 10, 0o644]]}
    refused = client.refusal("POST", runs, body)
    assert (refused["status"], refused["code"], refused["facts"]["sha256"]) == (409, "blobs_missing", [other])


def test_submitting_twice_makes_one_run(client, runs):
    body = {"run_id": "twice-1", "interactive": True}
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(client.post(runs, body))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert {answer["number"] for answer in answers} == {1}
    assert len(client.get(f"{client.here}/runs")["runs"]) == 1


def test_a_run_id_of_another_experiment_is_taken(client, runs):
    client.interactive_run("taken-1", experiment="first")
    refused = client.refusal("POST", runs, {"run_id": "taken-1", "interactive": True})
    assert refused["code"] == "already_exists"


def test_an_unknown_target_is_named_with_the_known_ones(client, runs):
    client.post(f"{client.here}/assets/computes", {"name": "gpu-1", "body": {"max_nodes": 4}})
    refused = client.refusal("POST", runs, submission("target-1", target="gpu-2"))
    assert refused["code"] == "not_found"
    assert refused["problem"] == (
        f"There is no compute target 'gpu-2' in workspace '{client.workspace}'. Known: 'gpu-1', 'local'."
    )


def test_more_nodes_than_the_cluster_may_have_are_refused(client, runs):
    client.post(f"{client.here}/assets/computes", {"name": "gpu-1", "body": {"max_nodes": 4}})
    refused = client.refusal("POST", runs, submission("nodes-1", target="gpu-1", nodeCount=8))
    assert refused["problem"] == "node_count must be at most 4 on 'gpu-1', got 8."


@pytest.mark.parametrize(
    ("target", "count", "said"),
    [
        ("wide", 10**6, "node_count must be at most 1000, got 1000000."),
        ("wide", 1000, "node_count must be at most 64 on 'wide', got 1000."),
        ("amlcompute", 10**6, "node_count must be at most 1000, got 1000000."),
        ("amlcompute", 65, "node_count must be at most 64 on 'amlcompute', got 65."),
    ],
)
def test_more_nodes_than_this_machine_gives_are_refused_at_once(client, runs, target, count, said):
    client.post(f"{client.here}/assets/computes", {"name": "wide", "body": {"max_nodes": 10_000}})
    crowd = submission("crowd-1", target=target, nodeCount=count, communicator="Gloo")
    assert client.refusal("POST", runs, crowd)["problem"] == said


@pytest.mark.parametrize(
    ("definition", "named"),
    [
        ({"nodeCount": 2}, "node_count=2"),
        ({"communicator": "telepathy"}, "'telepathy'"),
        ({"communicator": "IntelMpi", "mpi": {"processCountPerNode": 0}}, "process_count_per_node"),
        ({"communicator": "ParameterServer", "tensorflow": {"workerCount": 3}}, "worker_count"),
        ({"communicator": "Gloo", "pyTorch": {"processCount": -1}}, "process_count"),
    ],
)
def test_a_distribution_that_cannot_be_is_refused_by_the_users_argument(client, runs, definition, named):
    client.post(f"{client.here}/assets/computes", {"name": "gpu-1", "body": {"max_nodes": 4}})
    refused = client.refusal("POST", runs, submission("counts-1", target="gpu-1", **definition))
    assert (refused["status"], refused["code"]) == (400, "invalid_argument")
    assert named in refused["problem"]


@pytest.mark.parametrize("count", [0, -1, "2", 1.5, True, None])
def test_a_node_count_that_is_no_count_is_refused(client, runs, count):
    assert client.refusal("POST", runs, submission("nodes-2", nodeCount=count))["status"] == 400


@pytest.mark.parametrize("script", ["other.py", "../train.py", "/etc/passwd", "", "a\0b", 7])
def test_the_script_must_be_in_the_snapshot(client, runs, script):
    client.put_blob(SCRIPT)
    refused = client.refusal("POST", runs, submission("script-1", script=script))
    assert refused["code"] == "invalid_argument"
    assert "script" in refused["problem"]


def test_a_notebook_is_no_script(client, runs):
    client.put_blob(SCRIPT)
    body = {**submission("notebook-1", script="a.ipynb"), "snapshot": [["a.ipynb", SHA256, len(SCRIPT), 0o644]]}
    refused = client.refusal("POST", runs, body)
    assert (refused["code"], "'a.ipynb' is a notebook" in refused["problem"]) == ("invalid_argument", True)
    assert "nbconvert" in refused["hint"]


@pytest.mark.parametrize(
    ("definition", "named"),
    [
        ({"runyard": {"estimator": {"framework": "TensorFlow", "version": "9.9"}}}, "framework_version='9.9'"),
        ({"environment": {"python": {"condaDependencies": {"dependencies": ["python=2.7"]}}}}, "'2.7'"),
        ({"environment": {"python": {"condaDependencies": {"dependencies": [{"pip": ["-e ."]}]}}}}, "'-e .'"),
        ({"environment": {"python": {"condaDependencies": [1]}}}, "environment"),
        ({"environment": "none"}, "environment"),
    ],
)
def test_an_environment_that_no_machine_could_have_is_refused(client, runs, definition, named):
    client.put_blob(SCRIPT)
    refused = client.refusal("POST", runs, submission("environment-1", **definition))
    assert (refused["code"], named in refused["problem"]) == ("invalid_argument", True)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", "a\0b", "x" * 300, "a/" * 600 + "b", "\ud800"])
def test_a_snapshot_cannot_name_a_path_outside_itself(client, runs, path):
    client.put_blob(SCRIPT)
    body = {**submission("path-1"), "snapshot": [[path, SHA256, len(SCRIPT), 0o644]]}
    assert client.refusal("POST", runs, body)["status"] == 400


def test_a_path_cannot_be_a_file_and_a_folder(client, runs):
    client.put_blob(SCRIPT)
    entries = [[path, SHA256, len(SCRIPT), 0o644] for path in ("train.py", "a", "a/b")]
    refused = client.refusal("POST", runs, {**submission("both-1"), "snapshot": entries})
    assert "file and a folder" in refused["problem"]


def test_a_large_snapshot_warns_and_a_huge_one_is_refused(client, runs):
    content = bytes(8 * 2**20)
    sha256 = client.put_blob(content)

    def of_files(run_id, count):
        entries = [[f"big-{number}.bin", sha256, len(content), 0o644] for number in range(count)]
        return {"run_id": run_id, "interactive": True, "snapshot": entries}

    warnings = client.post(runs, of_files("large-1", 50))["warnings"]
    assert "400 MB" in warnings[0]
    assert "big-0.bin (8 MB)" in warnings[0]
    huge = of_files("huge-1", 1_400)
    refused = client.refusal("POST", runs, huge)
    assert (refused["status"], refused["code"]) == (413, "too_large")
    assert client.post(runs, {**huge, "allow_large": True})["id"] == "huge-1"


def test_a_size_that_is_not_the_blobs_is_refused(client, runs):
    client.put_blob(SCRIPT)
    wrong = {"run_id": "size-1", "interactive": True, "snapshot": [["train.py", SHA256, len(SCRIPT) + 1, 0o644]]}
    refused = client.refusal("POST", runs, wrong)
    assert refused["status"] == 400
    assert f"'train.py' is given as {len(SCRIPT) + 1} bytes, but its blob has {len(SCRIPT)}" in refused["problem"]


def test_the_same_files_make_the_same_snapshot(client, runs):
    client.put_blob(SCRIPT)
    entries = [["b.py", SHA256, len(SCRIPT), 0o644], ["a.py", SHA256, len(SCRIPT), 0o755]]
    first = client.interactive_run("same-1", snapshot=entries)
    second = client.interactive_run("same-2", snapshot=entries[::-1])
    assert first["snapshot_id"] == second["snapshot_id"] == first["properties"]["ContentSnapshotId"]
    kept = client.get(f"/snapshots/{first['snapshot_id']}")["entries"]
    assert [entry[0] for entry in kept] == ["a.py", "b.py"]


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", "a\0b", "a b", "-x", "a~b", "x" * 201, 7, None])
def test_a_run_id_that_breaks_the_rules_is_refused(client, runs, run_id):
    assert client.refusal("POST", runs, {"run_id": run_id, "interactive": True})["status"] == 400


@pytest.mark.parametrize(
    "body",
    [
        {"definition": [1]},
        {"tags": "x"},
        {"tags": {"a": {"b": 1}}},
        {"snapshot": 7},
        {"snapshot": [["a"]]},
        {"interactive": "yes"},
        {"parent_id": 7},
        {"parent_id": "no-such-run"},
    ],
)
def test_a_body_of_the_wrong_shape_is_refused_in_words(client, runs, body):
    refused = client.refusal("POST", runs, {"run_id": "shape-1", "interactive": True, **body})
    assert refused["status"] in (400, 404)
    assert refused["problem"].endswith(".")


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_body_that_is_no_object_is_refused(client, runs, body):
    assert client.refusal("POST", runs, body)["code"] == "invalid_argument"


def test_a_body_above_the_limit_is_refused_before_it_is_read(client, runs):
    answer = client.ask("POST", f"/api/v1{runs}", b"", **{"content-length": str(65 * 2**20)})
    assert (answer.status, answer.json["code"]) == (413, "too_large")


@pytest.mark.parametrize("levels", [200, 250])
def test_what_is_nested_beyond_all_measure_is_shown_as_far_as_anybody_reads(client, runs, levels):
    deep = []
    for _ in range(levels):
        deep = [deep]
    client.post(runs, {"run_id": f"deep-{levels}", "interactive": True, "definition": {"deep": deep}})
    shown, depth = client.get(f"/runs/deep-{levels}")["definition"]["deep"], 0
    while isinstance(shown, list) and shown:
        shown, depth = shown[0], depth + 1
    assert depth == levels or (depth > 90 and shown == "...")
