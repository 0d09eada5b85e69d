import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attempts import script_of
from tests.wire_client import PREFIX, in_address


@pytest.fixture
def store(client):
    return f"{client.here}/datastores/workspaceblobstore"


def test_a_file_comes_back_as_it_was_put(client, store):
    data = os.urandom(3_000_000)
    stored = client.put(f"{store}/files/a/b.bin", data)
    assert (stored["path"], stored["size"]) == ("a/b.bin", len(data))
    assert client.get(f"{store}/stat/a/b.bin") == stored
    assert client.read(f"{store}/files/a/b.bin") == data
    listed = client.get(f"{store}/files?prefix=a/")["files"]
    assert [(file["path"], file["size"]) for file in listed] == [("a/b.bin", len(data))]
    assert listed[0]["modified_at"].endswith("Z")
    head = client.ask("HEAD", f"{PREFIX}{store}/files/a/b.bin")
    assert (head.status, head.headers["content-length"]) == (200, str(len(data)))
    assert client.ask("HEAD", f"{PREFIX}{store}/files/none").status == 404


def test_a_file_there_is_kept_unless_overwriting_is_asked_for(client, store):
    client.put(f"{store}/files/x", b"one")
    assert client.refusal("PUT", f"{store}/files/x", b"two")["code"] == "already_exists"
    client.put(f"{store}/files/x?overwrite=1", b"two")
    assert client.read(f"{store}/files/x") == b"two"


def test_a_prefix_is_of_the_text(client, store):
    for path in ("data/a", "data/ab", "data/b", "other"):
        client.put(f"{store}/files/{path}", b"x")
    assert [file["path"] for file in client.get(f"{store}/files?prefix=data/a")["files"]] == ["data/a", "data/ab"]
    assert len(client.get(f"{store}/files")["files"]) == 4


def test_files_of_this_machine_are_adopted_and_those_there_skipped(client, store, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    client.put(f"{store}/files/into/a", b"old")
    items = [[str(tmp_path / name), f"into/{name}"] for name in ("a", "b")]
    assert client.post(f"{store}/adopt", {"items": items}) == {"written": ["into/b"], "skipped": ["into/a"]}
    answer = client.post(f"{store}/adopt", {"items": items, "overwrite": True})
    assert answer == {"written": ["into/a", "into/b"], "skipped": []}
    assert client.read(f"{store}/files/into/a") == b"a"


def test_two_that_adopt_the_same_files_at_once_skip_what_the_other_wrote(client, store, tmp_path):
    names = [f"{number:02}" for number in range(20)]
    for name in names:
        (tmp_path / name).write_bytes(os.urandom(1 << 20))
    items = [[str(tmp_path / name), f"at-once/{name}"] for name in names]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: client.post(f"{store}/adopt", {"items": items}), range(4)))
    for answer in answers:
        assert sorted(answer["written"] + answer["skipped"]) == [target for _, target in items]
    for path, target in items:
        assert client.read(f"{store}/files/{target}") == Path(path).read_bytes()


@pytest.mark.parametrize("path", ["..%2fx", "%2fetc%2fpasswd", "a%2f..%2f..%2fx", "a%00b", "x" * 256, "a%2f"])
def test_a_path_that_leads_out_is_refused(client, store, path):
    assert client.ask("PUT", f"{PREFIX}{store}/files/{path}", b"x").status == 400
    assert client.ask("GET", f"{PREFIX}{store}/files/{path}").status == 400


def test_a_link_that_leads_out_is_not_followed(client, store, service, tmp_path):
    (tmp_path / "secret").write_text("secret")
    client.put(f"{store}/files/inside", b"x")
    root = os.path.join(service["home"], "datastores", client.workspace, "workspaceblobstore")
    os.symlink(tmp_path, os.path.join(root, "out"))
    assert client.refusal("GET", f"{store}/files/out/secret")["code"] == "access_denied"
    assert client.refusal("PUT", f"{store}/files/out/new", b"x")["code"] == "access_denied"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("items", [7, [["a"]], [["relative", "x"]], [["/etc/hostname", "../x"]], [["/none", "x"]]])
def test_odd_things_to_adopt_are_refused(client, store, items):
    assert client.refusal("POST", f"{store}/adopt", {"items": items})["status"] in (400, 404)


