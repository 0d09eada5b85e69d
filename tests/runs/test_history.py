import hashlib
import json
import os
import struct

import pytest

from runyard.testing.race import race
from tests.attempts import node_of
from tests.wire_client import PREFIX

JOURNAL = b'["m","loss",0.5,null,1.0]\n["m","loss",0.25,null,2.0]\n'


@pytest.fixture
def run(client):
    return f"/runs/{client.interactive_run(f'history-{client.workspace}')['id']}"


@pytest.fixture
def journal(run):
    return f"{run}/journals/{run.rpartition('/')[2]}~0-1-a"


def unpacked(data):
    head, _, rest = data.partition(b"\n")
    found = {}
    for one in json.loads(head)["metrics"]:
        payload, rest = rest[: one["bytes"]], rest[one["bytes"] :]
        code = {"i": "q", "f": "d"}.get(one["type"])
        values = json.loads(payload) if code is None else list(struct.unpack(f"<{one['count']}{code}", payload))
        found[one["name"]] = (one["kind"], one["type"], values)
    return found


def test_a_journal_sent_twice_counts_once(client, run, journal):
    assert client.post(f"{journal}?offset=0", JOURNAL) == {"offset": len(JOURNAL)}
    assert client.post(f"{journal}?offset=0", JOURNAL) == {"offset": len(JOURNAL)}
    more = JOURNAL + b'["m","loss",0.1,null,3.0]\n'
    assert client.post(f"{journal}?offset=0", more) == {"offset": len(more)}
    assert unpacked(client.read(f"{run}/metrics")) == {"loss": ("scalar", "f", [0.5, 0.25, 0.1])}
    assert client.get(f"{run}/journals") == {journal.rpartition("/")[2]: len(more)}


def test_a_stretch_and_a_longer_one_sent_at_once_are_stored_once(client, run):
    """What a sender does whose first request had no answer in time."""
    run_id = run.rpartition("/")[2]
    lines = [f'["m","m",{number},null,1.0]\n["tag","last","{number}"]\n'.encode() for number in range(40)]
    ends = (10, 20, 40)
    for attempt in range(10):
        journal = f"{run}/journals/{run_id}~{attempt}-1-a?offset=0"
        race(lambda number, journal=journal: client.post(journal, b"".join(lines[: ends[number]])), len(ends))
        stored = unpacked(client.read(f"{run}/metrics?rank={attempt}"))
        assert stored["m"][2] == list(range(40))
        assert client.get(run)["tags"] == {"last": "39"}


def test_a_gap_in_a_journal_is_refused_and_tells_where_to_go_on(client, journal):
    refused = client.refusal("POST", f"{journal}?offset=5", JOURNAL)
    assert (refused["code"], refused["facts"]["offset"]) == ("conflict", 0)
    assert client.refusal("POST", f"{journal}?offset=-1", JOURNAL)["code"] == "conflict"


def test_half_a_line_is_refused(client, journal):
    assert client.refusal("POST", f"{journal}?offset=0", JOURNAL[:-1])["code"] == "invalid_argument"


def test_a_journal_of_another_run_is_refused(client, run):
    assert client.refusal("POST", f"{run}/journals/other~0-1-a?offset=0", JOURNAL)["code"] == "invalid_argument"


def test_every_kind_of_line_finds_its_place(client, run, journal):
    lines = [
        ["m", "count", 1, None, 1.0],
        ["m", "count", 2, None, 1.0],
        ["l", "list", [1, 2.5], 1.0],
        ["r", "row", {"x": 1}, 1.0],
        ["t", "table", {"x": [1, 2]}, 1.0],
        ["i", "image", "plot.png", 1.0],
        ["m", "word", "abc", None, 1.0],
        ["tag", "colour", "red"],
        ["prop", "size", "7"],
        ["name", "Shown"],
        ["err", {"code": "UserError", "message": "bad"}],
        ["drop", 3],
    ]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines) + b'["m","odd",NaN,null,1.0]\nnot json\n'
    client.post(f"{journal}?offset=0", body)
    found = unpacked(client.read(f"{run}/metrics"))
    assert found["count"] == ("scalar", "i", [1, 2])
    assert found["list"] == ("list", "f", [1.0, 2.5])
    assert found["row"][2] == [{"x": 1}]
    assert found["table"][2] == [{"x": [1, 2]}]
    assert found["image"][2] == ["plot.png"]
    assert found["word"][2] == ["abc"]
    assert found["odd"][2][0] != found["odd"][2][0]
    record = client.get(run)
    assert record["tags"] == {"colour": "red"}
    assert record["properties"] == {"size": "7"}
    assert record["display_name"] == "Shown"
    assert record["error"]["error"]["message"] == "bad"
    assert record["dropped_points"] == 3
    assert any("1 lines" in event["text"] for event in client.get(f"{run}/events")["events"])


