from collections.abc import Callable
from typing import Protocol

from runyard.errors import Json
from runyard.node.attempt import AttemptFolder
from runyard.node.containers.left import Mark, marks_in, remove_marked, state_of, stop_marked
from runyard.node.errand import Errand

_MOST_SECONDS = 60.0


class RunAside(Protocol):
    def __call__(self, work: Callable[[], Json], seconds: float) -> Errand:
        """Work in a child until it is over, at most that long; whatever the part is told meanwhile."""


class ContainerCare:
    """The containers of a part as its supervisor ends them, also those that one before it has started."""

    def __init__(self, folder: AttemptFolder, run_aside: RunAside) -> None:
        self._folder, self._run_aside = folder, run_aside
        self.warnings: list[str] = []
        self._known: set[str] = set()
        self._over: set[str] = set()

    def may_be_left(self) -> bool:
        return bool(self._marks())

    def begin(self, container: str) -> None:
        """This supervisor has one made, and will hear of its end."""
        self._known.add(container)

    def end(self, container: str) -> None:
        self._over.add(container)

    def are_over(self) -> bool:
        """No process is left in any, as far as they have told this supervisor; False where it did not start them."""
        return bool(self._known) and self._known == self._over

    def stop(self, grace_seconds: float) -> None:
        """For processes that this machine does not show to us: the engine passes the wish on."""
        marks = self._marks()
        self._ask(lambda: stop_marked(marks, grace_seconds), grace_seconds + _MOST_SECONDS)

    def remove(self) -> None:
        """Nothing of them is left, or a warning says why."""
        marks, home = self._marks(), self._folder.home
        if marks and (why := self._ask(lambda: remove_marked(home, marks), _MOST_SECONDS)):
            names = ", ".join(mark.container for mark in marks)
            self.warnings = [f"The run's container {names} could not be removed; a later start of Runyard will. {why}"]

    def last_words(self, container: str) -> Json:
        """What its engine knows of one that has ended: `oom`; or `error`, when the engine does not answer."""
        mark = next((mark for mark in self._marks() if mark.container == container), None)
        if mark is None:
            return {"oom": False}
        errand = self._run_aside(lambda: state_of(mark), _MOST_SECONDS)
        return errand.done if errand.done is not None else {"error": f"the engine at {mark.engine} does not answer"}

    def _marks(self) -> list[Mark]:
        return marks_in(self._folder.home, self._folder.part)

    def _ask(self, work: Callable[[], None], seconds: float) -> str:
        """Why it did not work; "" when it did."""

        def with_answer() -> Json:
            work()
            return {}

        errand = self._run_aside(with_answer, seconds)
        if errand.done is not None:
            return ""
        return errand.error["message"] if errand.error else f"Its engine did not answer for {seconds:.0f} s."
