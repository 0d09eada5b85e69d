"""Proposes points by expected improvement of a Gaussian process. Imports numpy: import this module lazily."""

from collections.abc import Iterator, Sequence

import numpy as np

from runyard.tuning.bayes.axes import Axes, Point
from runyard.tuning.bayes.gaussian import GaussianProcess, likely_settings
from runyard.tuning.bayes.observations import Observation
from runyard.tuning.bayes.unit_rows import Numbers, UnitRows

ANYWHERE, LEADERS, NEIGHBOURS = 400, 5, 40
WIDTHS = (0.1, 0.03, 0.01)


def proposed_points(axes: Axes, observed: Sequence[Observation], seed: int) -> Iterator[Point]:
    """Yield points without end, the most promising first.

    A pending point is assumed to give its expected loss, so no more is expected there; one that ended without a number
    counts as the worst.
    """
    rng, rows = np.random.default_rng(seed), UnitRows(axes)
    ended = [each for each in observed if not each.is_pending]
    known, losses = rows.of([each.point for each in ended]), _normalized([each.loss for each in ended])
    process = GaussianProcess(rows, known, losses, likely_settings(rows, known, losses, rng))
    process = process.believing(rows.of([each.point for each in observed if each.is_pending]))
    leaders = known[np.argsort(losses, kind="stable")[:LEADERS]]
    while True:
        best = _most_promising(process, leaders, rows, rng)
        yield rows.point(best)
        process = process.believing(best[None])


def _normalized(losses: Sequence[float | None]) -> Numbers:
    """Losses with mean 0 and deviation 1, large ones compressed: how bad they are tells little about the best."""
    worst = max((loss for loss in losses if loss is not None), default=0.0)
    found = np.array([worst if loss is None else loss for loss in losses])
    found = found / (np.abs(found).max() or 1)
    above = found - found.min()
    near = np.log1p(above / (np.median(above) or above.max() or 1))
    standard: Numbers = (near - near.mean()) / (near.std() or 1)
    return standard


def _most_promising(process: GaussianProcess, leaders: Numbers, rows: UnitRows, rng: np.random.Generator) -> Numbers:
    tried = np.concatenate([rows.spread(ANYWHERE, rng), rows.near(leaders, NEIGHBOURS, WIDTHS[0], rng)])
    improvements = _improvements(process, tried)
    for width in WIDTHS:
        nearer = rows.near(tried[np.argsort(-improvements, kind="stable")[:LEADERS]], NEIGHBOURS, width, rng)
        tried = np.concatenate([tried, nearer])
        improvements = np.concatenate([improvements, _improvements(process, nearer)])
    found: Numbers = tried[np.argmax(improvements)]
    return found


def _improvements(process: GaussianProcess, at: Numbers) -> Numbers:
    """Expected improvement at each row, averaged over all settings."""
    means, deviations = process.expected(at)
    by = (process.least[:, None] - means) / deviations
    density = np.exp(-(by**2) / 2) / np.sqrt(2 * np.pi)
    improvements: Numbers = (deviations * (by * _normal_cdf(by) + density)).mean(axis=0)
    return improvements


def _normal_cdf(below: Numbers) -> Numbers:
    """Normal distribution function to within 0.0002, enough for comparing; numpy has none."""
    return 1 / (1 + np.exp(-np.clip(1.5976 * below + 0.070566 * below**3, -60, 60)))