def test_many_properties_of_a_journal_are_one_change_of_the_run(client, run, journal):
    client.post(f"{journal}?offset=0", b"".join(b'["prop","p%d","a"]\n' % number for number in range(3)))
    before = client.get(run)["version"]
    lines = b"".join(b'["prop","p%d","b"]\n' % number for number in range(200))
    client.post(f"{journal.replace('~0', '~1')}?offset=0", lines)
    record = client.get(run)
    assert [record["properties"][f"p{number}"] for number in (0, 2, 3, 199)] == ["a", "a", "b", "b"]
    assert record["version"] == before + 1
    notes = [event["text"] for event in client.get(f"{run}/events")["events"] if event["kind"] == "note"]
    assert [("'p0'" in note, note.endswith("So it is with 2 more.")) for note in notes] == [(True, True)]


def test_metrics_of_children_come_along_when_asked(client, run, journal):
    client.interactive_run("history-child", parent_id=run.rpartition("/")[2])
    client.post("/runs/history-child/journals/history-child~0-1-a", JOURNAL)
    head = json.loads(client.read(f"{run}/metrics?children=1").partition(b"\n")[0])
    assert [one["run_id"] for one in head["metrics"]] == ["history-child"]
    assert unpacked(client.read(f"{run}/metrics")) == {}


def test_metrics_are_read_a_page_at_a_time(client, run, journal):
    lines = "".join(json.dumps(["m", f"m{number}", number, None, 1.0]) + "\n" for number in range(5))
    client.post(f"{journal}?offset=0", lines.encode())
    found, after = {}, 0
    while after is not None:
        page = client.read(f"{run}/metrics?limit=2&after={after}")
        found.update(unpacked(page))
        after = json.loads(page.partition(b"\n")[0])["next"]
    assert list(found) == [f"m{number}" for number in range(5)]
    assert found == unpacked(client.read(f"{run}/metrics"))
    assert client.refusal("GET", f"{run}/metrics?limit=0")["status"] == 400


def test_a_log_grows_at_its_end_and_skips_what_it_has(client, run):
    log = f"{run}/logs/azureml-logs/70_driver_log.txt"
    assert client.post(f"{log}?offset=0", b"abc") == {"offset": 3}
    assert client.post(f"{log}?offset=1", b"bcde") == {"offset": 5}
    assert client.refusal("POST", f"{log}?offset=9", b"x")["code"] == "conflict"
    assert client.read(f"{log}?offset=1&limit=3") == b"bcd"
    assert client.read(f"{log}?offset=-2") == b"de"
    assert client.get(f"{run}/logs") == {"azureml-logs/70_driver_log.txt": 5}
    assert client.get(run)["log_files"] == ["azureml-logs/70_driver_log.txt"]


@pytest.mark.parametrize("path", ["..%2f..%2fx", "%2fetc%2fpasswd", "a%00b", "a%2f..%2f..%2f..%2fb", "x" * 300])
def test_a_log_or_file_cannot_lie_elsewhere(client, run, path):
    for method, where in (("POST", "logs"), ("GET", "logs"), ("GET", "files")):
        answer = client.ask(method, f"/api/v1{run}/{where}/{path}", b"x" if method == "POST" else None)
        assert answer.status == 400, (method, where)


