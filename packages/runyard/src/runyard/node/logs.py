from pathlib import Path

from runyard.errors import Conflict, NotFound
from runyard.model.runs import RunId
from runyard.node.growing_file import GrowingFile
from runyard.node.service_client import ServiceClient, quoted

PIECE_BYTES = 4 << 20


class LogShipping:
    """Sends the growing files of a run to its history, piece by piece.

    A file that turns out not to only grow is handed to `rewritten` and left alone from then on.
    """

    def __init__(self, run_id: RunId) -> None:
        self._address = f"/runs/{quoted(run_id)}/logs"
        self._files: dict[str, GrowingFile] = {}
        self._changed: dict[str, None] = {}
        self.rewritten: list[str] = []

    def changed(self, name: str, path: Path) -> None:
        """The file at `path`, which is `name` in run history, may hold more."""
        known = self._files.get(name)
        if known is None:
            known = self._files[name] = GrowingFile(path)
        if not known.was_rewritten:
            self._changed[name] = None

    def is_artifact(self, name: str) -> bool:
        known = self._files.get(name)
        return known is not None and known.was_rewritten

    @property
    def pending(self) -> bool:
        return bool(self._changed)

    def resume(self, client: ServiceClient) -> None:
        """Learn what an earlier supervisor has delivered."""
        self._delivered = {name: int(size) for name, size in client.ask("GET", self._address).items()}
        for name, file in self._files.items():
            file.offset = self._delivered.get(name, 0)

    def ship(self, client: ServiceClient) -> None:
        """One piece of every changed file. Raises ServiceAway; what was not acknowledged is sent again."""
        for name in list(self._changed):
            file = self._files[name]
            piece = file.read(PIECE_BYTES)
            if file.was_rewritten:
                self.rewritten.append(name)
            elif piece:
                self._send(client, name, file, piece)
            if not file.has_more():
                self._changed.pop(name, None)

    def _send(self, client: ServiceClient, name: str, file: GrowingFile, piece: bytes) -> None:
        try:
            client.call("POST", f"{self._address}/{quoted(name)}?offset={file.offset}", piece)
        except Conflict:
            self.resume(client)
            return
        except NotFound:
            pass  # The run was deleted: nobody will read it.
        file.advance(piece)
