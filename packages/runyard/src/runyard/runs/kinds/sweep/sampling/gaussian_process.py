"""Proposes points by expected improvement of a Gaussian process. Imports numpy: import this module lazily."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runyard.runs.kinds.sweep.sampling.axes import Axes, AxisKind, Point
from runyard.runs.kinds.sweep.sampling.observations import ModelPoint

ANYWHERE, LEADERS, NEIGHBOURS = 400, 5, 40
WIDTHS = (0.1, 0.03, 0.01)


def proposed_points(axes: Axes, observed: Sequence[ModelPoint], seed: int) -> Iterator[Point]:
    """Yield points without end, the most promising first.

    A pending point is assumed to give its expected loss, so no more is expected there; one that ended without a number
    counts as the worst.
    """
    rng, rows = np.random.default_rng(seed), UnitRows(axes)
    ended = [each for each in observed if not each.is_pending]
    known, losses = rows.of([each.point for each in ended]), _normalized([each.loss for each in ended])
    process = GaussianProcess(rows, known, losses, likely_settings(rows, known, losses, rng))
    process = process.with_expected(rows.of([each.point for each in observed if each.is_pending]))
    leaders = known[np.argsort(losses, kind="stable")[:LEADERS]]
    while True:
        best = _most_promising(process, leaders, rows, rng)
        yield rows.point(best)
        process = process.with_expected(best[None])


Numbers = NDArray[np.float64]


def _normalized(losses: Sequence[float | None]) -> Numbers:
    """Losses with mean 0 and deviation 1, large ones compressed: how bad they are tells little about the best."""
    worst = max((loss for loss in losses if loss is not None), default=0.0)
    found = np.array([worst if loss is None else loss for loss in losses])
    found = found / (np.abs(found).max() or 1)
    above = found - found.min()
    near = np.log1p(above / (np.median(above) or above.max() or 1))
    standard: Numbers = (near - near.mean()) / (near.std() or 1)
    return standard


@dataclass(frozen=True)
class KernelSettings:
    """Kernel settings, one for each row: logarithms of the length scale of each axis and of the noise."""

    scales: Numbers
    noises: Numbers

    def __len__(self) -> int:
        return len(self.noises)

    def kernel(self, distances: Numbers) -> Numbers:
        """Matern 5/2 kernel at these distances, for each setting."""
        distance = np.sqrt(5 * np.einsum("sa,ija->sij", np.exp(-2 * self.scales), distances))
        similarity: Numbers = (1 + distance + distance**2 / 3) * np.exp(-distance)
        return similarity

    def noisy_kernel(self, distances: Numbers) -> Numbers:
        noise = (np.exp(self.noises) + _JITTER)[:, None, None]
        return self.kernel(distances) + noise * np.eye(distances.shape[0])


class UnitRows:
    """Converts points of a space to rows of numbers between 0 and 1, one column for each axis, and back."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes.axes
        self._low = np.array([axis.low for axis in self._axes], dtype=float)
        self._width = np.array([max(axis.high - axis.low, 1e-300) for axis in self._axes], dtype=float)
        self._is_option = np.array([axis.kind is AxisKind.OPTIONS for axis in self._axes])
        self._is_stepped = np.array([axis.kind is not AxisKind.LINE for axis in self._axes])

    @property
    def columns(self) -> int:
        return len(self._axes)

    def of(self, points: Sequence[Point]) -> Numbers:
        rows: Numbers = (np.array(points, dtype=float).reshape(len(points), self.columns) - self._low) / self._width
        return rows

    def point(self, row: Numbers) -> Point:
        """Point of a row, moved onto the axes."""
        positions = np.clip(row, 0, 1) * self._width + self._low
        return tuple(
            min(max(float(position), axis.low), axis.high) if axis.kind is AxisKind.LINE else round(float(position))
            for axis, position in zip(self._axes, positions, strict=True)
        )

    def spread(self, count: int, rng: np.random.Generator) -> Numbers:
        """Random rows."""
        return self._on_axes(rng.random((count, self.columns)))

    def near(self, rows: Numbers, count: int, width: float, rng: np.random.Generator) -> Numbers:
        """`count` neighbours of each row: about half of the axes moved, options drawn again."""
        many = rows.repeat(count, axis=0)
        is_moved = rng.random(many.shape) < max(0.5, 1 / self.columns)
        anew, aside = rng.random(many.shape), many + rng.normal(0, width, many.shape)
        return self._on_axes(np.where(is_moved, np.where(self._is_option, anew, aside), many))

    def distances(self, some: Numbers, others: Numbers) -> Numbers:
        """Squared distance along each axis; 1 between different options."""
        differences = some[:, None, :] - others[None, :, :]
        return np.where(self._is_option, np.abs(differences) > 1e-9, differences**2).astype(float)

    def _on_axes(self, rows: Numbers) -> Numbers:
        rows = np.clip(rows, 0, 1)
        return np.where(self._is_stepped, np.round(rows * self._width) / self._width, rows)


