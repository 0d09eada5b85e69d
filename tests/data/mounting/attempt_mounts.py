import json
import os
from pathlib import Path
from typing import Any

from runyard.core.records.data import NetworkRules, SourceFile, StoreAccess
from runyard.data.fuse import ReadOnlyMount, WritableMount, start_mounts


class AttemptMounts:
    """What a supervisor has of the mount process of an attempt, on a folder store unless told another."""

    def __init__(self, root: Path, access: StoreAccess | None = None) -> None:
        self.root = root
        self.stored, self.report, self.logs = root / "stored", root / "report.json", root / "log.txt"
        self.stored.mkdir()
        self._access = access or StoreAccess("folder", str(self.stored))
        self.said: list[str] = []
        self.pid = 0
        self._life = -1
        self._status: int | None = None

    def start(self, *mounts: ReadOnlyMount | WritableMount) -> int:
        reading, self._life = os.pipe()
        self._status = None
        try:
            self.pid = start_mounts(
                mounts,
                {"far": self._access},
                NetworkRules(),
                self.root / "cache",
                life=reading,
                log_line=self.said.append,
                logs=self.logs,
                report=self.report,
            )
        finally:
            os.close(reading)
        return self.pid

    def read_only(self, name: str = "data") -> ReadOnlyMount:
        """Everything that is stored now."""
        paths = [path for path in self.stored.rglob("*") if path.is_file()]
        files = [
            SourceFile(
                str(path.relative_to(self.stored)), "far", str(path.relative_to(self.stored)), path.stat().st_size
            )
            for path in paths
        ]
        return ReadOnlyMount(self.root / "mounts" / name, files, name)

    def writable(self, name: str = "out", prefix: str = "") -> WritableMount:
        return WritableMount(self.root / "mounts" / name, "far", prefix, name)

    def close(self) -> None:
        """What the end of the supervisor does."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def ended(self) -> int:
        """Wait for the process; its exit status, or minus the signal that ended it."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.report.read_text(encoding="utf-8"))
        return told
