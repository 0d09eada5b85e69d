"""A mirror of interpreters on disk, as uv downloads them, with one that a stand-in of a few lines is in."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

SYSCONFIG = "# system configuration generated and used by the sysconfig module\nbuild_time_vars = {}\n"
MINOR = "3.47"
VERSION = f"{MINOR}.1"
ANSWERS_TO_OUR_QUESTION = "#!/bin/sh\necho '[[3, 47, 1], \"cpython\", true, true]'\n"


def add_mirror(folder: Path, address: str = "") -> dict[str, str]:
    """Variables by which uv finds Python 3.47 there; it is fetched from `address` where one is given."""
    archive = folder / f"cpython-{VERSION}-install_only.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        for path, text in {
            f"python/bin/python{MINOR}": ANSWERS_TO_OUR_QUESTION,
            f"python/lib/python{MINOR}/os.py": "",
            f"python/lib/python{MINOR}/_sysconfigdata__linux_x86_64-linux-gnu.py": SYSCONFIG,
            f"python/include/python{MINOR}/Python.h": "",
        }.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    machine = platform.machine()
    (folder / "downloads.json").write_text(
        json.dumps(
            {
                f"cpython-{VERSION}-linux-{machine}-gnu": {
                    "name": "cpython",
                    "arch": {"family": machine, "variant": None},
                    "os": "linux",
                    "libc": "gnu",
                    "major": 3,
                    "minor": 47,
                    "patch": 1,
                    "prerelease": "",
                    "url": f"{address or folder.as_uri()}/{archive.name}",
                    "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                    "variant": None,
                    "build": "20260101",
                }
            }
        )
    )
    return {"UV_PYTHON_DOWNLOADS_JSON_URL": str(folder / "downloads.json")}