class GaussianProcess:
    """Gaussian process over known rows and their losses, for several kernel settings side by side."""

    def __init__(self, rows: UnitRows, known: Numbers, losses: Numbers, settings: KernelSettings) -> None:
        self._rows, self._known, self._settings = rows, known, settings
        self._losses = np.broadcast_to(losses, (len(settings), len(known)))
        self._inverse = np.linalg.inv(settings.noisy_kernel(rows.distances(known, known)))
        self._weights = np.einsum("sij,sj->si", self._inverse, self._losses)
        self._scale = np.maximum((self._losses * self._weights).mean(axis=1), 1e-12)

    @property
    def least(self) -> Numbers:
        """Least loss, known or assumed, for each setting."""
        least: Numbers = self._losses.min(axis=1)
        return least

    def expected(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """Mean and standard deviation at each row, for each setting."""
        similarity = self._settings.kernel(self._rows.distances(at, self._known))
        means = np.einsum("sij,sj->si", similarity, self._weights)
        variance = 1 - np.einsum("sij,sij->si", similarity @ self._inverse, similarity)
        return means, np.sqrt(np.maximum(variance, 1e-12) * self._scale[:, None])

    def with_expected(self, at: Numbers) -> "GaussianProcess":
        """Copy that treats the expected losses at these rows as known results."""
        if len(at) == 0:
            return self
        losses = np.concatenate([self._losses, self.expected(at)[0]], axis=1)
        return GaussianProcess(self._rows, np.concatenate([self._known, at]), losses, self._settings)


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


ROUNDS, DRAWS, PARENTS, KEPT_SETTINGS = 4, 60, 12, 6
USUAL_SCALE = 0.3
LEAST_NOISE, MOST_NOISE = 1e-6, 0.1
_JITTER = 1e-8
_BORDER = 1e12


def likely_settings(rows: UnitRows, known: Numbers, losses: Numbers, rng: np.random.Generator) -> KernelSettings:
    """Kernel settings that explain the known losses best: draw some, keep the likeliest, draw again near those."""
    distances = rows.distances(known, known)
    usual = np.log(USUAL_SCALE * np.sqrt(rows.columns))
    kept = np.empty((0, rows.columns + 1))
    drawn = np.column_stack(
        [
            usual + rng.normal(0, 1, (DRAWS, rows.columns)),
            rng.uniform(np.log(LEAST_NOISE), np.log(MOST_NOISE), DRAWS),
        ]
    )
    for turn in range(1, ROUNDS + 1):
        drawn[:, -1] = np.clip(drawn[:, -1], np.log(LEAST_NOISE), np.log(MOST_NOISE))
        pool = np.concatenate([kept, drawn])
        settings = KernelSettings(pool[:, :-1], pool[:, -1])
        prior = ((settings.scales - usual) ** 2).sum(axis=1) / 2
        kept = pool[np.argsort(prior - _log_likelihood(settings, distances, losses), kind="stable")[:PARENTS]]
        drawn = kept[rng.integers(0, len(kept), DRAWS)] + rng.normal(0, 0.5 / turn, (DRAWS, rows.columns + 1))
    return KernelSettings(kept[:KEPT_SETTINGS, :-1], kept[:KEPT_SETTINGS, -1])


def _log_likelihood(settings: KernelSettings, distances: Numbers, losses: Numbers) -> Numbers:
    """Log likelihood of the losses for each setting, with the best scale.

    The losses form one more row of the kernel, so that its Cholesky root holds them whitened: one step instead of two.
    """
    known = len(losses)
    bordered = np.empty((len(settings), known + 1, known + 1))
    bordered[:, :known, :known] = settings.noisy_kernel(distances)
    bordered[:, :known, known] = bordered[:, known, :known] = losses
    bordered[:, known, known] = _BORDER
    lower = np.linalg.cholesky(bordered)
    whitened, volume = lower[:, known, :known], np.log(np.diagonal(lower, axis1=1, axis2=2)[:, :known]).sum(axis=1)
    likelihood: Numbers = -len(losses) / 2 * np.log((whitened**2).mean(axis=1) + 1e-12) - volume
    return likelihood
