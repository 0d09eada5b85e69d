import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runyard.core.errors import InvalidArgument, NotFound, RunyardError
from runyard.core.plugins import Plugins, load_plugins
from runyard.core.ports.stores import RunStore
from runyard.core.records.runs import RunId, RunRecord
from runyard.runs.history.journals import Delivered
from runyard.runs.kinds.kind import KindTools, RunKind

if TYPE_CHECKING:
    from runyard.runs.submit import Submission

GROUP = "runyard.run_kinds"
_PLAIN_TYPE = "azureml.scriptrun"
"""Type of plain runs on the wire. No kind has it as its own: they are scripts, or interactive."""
log = logging.getLogger(__name__)


def load_kinds(tools: KindTools) -> "RunKinds":
    """Load the kinds of all installed packages, including ours. One that fails to load is logged and left out."""
    plugins = load_plugins(GROUP)
    made = {name: kind for name, make in list(plugins.found.items()) if (kind := _made(name, make, tools, plugins))}
    return RunKinds(tools.runs, _with_own_types(made, plugins))


class RunKinds:
    """Finds the kind of a run, and calls the kinds for events of runs. Thread-safe."""

    def __init__(self, runs: RunStore, kinds: Iterable[RunKind]) -> None:
        self._runs = runs
        self._by_name: Mapping[str, RunKind] = {kind.name: kind for kind in kinds}
        self._by_type: Mapping[str, RunKind] = {kind.type: kind for kind in self._by_name.values() if kind.type}
        try:
            self._script, self._interactive = self._by_name["script"], self._by_name["interactive"]
        except KeyError as missing:
            raise RunyardError(
                f"The run kind {missing} is not among the entry points of the installed package runyard.",
                hint="Install it again; in a checkout: make .venv/.dev.",
            ) from None
        self._checking_any = _overriding(self._by_name.values(), "check_any")
        self._on_child_logged = _overriding(self._by_name.values(), "child_logged")
        self._on_child_ended = _overriding(self._by_name.values(), "child_ended")

    def of(self, run: RunRecord) -> RunKind:
        return self.of_type(run.type, is_interactive=run.is_interactive)

    def of_type(self, type_: str, *, is_interactive: bool) -> RunKind:
        """Kind of runs with that type. A type that no kind has belongs to a script or an interactive run."""
        return self._by_type.get(type_) or (self._interactive if is_interactive else self._script)

    def type_of(self, name: str) -> str:
        """Type of the runs of that kind. Raises InvalidArgument for a kind without a type of its own."""
        kind = self._by_name.get(name)
        if kind is None or not kind.type:
            known = ", ".join(sorted(repr(one.name) for one in self._by_type.values()))
            raise InvalidArgument(
                f"kind must be one of {known}, got {name[:80]!r}.", hint="Runs of other kinds are found by type=."
            )
        return kind.type

    def of_parent(self, run: RunRecord) -> tuple[RunRecord, RunKind] | None:
        """Parent of a run and its kind; None if there is no parent, or it is gone."""
        try:
            parent = self._runs.get(run.parent_id) if run.parent_id else None
        except NotFound:
            return None
        return None if parent is None else (parent, self.of(parent))

    def check_any(self, submission: "Submission") -> None:
        """Let all kinds check a submission. Raises their RunyardError; other exceptions are logged and ignored."""
        for kind in self._checking_any:
            try:
                kind.check_any(submission)
            except RunyardError:
                raise
            except Exception:  # a faulty plug-in must not prevent all submissions
                log.exception("Run kind %s failed to check a submission.", kind.name, extra={"run": submission.run_id})

    def let_start(self, parent_id: RunId) -> bool:
        """Whether the run lets its children start; True if it is gone."""
        try:
            parent = self._runs.get(parent_id)
        except NotFound:
            return True
        return self.of(parent).lets_children_start(parent)

    def reconcile(self, unfinished: Sequence[RunRecord]) -> bool:
        """Call `reconcile` of each kind; return whether runs were changed."""
        own: defaultdict[str, list[RunRecord]] = defaultdict(list)
        for run in unfinished:
            own[self.of(run).name].append(run)
        changed = [_reconciled(kind, own[kind.name], unfinished) for kind in self._by_name.values()]
        return any(changed)

    def child_logged(self, run: RunRecord, delivered: Delivered) -> None:
        """Pass on what a run has logged. Never raises: it is stored already."""
        if run.parent_id is None:
            return
        for kind in self._on_child_logged:
            try:
                kind.child_logged(run, delivered)
            except Exception:  # must not fail the run that logged
                log.exception("Run kind %s failed on what a child logged.", kind.name, extra={"run": run.id})

    def child_ended(self, run: RunRecord) -> None:
        """Pass on that a run has ended. Never raises."""
        if run.parent_id is None:
            return
        for kind in self._on_child_ended:
            try:
                kind.child_ended(run)
            except Exception:  # the next `reconcile` finds what it missed
                log.exception("Run kind %s failed on the end of a child.", kind.name, extra={"run": run.id})


def _made(name: str, make: Any, tools: KindTools, plugins: Plugins) -> RunKind | None:
    try:
        kind = make(tools)
        if not isinstance(kind, RunKind) or kind.name != name:
            raise TypeError(f"it must make a RunKind whose name is {name!r}, not {kind!r:.80}")
        if not isinstance(kind.type, str):
            raise TypeError(f"its type must be a text, not {kind.type!r:.80}")
    except (Exception, SystemExit) as error:  # the constructor of a plug-in may do anything
        plugins.leave_out(name, f"{type(error).__name__}: {error}")
        return None
    return kind


def _with_own_types(kinds: Mapping[str, RunKind], plugins: Plugins) -> Sequence[RunKind]:
    """Leave out kinds whose type an earlier kind has, or that want the plain runs."""
    taken: dict[str, RunKind] = {}
    for name, kind in kinds.items():
        if kind.type == _PLAIN_TYPE:
            plugins.leave_out(name, f"its type {kind.type!r} is that of plain runs")
            continue
        first = taken.setdefault(kind.type or f"kind {name}", kind)
        if first is not kind:
            plugins.leave_out(name, f"its type {kind.type!r} is that of {first.name!r}")
    return list(taken.values())


def _overriding(kinds: Iterable[RunKind], method: str) -> Sequence[RunKind]:
    """Kinds that override the method; the others need not be called."""
    return [kind for kind in kinds if getattr(type(kind), method) is not getattr(RunKind, method)]


def _reconciled(kind: RunKind, own: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> bool:
    try:
        return kind.reconcile(own, unfinished)
    except Exception:  # must not stop the other kinds
        log.exception("Run kind %s failed to look after its runs; the next pass tries again.", kind.name)
        return False
