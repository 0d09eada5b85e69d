from runyard.client import ServiceClient, quoted
from runyard.errors import AttemptOver, Conflict, NotFound, RunyardError
from runyard.model.runs import RunId
from runyard.node.event_loop import now
from runyard.node.growing_file import GrowingFile, GrowingFiles

PIECE_BYTES = 4 << 20
_ROUND_SECONDS = 0.2


class LogShipping:
    """Sends the growing logs of a run to the service, piece by piece. `files` have the names that the run's logs have.

    A file that was rewritten is named once in `rewritten`, one that the service refuses in `refused`; neither is read
    again.
    """

    def __init__(self, run_id: RunId) -> None:
        self._address = f"/runs/{quoted(run_id)}/logs"
        self.files = GrowingFiles()
        self.rewritten: list[str] = []
        self.refused: dict[str, str] = {}

    def resume(self, client: ServiceClient) -> None:
        """Ask the service for the offsets of the logs. Raises ServiceAway."""
        delivered = client.get(self._address)
        for name, file in self.files.all():
            file.resume(int(delivered.get(name, 0)))

    def ship(self, client: ServiceClient) -> None:
        """Send a piece of every changed file, or of as many as a short time allows; the others are first the next time.
        Raises ServiceAway; what was not acknowledged is sent again."""
        until = now() + _ROUND_SECONDS
        for name, file in self.files.unsettled():
            if now() > until:
                return
            piece = b"" if name in self.refused else file.read(PIECE_BYTES)
            if piece:
                self._send(client, name, file, piece)
            if file.was_rewritten:
                self.rewritten.append(name)
            self.files.settled(name)
            if piece and file.has_more():
                self.files.changed(name, file.path)

    def _send(self, client: ServiceClient, name: str, file: GrowingFile, piece: bytes) -> None:
        try:
            client.post_bytes(f"{self._address}/{quoted(name)}?offset={file.offset}", piece)
        except AttemptOver:
            raise
        except Conflict:
            self.resume(client)
            return
        except NotFound:
            pass  # The run was deleted.
        except RunyardError as e:
            self.refused[name] = str(e)
        file.advance(piece)
