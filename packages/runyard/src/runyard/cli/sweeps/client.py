from typing import Annotated, Any

import typer

from runyard.cli.connection import Service, quoted
from runyard.cli.exits import CommandError, Exit
from runyard_sdk.errors import NotFound

SweepArgument = Annotated[
    str, typer.Argument(metavar="SWEEP", help="The sweep's id, as `runyard sweeps list` shows it.")
]


class SweepClient:
    """One sweep of the service. Each method is one request, however many children there are."""

    def __init__(self, service: Service, sweep_id: str) -> None:
        self._service, self.id = service, sweep_id
        self._address = f"/runs/{quoted(sweep_id)}"

    def record(self) -> dict[str, Any]:
        """Record of the sweep's run. Raises CommandError where it does not exist or is no sweep."""
        try:
            run = self._service.get(self._address)
        except NotFound:
            hint = "`runyard sweeps list` shows the sweeps there are."
            raise CommandError(f"There is no sweep {self.id!r}.", hint=hint, exit_code=Exit.NOT_FOUND) from None
        return self._checked(run)

    def record_after(self, version: int, seconds: float) -> dict[str, Any]:
        """Long poll: the record, once its version is above this or after so many seconds."""
        found: dict[str, Any] = self._service.get(f"{self._address}/wait", version=version, timeout=seconds)
        return found

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = self._service.get(f"{self._address}/sweep")
        return found

    def view(self, top: int) -> dict[str, Any]:
        found: dict[str, Any] = self._service.get(f"{self._address}/sweep/view", top=top)
        return found

    def trials(self) -> list[dict[str, Any]]:
        """All trials as on the wire, the best first."""
        found: list[dict[str, Any]] = self._service.get(f"{self._address}/trials")["trials"]
        return found

    def _checked(self, run: dict[str, Any]) -> dict[str, Any]:
        if run.get("kind") == "sweep":
            return run
        parent = run.get("parent_id")
        instead = f"`runyard sweeps show {parent}` its parent" if parent else "`runyard sweeps list` all sweeps"
        hint = f"`runyard runs show {self.id}` shows it, {instead}."
        raise CommandError(f"Run {self.id} is no sweep.", hint=hint, exit_code=Exit.NOT_FOUND)
