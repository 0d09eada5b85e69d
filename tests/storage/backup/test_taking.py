import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotFound, RunyardError, StorageFull
from runyard.core.records.runs import RunId
from runyard.storage.backup.folder import BackupFolder
from runyard.storage.backup.restore import RESTORING, restore_backup
from runyard.storage.backup.snapshot import BackupSource, take_backup
from runyard.storage.blobs.store import FileBlobStore
from runyard.testing.records import a_run, scalars
from runyard.testing.small_disk import mounted
from tests.storage.backup.homes import quiet, restored, take

KILLED = """
import os, signal, sys
from pathlib import Path
from runyard.storage.backup.folder import BackupFolder
from runyard.storage.backup.snapshot import BackupSource, take_backup

def report(what, done, total):
    if what == sys.argv[3] and done == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

take_backup(BackupSource(Path(sys.argv[1]), ""), BackupFolder(Path(sys.argv[2])), report)
"""

CUT_WHILE_MOVING = """
import os, signal, sys
from pathlib import Path
from runyard.storage.backup.folder import BackupFolder
from runyard.storage.backup.restore import restore_backup

def cut_second(event, arguments):
    if event == "os.rename" and Path(arguments[0]).name == "runyard.db":
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(cut_second)
folder, home = BackupFolder(Path(sys.argv[1])), Path(sys.argv[2])
restore_backup(folder, home, "", lambda *_: None, name=None, replace=True)
"""


@pytest.fixture
def home(stores_home):
    return stores_home


def test_only_new_blobs_and_files_are_copied_and_older_backups_can_be_restored(home, folder, tmp_path):
    home.add_run("r1")
    first = take(home, folder)
    assert (first.blobs, first.new_blobs, first.new_files) == (3, 3, 3)
    home.add_run("r2")
    second = take(home, folder)
    assert (second.blobs, second.new_blobs, second.new_files) == (6, 3, 1)
    old = restored(folder, tmp_path / "old", name=first.name)
    assert [run.id for run in old.stores.runs.unfinished()] == ["r1"]
    new = restored(folder, tmp_path / "new")
    assert new.texts("r1") + new.texts("r2") == home.texts("r1") + home.texts("r2")
    assert new.logs.read("r2", "logs/out.txt") == b"a line\n"
    assert (tmp_path / "new" / "secrets.key").read_text() == "the key"
    old.stores.close()
    new.stores.close()


def test_the_folder_is_for_its_owner_alone(home, folder):
    take(home, folder)
    assert folder.root.stat().st_mode & 0o777 == 0o700
    assert folder.path(folder.names()[0]).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("what", "done"), [("database", 0), ("blobs", 0), ("blobs", 3), ("files", 0)])