def test_a_file_cannot_be_where_a_folder_is_nor_below_a_file(client, store):
    client.put(f"{store}/files/folder/file", b"x")
    assert client.refusal("PUT", f"{store}/files/folder?overwrite=1", b"x")["code"] == "invalid_argument"
    assert client.refusal("PUT", f"{store}/files/folder/file/below", b"x")["code"] == "invalid_argument"


def test_an_unknown_datastore_is_not_found(client):
    assert client.refusal("GET", f"{client.here}/datastores/none/files")["code"] == "not_found"
    assert client.refusal("GET", f"{client.here}/datastores/..%2f..%2fx/files")["status"] in (400, 404)


def test_a_file_may_have_any_name_that_a_disk_takes(client, store):
    for path in ("line\nend", "ends in one\n", "ünïcode/数据", "a'b\"c", "%41", "?x=1#y", " "):
        client.put(f"{store}/files/{in_address(path)}", path.encode())
        assert client.read(f"{store}/files/{in_address(path)}") == path.encode()
        assert path in [file["path"] for file in client.get(f"{store}/files")["files"]]


def test_a_deleted_file_is_gone_and_deleting_again_is_quiet(client, store):
    client.put(f"{store}/files/a/x", b"x")
    for _ in range(2):
        client.delete(f"{store}/files/a/x")
    assert client.get(f"{store}/files") == {"files": []}


def test_part_of_a_file_can_be_asked_for(client, store):
    client.put(f"{store}/files/x", b"0123456789")
    for asked, status, body in (
        ("bytes=2-4", 206, b"234"),
        ("bytes=8-", 206, b"89"),
        ("bytes=-2", 206, b"89"),
        ("bytes=0-99", 206, b"0123456789"),
        ("bytes=10-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=1-2,4-5", 200, b"0123456789"),
        ("bytes=99999999999999999999-", 200, b"0123456789"),
    ):
        answer = client.ask("GET", f"{PREFIX}{store}/files/x", range=asked)
        assert (answer.status, answer.body) == (status, body), asked


def test_an_empty_file_is_a_file(client, store):
    client.put(f"{store}/files/empty", b"")
    assert client.read(f"{store}/files/empty") == b""
    assert client.ask("HEAD", f"{PREFIX}{store}/files/empty").headers["content-length"] == "0"


def test_two_files_of_one_path_are_not_adopted(client, store, tmp_path):
    (tmp_path / "a").write_text("a")
    items = [[str(tmp_path / "a"), "x"], [str(tmp_path / "a"), "./x"]]
    assert client.refusal("POST", f"{store}/adopt", {"items": items})["code"] == "invalid_argument"


def test_many_files_are_adopted_and_those_there_found_in_one_listing(client, store, tmp_path):
    for number in range(50):
        (tmp_path / str(number)).write_text(str(number))
    items = [[str(tmp_path / str(number)), f"deep/er/{number}"] for number in range(50)]
    client.post(f"{store}/adopt", {"items": items[:10]})
    answer = client.post(f"{store}/adopt", {"items": items})
    assert (len(answer["written"]), len(answer["skipped"])) == (40, 10)


def test_a_script_adopts_files_of_attempts_alone(client, store, tmp_path):
    run_id = client.interactive_run(f"adopt-{client.workspace}")["id"]
    script = script_of(client, run_id)
    (tmp_path / "a").write_text("a")
    refusal = script.refusal("POST", f"{store}/adopt", {"items": [[str(tmp_path / "a"), "x"]]})
    assert refusal["code"] == "invalid_argument"


def test_slow_senders_hold_up_nobody_else(client, store):
    size, senders = 1 << 20, 60
    with ExitStack() as held:
        connections = [
            held.enter_context(client.half_sent(f"{store}/files/slow/{number}", size)) for number in range(senders)
        ]
        assert client.get(client.here)["name"] == client.workspace
        assert client.get(f"{store}/files") == {"files": []}
        for connection in connections:
            connection.send(bytes(size - size // 2))
        assert {connection.getresponse().status for connection in connections} == {200}
    assert len(client.get(f"{store}/files")["files"]) == senders


@pytest.mark.parametrize("pack", [b"%ff 1\nx", b"a " + b"9" * 5000 + b"\nx"], ids=["no UTF-8", "5,000 digits"])
def test_a_pack_with_an_odd_head_is_refused(client, store, pack):
    refusal = client.refusal("POST", f"{store}/write-many", pack)
    assert (refusal["status"], refusal["code"]) == (400, "invalid_argument")
