import errno
import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest

from runyard.core.errors import DataFailed
from runyard.core.records.data import NetworkRules, SourceFile, StoreAccess
from runyard.data.fuse import MountUnavailable, ReadOnlyMount, kernel, serve_mount
from tests.data.mounting.attempt_mounts import AttemptMounts
from tests.data.mounting.children import NOBODY, in_child

pytestmark = pytest.mark.slow


def test_all_mounts_of_an_attempt_end_with_the_pipe_of_their_supervisor(attempt: AttemptMounts) -> None:
    (attempt.stored / "file").write_text("content")
    data, out = attempt.read_only(), attempt.writable(prefix="results/1")
    attempt.start(data, out)
    assert attempt.said == ["Mounted data.", "Mounted out."]
    assert (data.mount_point / "file").read_text() == "content"
    (out.mount_point / "model").write_text("weights")
    attempt.close()
    assert attempt.ended() == 0
    assert kernel.mounts_below(attempt.root) == []
    assert not data.mount_point.exists()
    assert (attempt.stored / "results" / "1" / "model").read_text() == "weights"
    counts = {"data": {"read_bytes": 7}, "out": {"read_bytes": 0, "written_files": 1, "written_bytes": 7}}
    assert attempt.told() == {"lost": [], "mounts": counts}


def test_how_much_was_read_is_told(attempt: AttemptMounts) -> None:
    (attempt.stored / "file").write_bytes(bytes(1_500_000))
    (attempt.stored / "other").write_bytes(bytes(500_000))
    data = attempt.read_only("mnist")
    attempt.start(data)
    assert len((data.mount_point / "file").read_bytes()) == 1_500_000
    attempt.close()
    attempt.ended()
    assert attempt.logs.read_text() == "mnist: 1.5 MB of 2.0 MB read\n"


def test_a_write_that_is_lost_is_reported(attempt: AttemptMounts) -> None:
    out = attempt.writable()
    attempt.start(out)
    file = os.open(out.mount_point / "model", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"weights")
    (attempt.stored / "model").mkdir()
    with pytest.raises(OSError, match="Invalid argument"):
        os.close(file)
    attempt.close()
    assert attempt.ended() == 1
    (sentence,) = attempt.told()["lost"]
    assert sentence.startswith("out: Writing 'model' failed")
    assert sentence.removeprefix("out: ") in attempt.logs.read_text()


def test_a_termination_signal_ends_it_as_well(attempt: AttemptMounts) -> None:
    out = attempt.writable()
    pid = attempt.start(out)
    (out.mount_point / "model").write_text("weights")
    os.kill(pid, signal.SIGTERM)
    assert attempt.ended() == 0
    assert attempt.told()["lost"] == []
    assert kernel.mounts_below(attempt.root) == []


def test_a_mount_whose_process_was_killed_fails_clearly_and_is_swept(attempt: AttemptMounts) -> None:
    (attempt.stored / "file").write_bytes(bytes(3_000_000))
    data, out = attempt.read_only(), attempt.writable()
    pid = attempt.start(data, out)
    opened = os.open(data.mount_point / "file", os.O_RDONLY)
    os.kill(pid, signal.SIGKILL)
    assert attempt.ended() == -signal.SIGKILL
    for attempted in (lambda: os.listdir(data.mount_point), lambda: os.read(opened, 10), lambda: os.close(opened)):
        with pytest.raises(OSError, match=os.strerror(errno.ENOTCONN)):
            attempted()
    assert not attempt.report.exists()
    assert kernel.mounts_below(attempt.root) == [data.mount_point, out.mount_point]
    assert kernel.sweep(attempt.root / "mounts") == []
    assert kernel.mounts_below(attempt.root) == []
    assert not (attempt.root / "mounts").exists()


def test_the_next_mount_removes_what_a_killed_one_had_staged(attempt: AttemptMounts) -> None:
    out = attempt.writable()
    pid = attempt.start(out)
    unfinished = os.open(out.mount_point / "unfinished", os.O_WRONLY | os.O_CREAT)
    os.write(unfinished, b"part")
    os.kill(pid, signal.SIGKILL)
    attempt.ended()
    with pytest.raises(OSError, match=os.strerror(errno.ENOTCONN)):
        os.close(unfinished)
    attempt.close()
    assert kernel.sweep(attempt.root / "mounts") == []
    assert len([path for path in (attempt.root / "cache" / "written").rglob("*") if path.is_file()]) == 1
    attempt.start(out)
    (out.mount_point / "file").write_text("x")
    attempt.close()
    attempt.ended()
    assert list((attempt.root / "cache" / "written").rglob("*")) == []


