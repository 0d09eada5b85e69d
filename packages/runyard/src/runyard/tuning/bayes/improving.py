"""Where a new trial may be expected to improve most on the best, by a Gaussian process. It takes numpy along."""

from collections.abc import Iterator, Sequence

import numpy as np

from runyard.tuning.bayes.axes import Axes, Point
from runyard.tuning.bayes.gaussian import GaussianProcess, likely_settings
from runyard.tuning.bayes.observations import Observation
from runyard.tuning.bayes.unit_rows import Numbers, UnitRows

ANYWHERE, LEADERS, NEIGHBOURS = 400, 5, 40
WIDTHS = (0.1, 0.03, 0.01)


def proposed_points(axes: Axes, observed: Sequence[Observation], seed: int) -> Iterator[Point]:
    """The most promising point, then where else, without an end.

    A point that is still tried is taken to give what is expected of it, so nothing more is hoped for there; one that
    ended without a number is as bad as the worst.
    """
    chance, rows = np.random.default_rng(seed), UnitRows(axes)
    ended = [each for each in observed if not each.is_pending]
    known, losses = rows.of([each.point for each in ended]), _warped([each.loss for each in ended])
    process = GaussianProcess(rows, known, losses, likely_settings(rows, known, losses, chance))
    process = process.believing(rows.of([each.point for each in observed if each.is_pending]))
    leaders = known[np.argsort(losses, kind="stable")[:LEADERS]]
    while True:
        best = _most_promising(process, leaders, rows, chance)
        yield rows.point(best)
        process = process.believing(best[None])


def _warped(losses: Sequence[float | None]) -> Numbers:
    """With mean 0 and deviation 1, the far ones drawn nearer: how bad the bad ones are tells little of the best."""
    worst = max((loss for loss in losses if loss is not None), default=0.0)
    found = np.array([worst if loss is None else loss for loss in losses])
    found = found / (np.abs(found).max() or 1)
    above = found - found.min()
    near = np.log1p(above / (np.median(above) or above.max() or 1))
    standard: Numbers = (near - near.mean()) / (near.std() or 1)
    return standard


def _most_promising(process: GaussianProcess, leaders: Numbers, rows: UnitRows, chance: np.random.Generator) -> Numbers:
    tried = np.concatenate([rows.spread(ANYWHERE, chance), rows.near(leaders, NEIGHBOURS, WIDTHS[0], chance)])
    hopes = _hopes(process, tried)
    for width in WIDTHS:
        nearer = rows.near(tried[np.argsort(-hopes, kind="stable")[:LEADERS]], NEIGHBOURS, width, chance)
        tried, hopes = np.concatenate([tried, nearer]), np.concatenate([hopes, _hopes(process, nearer)])
    found: Numbers = tried[np.argmax(hopes)]
    return found


def _hopes(process: GaussianProcess, at: Numbers) -> Numbers:
    """What each row is expected to be better by than the best, on average of all settings."""
    means, deviations = process.expected(at)
    by = (process.least[:, None] - means) / deviations
    density = np.exp(-(by**2) / 2) / np.sqrt(2 * np.pi)
    hopes: Numbers = (deviations * (by * _normal_share(by) + density)).mean(axis=0)
    return hopes


def _normal_share(below: Numbers) -> Numbers:
    """The normal distribution function to within 0.0002, which is enough to compare; numpy has none."""
    return 1 / (1 + np.exp(-np.clip(1.5976 * below + 0.070566 * below**3, -60, 60)))
