"""What must be true after a block, beyond that it ran and its runs were completed."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("expectations.toml")


class Unmet(Exception):
    """A block ran, and something that its page promises is not so."""


@dataclass(frozen=True)
class Expectation:
    metric: str | None = None
    at_least: float | None = None  # the last value of the metric
    count: int | None = None  # how many values the metric has
    different: int | None = None  # how many of its values differ from one another
    files: tuple[str, ...] = ()  # that exist in the page's folder
    logs: tuple[str, ...] = ()  # of each run, with something in them
    service: str | None = None  # web service that tells so many of MNIST's test images right

    def check(self, runs: Sequence[Any], folder: Path) -> None:
        """Raise Unmet unless it holds for the runs that the block submitted and the page's folder."""
        for name in self.files:
            if not (folder / name).is_file():
                raise Unmet(f"The block should have left the file {name}.")
        if self.service is not None:
            self._check_service(self.service)
        if not runs and (self.metric is not None or self.logs):
            raise Unmet(f"The block submitted no run that could have left {self.metric or self.logs!r}.")
        for run in runs:
            self._check_logs(run)
            if self.metric is not None:
                self._check_metric(run.id, run.get_metrics().get(self.metric))

    def _check_service(self, name: str) -> None:
        from seeds.answers import deployed, share_told_right

        with deployed(name) as scoring_uri:
            share = share_told_right(scoring_uri)
        print(f"The web service {name} tells {share:.4f} of the test images right.")
        if self.at_least is not None and share < self.at_least:
            raise Unmet(f"The web service {name} tells {share:.4f} of the test images right, not {self.at_least}.")

    def _check_logs(self, run: Any) -> None:
        texts = run.get_details_with_logs()["logFiles"] if self.logs else {}
        for name in self.logs:
            if not texts.get(name):
                raise Unmet(f"Run {run.id} has no text in {name}; its logs are {', '.join(sorted(texts))}.")

    def _check_metric(self, run_id: str, value: Any) -> None:
        values = value if isinstance(value, list) else [] if value is None else [value]
        if self.count is not None and len(values) != self.count:
            raise Unmet(f"Run {run_id} logged {self.metric!r} {len(values)} times, not {self.count}.")
        if self.different is not None and len(set(values)) != self.different:
            raise Unmet(f"Run {run_id} logged {self.metric!r} {value}: not {self.different} different values.")
        if self.at_least is not None and (not values or values[-1] < self.at_least):
            raise Unmet(f"Run {run_id} reached {self.metric!r} {value}, not {self.at_least}.")


def read_expectations(page: str, file: Path = FILE) -> dict[int, list[Expectation]]:
    """Return the expectations of one page by block number."""
    found: dict[int, list[Expectation]] = {}
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["after"]:
        pages = row.pop("pages")
        row |= {name: tuple(names) for name, names in row.items() if isinstance(names, list)}
        if page in pages:
            found.setdefault(pages[page], []).append(Expectation(**row))
    return found
