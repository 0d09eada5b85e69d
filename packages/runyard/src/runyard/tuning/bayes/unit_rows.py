from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runyard.tuning.bayes.axes import Axes, AxisKind, Point

Numbers = NDArray[np.float64]


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