def test_files_and_logs_are_listed_together(client, run):
    sha256 = client.put_blob(b"model")
    client.post(f"{run}/files", {"entries": [["outputs/model.bin", sha256, 5, 0o644]]})
    client.post(f"{run}/logs/azureml-logs/70_driver_log.txt?offset=0", b"log")
    assert client.get(f"{run}/files")["files"] == [
        {"path": "azureml-logs/70_driver_log.txt", "size": 3, "sha256": None},
        {"path": "outputs/model.bin", "size": 5, "sha256": sha256},
    ]
    assert [file["path"] for file in client.get(f"{run}/files?prefix=outputs/")["files"]] == ["outputs/model.bin"]
    answer = client.ask("GET", f"/api/v1{run}/files/outputs/model.bin")
    assert (answer.body, answer.headers["content-length"]) == (b"model", "5")
    assert client.read(f"{run}/files/azureml-logs/70_driver_log.txt") == b"log"
    assert client.refusal("GET", f"{run}/files/outputs/none")["code"] == "not_found"


def test_a_file_that_must_be_new_is_refused_when_it_is_not(client, run):
    sha256 = client.put_blob(b"one")
    body = {"entries": [["outputs/a", sha256, 3, 0o644]], "fail_if_exists": True}
    client.post(f"{run}/files", body)
    refused = client.refusal("POST", f"{run}/files", body)
    assert (refused["code"], refused["facts"]["paths"]) == ("already_exists", ["outputs/a"])


def test_a_file_with_a_wrong_size_is_refused(client, run):
    sha256 = client.put_blob(b"one")
    refused = client.refusal("POST", f"{run}/files", {"entries": [["outputs/a", sha256, 300, 0o644]]})
    assert (refused["status"], refused["code"]) == (400, "invalid_argument")
    assert client.get(f"{run}/files") == {"files": []}


def test_files_are_adopted_by_path_and_what_is_not_a_plain_file_is_left_out(client, run, tmp_path):
    (tmp_path / "secret").write_bytes(b"out of bounds")
    root = tmp_path / "work"
    (root / "outputs").mkdir(parents=True)
    (root / "outputs" / "a.bin").write_bytes(b"adopted")
    (root / "outputs" / "run.sh").write_bytes(b"#!")
    (root / "outputs" / "run.sh").chmod(0o755)
    (root / "outputs" / "inner").symlink_to("a.bin")
    (root / "outputs" / "escape").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "outputs" / "pipe")
    names = ["a.bin", "run.sh", "inner", "escape", "pipe", "vanished"]
    answer = client.post(f"{run}/files/adopt", {"root": str(root), "paths": [f"outputs/{name}" for name in names]})
    assert [(path, size, mode & 0o111) for path, _, size, mode in answer["entries"]] == [
        ("outputs/a.bin", 7, 0),
        ("outputs/run.sh", 2, 0o111),
        ("outputs/inner", 7, 0),
    ]
    (root / "outputs" / "a.bin").write_bytes(b"changed later")
    assert client.read(f"{run}/files/outputs/a.bin") == b"adopted"


@pytest.mark.parametrize("paths", [["../secret"], ["/etc/passwd"], ["a\0b"], "outputs", [7]])
def test_adopting_refuses_paths_that_lead_out(client, run, tmp_path, paths):
    refused = client.refusal("POST", f"{run}/files/adopt", {"root": str(tmp_path), "paths": paths})
    assert refused["code"] == "invalid_argument"


def test_a_nodes_token_adopts_from_the_folders_of_its_own_attempt_only(client, run, service, tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    run_id = run.rpartition("/")[2]
    node = node_of(client, run_id)
    assert node.refusal("POST", f"{run}/files/adopt", {"root": str(tmp_path), "paths": ["x"]})["status"] == 400
    assert node.refusal("POST", "/blobs/adopt", {"paths": [str(tmp_path / "x")]})["status"] == 403
    attempts = os.path.join(service["home"], "attempts")
    for part, is_own in ((f"{run_id}.1", True), (f"{run_id}.1-3", True), (f"{run_id}.12", False), ("other.1", False)):
        folder = os.path.join(attempts, part, "work")
        os.makedirs(folder)
        with open(os.path.join(folder, "y"), "wb") as file:
            file.write(b"y")
        answer = node.ask("POST", f"{PREFIX}{run}/files/adopt", {"root": folder, "paths": ["y"]})
        if is_own:
            assert answer.json["entries"][0][:3] == ["y", hashlib.sha256(b"y").hexdigest(), 1]
        else:
            assert answer.status == 400
    assert node.refusal("POST", f"{run}/files/adopt", {"root": attempts, "paths": ["other.1/work/y"]})["status"] == 400
