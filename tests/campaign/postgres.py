import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.faults.yard import eventually
from tests.storage.conformance import postgres_server as server


class Postgres:
    """A private PostgreSQL that may be killed and started again on the same data and port."""

    def __enter__(self) -> "Postgres":
        self._programs = server._programs()
        self._home = Path(tempfile.mkdtemp(prefix="runyard-postgres-"))
        self._data, self._port = self._home / "data", server._free_port()
        self._as_user = server._as_ordinary_user(self._home)
        self.address = f"postgresql+psycopg://runyard@127.0.0.1:{self._port}/postgres"
        self._run("initdb", "-D", self._data, "-U", "runyard", "--auth=trust", "-N", "-E", "UTF8")
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")
        subprocess.run(["rm", "-rf", str(self._home)], check=True)

    @property
    def pid(self) -> int:
        with suppress(OSError, ValueError, IndexError):
            return int((self._data / "postmaster.pid").read_text().split()[0])
        return 0

    def start(self) -> None:
        """Backends of a killed server hold its memory for a moment; it starts once they are gone."""
        eventually(self._started, "PostgreSQL", 60)

    def _started(self) -> bool:
        options = f"-c listen_addresses=127.0.0.1 -p {self._port} -k {self._home}"
        with suppress(AssertionError):
            self._run("pg_ctl", "-D", self._data, "-l", self._home / "log", "-w", "-o", options, "start")
            return True
        return False

    def _run(self, program: str, *words: object) -> None:
        os.makedirs(self._home, exist_ok=True)
        server._run([*self._as_user, self._programs / program, *map(str, words)], self._home)
