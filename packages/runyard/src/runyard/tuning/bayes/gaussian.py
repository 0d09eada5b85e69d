"""A Gaussian process over a space: what a trial at some row would give, and how sure that is, from a few known ones.

How far each axis reaches and how much noise there is, nobody says: settings are drawn, those kept that explain best
what is known, and drawn again near those; in the end a few of them answer side by side.
"""

from dataclasses import dataclass

import numpy as np

from runyard.tuning.bayes.unit_rows import Numbers, UnitRows

ROUNDS, DRAWS, PARENTS, VOICES = 4, 60, 12, 6
USUAL_REACH = 0.3
LEAST_NOISE, MOST_NOISE = 1e-6, 0.1
_JITTER = 1e-8
_BEYOND = 1e12


@dataclass(frozen=True)
class Settings:
    """Several, one a row: the logarithms of each axis' reach and of the noise."""

    reaches: Numbers
    noises: Numbers

    def __len__(self) -> int:
        return len(self.noises)

    def kernel(self, distances: Numbers) -> Numbers:
        """How alike rows at these distances are, by each setting: Matern's kernel of 5/2."""
        far = np.sqrt(5 * np.einsum("sa,ija->sij", np.exp(-2 * self.reaches), distances))
        alike: Numbers = (1 + far + far**2 / 3) * np.exp(-far)
        return alike

    def noisy_kernel(self, distances: Numbers) -> Numbers:
        noise = (np.exp(self.noises) + _JITTER)[:, None, None]
        return self.kernel(distances) + noise * np.eye(distances.shape[0])


class GaussianProcess:
    """Knows rows and their losses, the same for all settings or each its own."""

    def __init__(self, rows: UnitRows, known: Numbers, losses: Numbers, settings: Settings) -> None:
        self._rows, self._known, self._settings = rows, known, settings
        self._losses = np.broadcast_to(losses, (len(settings), len(known)))
        self._inverse = np.linalg.inv(settings.noisy_kernel(rows.distances(known, known)))
        self._weights = np.einsum("sij,sj->si", self._inverse, self._losses)
        self._scale = np.maximum((self._losses * self._weights).mean(axis=1), 1e-12)

    @property
    def least(self) -> Numbers:
        """The least loss that each setting knows of, or believes in."""
        least: Numbers = self._losses.min(axis=1)
        return least

    def expected(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """Mean and deviation for each row, by each setting."""
        alike = self._settings.kernel(self._rows.distances(at, self._known))
        means = np.einsum("sij,sj->si", alike, self._weights)
        unsure = 1 - np.einsum("sij,sij->si", alike @ self._inverse, alike)
        return means, np.sqrt(np.maximum(unsure, 1e-12) * self._scale[:, None])

    def believing(self, at: Numbers) -> "GaussianProcess":
        """The same as if trials at those rows had given what is expected of them."""
        if len(at) == 0:
            return self
        losses = np.concatenate([self._losses, self.expected(at)[0]], axis=1)
        return GaussianProcess(self._rows, np.concatenate([self._known, at]), losses, self._settings)


def likely_settings(rows: UnitRows, known: Numbers, losses: Numbers, chance: np.random.Generator) -> Settings:
    distances = rows.distances(known, known)
    usual = np.log(USUAL_REACH * np.sqrt(rows.columns))
    kept = np.empty((0, rows.columns + 1))
    drawn = np.column_stack(
        [
            usual + chance.normal(0, 1, (DRAWS, rows.columns)),
            chance.uniform(np.log(LEAST_NOISE), np.log(MOST_NOISE), DRAWS),
        ]
    )
    for turn in range(1, ROUNDS + 1):
        drawn[:, -1] = np.clip(drawn[:, -1], np.log(LEAST_NOISE), np.log(MOST_NOISE))
        pool = np.concatenate([kept, drawn])
        settings = Settings(pool[:, :-1], pool[:, -1])
        prior = ((settings.reaches - usual) ** 2).sum(axis=1) / 2
        kept = pool[np.argsort(prior - _log_likelihood(settings, distances, losses), kind="stable")[:PARENTS]]
        drawn = kept[chance.integers(0, len(kept), DRAWS)] + chance.normal(0, 0.5 / turn, (DRAWS, rows.columns + 1))
    return Settings(kept[:VOICES, :-1], kept[:VOICES, -1])


def _log_likelihood(settings: Settings, distances: Numbers, losses: Numbers) -> Numbers:
    """Of the losses, by each setting, with the scale that suits it best.

    The losses stand as one more row of the kernel, so that its root holds them whitened: one step instead of two.
    """
    known = len(losses)
    beside = np.empty((len(settings), known + 1, known + 1))
    beside[:, :known, :known] = settings.noisy_kernel(distances)
    beside[:, :known, known] = beside[:, known, :known] = losses
    beside[:, known, known] = _BEYOND
    lower = np.linalg.cholesky(beside)
    whitened, volume = lower[:, known, :known], np.log(np.diagonal(lower, axis1=1, axis2=2)[:, :known]).sum(axis=1)
    likelihood: Numbers = -len(losses) / 2 * np.log((whitened**2).mean(axis=1) + 1e-12) - volume
    return likelihood
