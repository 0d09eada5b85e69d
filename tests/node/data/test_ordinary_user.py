"""Data for an ordinary user: mounts of his own by a user namespace."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.data_json import data_to_json
from tests.node.data.conftest import a_datastore, on_folder, one_file, whole_folder

NOBODY = 65534
BRINGS = """
import ctypes, json, os, sys
from pathlib import Path
from runyard.data.fuse import kernel
from runyard.node.task_folder import TaskFolder
from runyard.node.data.staging import stage_all
from runyard.node.data.mount_points import MountPoints
from runyard.node.data.staging_context import StagingContext
from runyard.core.data_json import data_from_json
from tests.node.data.conftest import dataset

os.setgroups([]), os.setgid(65534), os.setuid(65534)
PR_SET_DUMPABLE = 4  # a process that changed its user may not write about itself in /proc, unlike one that logged in
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
folder = TaskFolder(Path(sys.argv[1]), "run1.1")
folder.make_room()
mounts = MountPoints(folder, are_private=kernel.unshare_mounts())
items = [dataset("whole", path_on_compute=sys.argv[2]), dataset("one")]
paths = stage_all(items, data_from_json(json.load(sys.stdin)), StagingContext(folder, mounts, -1, print, print)).paths
told = {"user": os.getuid(), "private": mounts.are_private, "paths": paths, "refused": []}
for path in (paths["whole"] + "/train/a.gz", paths["one"]):
    try:
        open(path, "w")
    except OSError as error:
        told["refused"].append(error.strerror)
told["read"] = open(paths["one"]).read() + open(paths["whole"] + "/test/b.gz").read()
print(json.dumps(told))
"""


@pytest.fixture
def his_folder() -> Iterator[Path]:
    """Those of pytest are open to one user alone."""
    if os.geteuid() != 0:
        pytest.fail("Only root can become another user for this test.")
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.needs("root", "user namespace")
def test_an_ordinary_user_gets_mounts_of_his_own(his_folder: Path) -> None:
    home, elsewhere, datastore = his_folder / "home", his_folder / "elsewhere", a_datastore(his_folder / "store")
    home.mkdir()
    elsewhere.mkdir()
    for path in (his_folder, *his_folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    data = on_folder(datastore, whole=whole_folder(datastore, "mnist"), one=one_file(datastore, "mnist/train/a.gz"))
    ran = subprocess.run(
        [sys.executable, "-c", BRINGS, str(home), str(elsewhere)],
        input=json.dumps(data_to_json(data)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told == {
        "user": NOBODY,
        "private": True,
        "paths": {"whole": str(elsewhere), "one": str(home / "mounts/run1.1/one/a.gz")},
        "refused": ["Read-only file system"] * 2,
        "read": "firstsecond",
    }
    assert list(elsewhere.iterdir()) == []