def test_a_killed_backup_leaves_the_former_one_and_the_next_is_whole(home, folder, tmp_path, what, done):
    home.add_run("r1")
    former = take(home, folder)
    home.add_run("r2", files=0)
    command = [sys.executable, "-c", KILLED, str(home.path), str(folder.root), what, str(done)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert folder.names() == [former.name]
    back = restored(folder, tmp_path / "back")
    assert back.texts("r1") == home.texts("r1")
    back.stores.close()
    take(home, folder)
    assert len(folder.names()) == 2
    assert [p.name for p in (folder.root / "snapshots").iterdir() if p.name.startswith(".")] == []


def test_what_is_collected_during_a_backup_is_in_it_all_the_same(home, folder, tmp_path):
    home.add_run("r1")
    refused = []

    def collect(what: str, done: int, total: int) -> None:
        if what == "blobs" and done == 0:
            with home.stores.database.write() as connection:
                connection.exec_driver_sql("DELETE FROM runs")
            try:
                home.blobs.delete_unused(set(), 0)
            except Conflict as error:
                refused.append(error.problem)

    taken = take(home, folder, report=collect)
    assert refused == ["A backup is being made, so no blob is deleted now."]
    assert taken.new_blobs == 3
    back = restored(folder, tmp_path / "back")
    assert len(back.texts("r1")) == 3
    back.stores.close()


def test_a_backup_under_writes_is_of_one_moment(home, folder, tmp_path):
    """Every run of the copy has the metric that was stored after it, but for the very last."""
    written, stop, begun = 0, threading.Event(), threading.Event()

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            run = home.stores.runs.create(a_run(f"w{written}"))
            home.stores.metrics.append(run.id, "j", 0, 1, [scalars("loss", float(written))])
            written += 1
            if written == 5:
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        take(home, folder)
        take(home, folder)
    finally:
        stop.set()
        writer.join()
    back = restored(folder, tmp_path / "back")
    ids = [run.id for run in back.stores.runs.unfinished()]
    assert ids == [f"w{n}" for n in range(len(ids))]
    series = back.stores.metrics.series_of(ids)
    assert [list(series[run_id][0].values) for run_id in ids[:-1]] == [[float(n)] for n in range(len(ids) - 1)]
    back.stores.close()


def test_a_file_that_is_missing_or_altered_is_named_and_the_rest_is_kept(home, folder):
    home.add_run("r1")
    gone, altered, _ = home.stores.files.list(RunId("r1"))
    home.blobs.local_path(gone.sha256).unlink()
    path = home.blobs.local_path(altered.sha256)
    path.chmod(0o644)
    path.write_bytes(b"other")
    taken = take(home, folder)
    assert taken.blobs == 1
    assert "2 files are missing or damaged" in taken.notes[0]
    assert "'outputs/0' of run r1" in taken.notes[0]


def test_only_the_newest_are_kept_when_asked(home, folder, tmp_path):
    home.add_run("r1")
    take(home, folder)
    for run in home.stores.runs.unfinished():
        with home.stores.database.write() as connection:
            connection.exec_driver_sql(f"DELETE FROM runs WHERE id = '{run.id}'")
    home.add_run("r2")
    assert take(home, folder, keep=1).removed_snapshots == 1
    assert len(folder.names()) == 1
    kept = restored(folder, tmp_path / "back")
    assert kept.texts("r2") == home.texts("r2")
    assert len(list((folder.root / "blobs").glob("??/*"))) <= 6
    kept.stores.close()


def test_a_place_that_cannot_be_right_is_refused(home, folder, tmp_path):
    with pytest.raises(InvalidArgument, match="lie within one another"):
        take(home, BackupFolder(home.path / "backups"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InvalidArgument, match="holds no backups"):
        take(home, BackupFolder(tmp_path / "mine"))
    with pytest.raises(NotFound, match="has no database"):
        take_backup(BackupSource(tmp_path / "mine", ""), folder, quiet)
    with pytest.raises(NotFound, match="no folder of backups"):
        restored(BackupFolder(tmp_path / "mine"), tmp_path / "new")
    take(home, folder)
    with folder.locked(), pytest.raises(Conflict, match="Another backup"):
        take(home, folder)
    with pytest.raises(NotFound, match="no backup 'x'"):
        restored(folder, tmp_path / "new", name="x")


def test_a_damaged_database_is_not_taken_for_a_good_one(home, folder):
    home.add_run("r1")
    good = take(home, folder)
    home.stores.close()
    with open(home.path / "runyard.db", "r+b") as file:
        for page in range(4, 30):
            file.seek(page * 4096)
            file.write(os.urandom(4096))
    with pytest.raises(RunyardError, match="runyard check"):
        take(home, folder)
    assert folder.names() == [good.name]


def test_a_home_that_holds_something_is_not_overwritten(home, folder, tmp_path):
    home.add_run("r1")
    take(home, folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "runyard.db").write_bytes(b"mine")
    with pytest.raises(Conflict, match="is not empty: it has runyard"):
        restored(folder, other)
    back = restored(folder, other, replace=True)
    [aside] = other.glob("replaced-*")
    assert (aside / "runyard.db").read_bytes() == b"mine"
    assert back.texts("r1") == home.texts("r1")
    back.stores.close()


def test_what_a_start_on_a_full_disk_left_is_no_home(home, folder, tmp_path):
    home.add_run("r1")
    take(home, folder)
    other = tmp_path / "other"
    (other / "process-logs").mkdir(parents=True)
    (other / "process-logs" / "service.jsonl").write_bytes(b"")
    (other / ".start-error.json.17").write_bytes(b"")
    back = restored(folder, other)
    assert back.texts("r1") == home.texts("r1")
    back.stores.close()


def test_what_is_sound_in_a_damaged_backup_is_restored_when_asked(home, folder, tmp_path):
    home.add_run("r1")
    take(home, folder)
    gone, altered, sound = home.stores.files.list(RunId("r1"))
    folder.blobs.local_path(gone.sha256).unlink()
    path = folder.blobs.local_path(altered.sha256)
    path.chmod(0o644)
    path.write_bytes(b"other")
    (tmp_path / "new").mkdir()
    told = restore_backup(folder, tmp_path / "new", "", quiet, name=None, replace=False, leave_out_damaged=True)
    assert sorted(told.notes) == sorted(
        f"The blob {entry.sha256} is {how} in backup {told.name!r}, and was left out."
        for entry, how in ((gone, "missing"), (altered, "altered"))
    )
    back = FileBlobStore(tmp_path / "new" / "blobs")
    assert back.missing([gone.sha256, altered.sha256, sound.sha256]) == [gone.sha256, altered.sha256]
    assert not (tmp_path / "new" / RESTORING).exists()


def test_a_damaged_backup_is_refused_and_a_cut_restore_can_be_repeated(home, folder, tmp_path):
    home.add_run("r1")
    take(home, folder)
    entry = home.stores.files.list(RunId("r1"))[0]
    path = folder.blobs.local_path(entry.sha256)
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(b"other")
    with pytest.raises(RunyardError, match=f"{entry.sha256} is altered in backup"):
        restored(folder, tmp_path / "new")
    assert (tmp_path / "new" / RESTORING).exists()
    path.write_bytes(content)
    back = restored(folder, tmp_path / "new")
    assert back.texts("r1") == home.texts("r1")
    assert not (tmp_path / "new" / RESTORING).exists()
    back.stores.close()
    listed = folder.path(folder.names()[0]) / "files.jsonl"
    listed.write_text(json.dumps(["../../outside", entry.sha256, 1, 0o644, 0]) + "\n")
    with pytest.raises(RunyardError, match=r"files.jsonl of backup .* is damaged"):
        restored(folder, tmp_path / "third")
    shutil.rmtree(tmp_path / "third")


def test_a_first_backup_that_was_cut_leaves_a_folder_that_can_be_used(home, folder):
    """What a full disk or a kill leaves before the folder is marked."""
    folder.root.mkdir()
    (folder.root / "runyard-backup.json.new").touch()
    (folder.root / "lock").touch()
    assert take(home, folder).name in folder.names()


@pytest.mark.parametrize("part", ["files.jsonl", "manifest.json"])
def test_a_damaged_backup_does_not_keep_later_ones_from_being_made(home, folder, tmp_path, part):
    home.add_run("r1")
    damaged = take(home, folder).name
    (folder.path(damaged) / part).write_text("[")
    later = take(home, folder, keep=2)
    assert f"The former backup {damaged!r} is damaged." in later.notes[0]
    assert take(home, folder, keep=2).removed_snapshots == 1
    back = restored(folder, tmp_path / "back", name=later.name)
    assert back.texts("r1") == home.texts("r1")
    back.stores.close()


def test_a_blob_cut_short_in_the_backup_is_copied_again_unless_the_home_has_the_bad_one(home, folder, tmp_path):
    home.add_run("r1")
    take(home, folder)
    in_backup, in_home, _ = home.stores.files.list(RunId("r1"))
    os.truncate(folder.blobs.local_path(in_backup.sha256), 1)
    expected = home.texts("r1")
    os.truncate(home.blobs.local_path(in_home.sha256), 1)
    assert take(home, folder).new_blobs == 1
    back = restored(folder, tmp_path / "back")
    assert back.texts("r1") == expected
    back.stores.close()


def test_a_restored_home_is_free_of_the_service_that_was_backed_up(home, folder, tmp_path):
    home.add_run("r1")
    with home.stores.database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET launched_from = 'here:/old'")
        connection.exec_driver_sql("INSERT INTO service_lease (key, epoch, holder) VALUES (1, 7, '{\"pid\": 1}')")
    take(home, folder)
    back = restored(folder, tmp_path / "back")
    with back.stores.database.read() as connection:
        lease = connection.exec_driver_sql("SELECT epoch, holder FROM service_lease").all()
        launched = connection.exec_driver_sql("SELECT launched_from FROM runs").scalars().all()
    assert [tuple(row) for row in lease] in ([(7, None)], [(7, "null")])
    assert launched == [None]
    back.stores.close()


def _files_of_home(home):
    found = (path for part in ("logs", "datastores", "blobs") for path in (home / part).rglob("*") if path.is_file())
    return sorted(str(path.relative_to(home)) for path in found if path.parent.name != "blobs")


def test_another_backup_restored_after_a_cut_restore_leaves_nothing_of_that_one(home, folder, tmp_path):
    home.add_run("r1")
    first = take(home, folder)
    home.add_run("r2")
    (home.path / "datastores").mkdir()
    (home.path / "datastores" / "late.txt").write_text("late")
    take(home, folder)
    late = folder.blobs.local_path(hashlib.sha256(b"late").hexdigest())
    late.chmod(0o644)
    late.write_bytes(b"other")
    with pytest.raises(RunyardError, match=r"datastores/late.txt is altered"):
        restored(folder, tmp_path / "new")
    for place in ("new", "fresh"):
        restored(folder, tmp_path / place, name=first.name).stores.close()
    new, fresh = (_files_of_home(tmp_path / place) for place in ("new", "fresh"))
    assert new == fresh


def test_a_restore_cut_while_it_moved_the_old_home_aside_moves_the_rest_too(home, folder, tmp_path):
    home.add_run("r1")
    take(home, folder)
    other = tmp_path / "other"
    (other / "blobs").mkdir(parents=True)
    (other / "runyard.db").write_bytes(b"mine")
    with subprocess.Popen([sys.executable, "-c", CUT_WHILE_MOVING, str(folder.root), str(other)]) as cut:
        assert cut.wait() == -signal.SIGKILL
    assert (other / RESTORING).exists()
    assert (other / "runyard.db").read_bytes() == b"mine"
    back = restored(folder, other)
    assert back.texts("r1") == home.texts("r1")
    [aside] = other.glob("replaced-*/runyard.db")
    assert aside.read_bytes() == b"mine"
    back.stores.close()


def test_no_backup_is_made_of_a_home_whose_restore_was_cut(home, folder):
    (home.path / RESTORING).write_text("x")
    with pytest.raises(Conflict, match="its restore was cut"):
        take(home, folder)
    (home.path / RESTORING).unlink()


def test_a_full_disk_of_the_backups_is_named_and_leaves_the_former_ones(home, tmp_path):
    home.add_run("r1")
    with mounted(tmp_path / "small", 4) as place:
        small = BackupFolder(place / "backups")
        first = take(home, small)
        (home.path / "datastores").mkdir()
        (home.path / "datastores" / "big").write_bytes(os.urandom(8 << 20))
        with pytest.raises(StorageFull, match=r"disk of the backups in .* is full.*former backups are as they were"):
            take(home, small)
        assert small.names() == [first.name]
        back = restored(small, tmp_path / "back")
        assert back.texts("r1") == home.texts("r1")
        back.stores.close()


@pytest.mark.parametrize("name", ["x" * 255, "数" * 85], ids=["ascii", "more bytes than characters"])
def test_a_file_with_a_name_as_long_as_names_can_be_comes_back(home, folder, tmp_path, name):
    place = home.path / "datastores" / "vision" / "workspaceblobstore"
    place.mkdir(parents=True)
    (place / name).write_bytes(b"data")
    take(home, folder)
    back = restored(folder, tmp_path / "back")
    there = back.path / place.relative_to(home.path)
    assert [(file.name, file.read_bytes()) for file in there.iterdir()] == [(name, b"data")]
    back.stores.close()