def test_a_file_that_is_open_when_the_mount_ends_fails_clearly(attempt: AttemptMounts) -> None:
    (attempt.stored / "file").write_bytes(bytes(3_000_000))
    data = attempt.read_only()
    attempt.start(data)
    opened = os.open(data.mount_point / "file", os.O_RDONLY)
    attempt.close()
    assert attempt.ended() == 0
    for attempted in (lambda: os.read(opened, 10), lambda: os.close(opened)):
        with pytest.raises(OSError, match=os.strerror(errno.ENOTCONN)):
            attempted()


def test_it_holds_no_descriptor_of_its_parent_and_its_own_session(attempt: AttemptMounts) -> None:
    with open(attempt.root / "private", "w") as ours:
        pid = attempt.start(attempt.writable())
        held = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
        assert ours.name not in held
        assert os.readlink(f"/proc/{pid}/fd/1") == str(attempt.logs)
    assert os.getsid(pid) == pid


@pytest.mark.parametrize("path", ["../up", "n" * 300])
def test_data_that_cannot_be_mounted_is_refused_with_nothing_left(path: str, attempt: AttemptMounts) -> None:
    bad = ReadOnlyMount(attempt.root / "mounts" / "bad", [SourceFile(path, "far", "x", 1)], "bad")
    with pytest.raises(DataFailed, match="cannot be mounted") as refused:
        attempt.start(attempt.writable(), bad)
    assert not isinstance(refused.value, MountUnavailable)
    assert kernel.mounts_below(attempt.root) == []


def test_a_place_where_nothing_can_be_mounted_is_told(attempt: AttemptMounts) -> None:
    (attempt.root / "mounts").write_text("a file where a folder must be")
    with pytest.raises(DataFailed, match="mounts"):
        attempt.start(attempt.writable())
    (attempt.root / "mounts").unlink()


@pytest.mark.needs("mount namespace")
def test_in_a_namespace_of_its_own_a_killed_mount_leaves_nothing(attempt: AttemptMounts) -> None:
    (attempt.stored / "file").write_text("content")
    data = attempt.read_only()

    def supervisor() -> None:
        assert kernel.unshare_mounts()
        pid = attempt.start(data)
        assert (data.mount_point / "file").read_text() == "content"
        os.kill(pid, signal.SIGKILL)
        attempt.ended()

    in_child(supervisor)
    assert kernel.mounts_below(attempt.root) == []
    assert list(data.mount_point.iterdir()) == []


@pytest.mark.parametrize(
    "has_namespace",
    [
        pytest.param(False, id="fusermount3", marks=pytest.mark.needs("fusermount3")),
        pytest.param(True, id="namespace", marks=pytest.mark.needs("user namespace")),
    ],
)
@pytest.mark.needs("root", "user devices")
def test_an_ordinary_user_can_mount(has_namespace: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.chown(root, NOBODY, NOBODY)

        def supervisor() -> None:
            assert kernel.unshare_mounts() if has_namespace else not kernel.may_mount()
            attempt = AttemptMounts(root)
            (attempt.stored / "file").write_text("content")
            data, out = attempt.read_only(), attempt.writable()
            attempt.start(data, out)
            assert (data.mount_point / "file").read_text() == "content"
            assert (data.mount_point / "file").stat().st_uid == NOBODY
            (out.mount_point / "made").write_text("x")
            attempt.close()
            assert attempt.ended() == 0
            assert (attempt.stored / "made").read_text() == "x"
            assert kernel.mounts_below(root) == []

        in_child(supervisor, user=NOBODY)
        assert kernel.mounts_below(root) == []


def test_a_mount_of_this_process_ends_with_its_pipe(tmp_path: Path) -> None:
    (tmp_path / "stored").mkdir()
    (tmp_path / "stored" / "file").write_text("content")
    (tmp_path / "mount").mkdir()
    mount = ReadOnlyMount(tmp_path / "mount", [SourceFile("file", "far", "file", 7)], "data")
    reading, writing = os.pipe()
    seen: list[str] = []
    lines: list[str] = []

    def ready() -> None:
        threading.Thread(target=use_and_end).start()

    def use_and_end() -> None:
        seen.append((mount.mount_point / "file").read_text())
        os.close(writing)

    access = {"far": StoreAccess("folder", str(tmp_path / "stored"))}
    report = serve_mount(
        mount, access, NetworkRules(), tmp_path / "cache", life=reading, ready=ready, log_line=lines.append
    )
    os.close(reading)
    assert (seen, report["lost"], lines) == (["content"], [], ["data: 0.0 MB of 0.0 MB read"])
    assert kernel.mounts_below(tmp_path) == []
    assert list((tmp_path / "mount").iterdir()) == []  # a folder that was there stays
