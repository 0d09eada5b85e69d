import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from runyard.core.durable_files import replace_file
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.record_json import from_json, to_json
from runyard.core.records.web_services import ObservedService, ServiceSpec

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}")
_DELETED = ".gone-"
_STAGED = re.compile(r"r([0-9]+)")
_REVISION = re.compile(r"\.?r([0-9]+)(?:\.[^/]*)?")


class ServiceFolder:
    """Folder of one web service, `services/ID/` of the home.

    The service writes `spec.json`, the gateway writes `state.json`. Both are replaced atomically, so that a reader gets
    the old or the new file.
    """

    def __init__(self, home: Path, service_id: str) -> None:
        if not _SAFE.fullmatch(service_id):
            raise InvalidArgument(f"{service_id!r} is not the id of a web service.")
        self.home, self.id = home, service_id
        self.root = home / "services" / service_id
        self.log = self.root / "log"

    def exists(self) -> bool:
        """Whether it has a spec and is not marked as removed."""
        return (self.root / "spec.json").exists() and not self.is_removed()

    def is_removed(self) -> bool:
        return (self.root / "removed").exists()

    def revision(self, number: int) -> Path:
        return self.root / f"r{number}"

    def newest_revision(self) -> Path | None:
        """Folder of the highest revision whose files are staged."""
        numbers = [int(found[1]) for name in os.listdir(self.root) if (found := _STAGED.fullmatch(name))]
        return self.revision(max(numbers)) if numbers else None

    def spec(self) -> ServiceSpec:
        """Raises NotFound, or InvalidArgument for a file that is not a spec."""
        return from_json(ServiceSpec, self._read("spec.json"), "spec.json")

    def write_spec(self, spec: ServiceSpec) -> bool:
        """Write durably. Returns False and writes nothing when the spec on disk has a higher generation."""
        self._create()
        with self._locked():
            with contextlib.suppress(NotFound, InvalidArgument):
                if self.spec().generation > spec.generation:
                    return False
            replace_file(self.root / "spec.json", json.dumps(to_json(spec)).encode(), durable=True)
        return True

    def state(self) -> ObservedService | None:
        """Last state that the gateway wrote; None when there is none, or the file cannot be read."""
        try:
            return from_json(ObservedService, self._read("state.json"), "state.json")
        except (NotFound, InvalidArgument):
            return None

    def write_state(self, observed: ObservedService, *, durable: bool = False) -> None:
        """Raises OSError when the disk is full, or the folder has been deleted."""
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root} has gone")
        replace_file(self.root / "state.json", json.dumps(to_json(observed)).encode(), durable=durable)

    def mark_removed(self) -> None:
        """Does nothing when there is no such web service."""
        with contextlib.suppress(FileNotFoundError):
            (self.root / "removed").touch(mode=0o600)

    def delete(self) -> None:
        """Delete atomically for readers: rename first, then remove. Does nothing when it does not exist."""
        leaving = self.root.with_name(f"{_DELETED}{self.id}")
        shutil.rmtree(leaving, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.root.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)

    def delete_revisions_but(self, kept: set[int]) -> None:
        """Delete files of all other revisions, and what a killed gateway left half staged."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.root):
                found = _REVISION.fullmatch(name)
                if found and (name.startswith(".") or int(found[1]) not in kept):
                    shutil.rmtree(self.root / name, ignore_errors=True)

    def _create(self) -> None:
        self.root.parent.mkdir(mode=0o700, exist_ok=True)
        self.root.mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self, name: str) -> object:
        try:
            return json.loads((self.root / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"There is no web service {self.id!r}.") from None
        except ValueError as error:
            raise InvalidArgument(f"{self.root / name} is not JSON: {error}.") from None


def service_folders(home: Path) -> list[ServiceFolder]:
    """Every web service of this home that has a spec, including those marked as removed."""
    found = sorted(spec.parent.name for spec in (home / "services").glob("[!.]*/spec.json"))
    return [ServiceFolder(home, name) for name in found if _SAFE.fullmatch(name)]


def finish_deletions(home: Path) -> None:
    """Remove what interrupted deletions have left."""
    for leaving in (home / "services").glob(f"{_DELETED}*"):
        shutil.rmtree(leaving, ignore_errors=True)
