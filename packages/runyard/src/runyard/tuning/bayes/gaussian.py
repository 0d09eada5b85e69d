from dataclasses import dataclass

import numpy as np

from runyard.tuning.bayes.unit_rows import Numbers, UnitRows

ROUNDS, DRAWS, PARENTS, KEPT_SETTINGS = 4, 60, 12, 6
USUAL_SCALE = 0.3
LEAST_NOISE, MOST_NOISE = 1e-6, 0.1
_JITTER = 1e-8
_BORDER = 1e12


@dataclass(frozen=True)
class Settings:
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


class GaussianProcess:
    """Gaussian process over known rows and their losses, for several kernel settings side by side."""

    def __init__(self, rows: UnitRows, known: Numbers, losses: Numbers, settings: Settings) -> None:
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

    def believing(self, at: Numbers) -> "GaussianProcess":
        """Process in which trials at those rows have given their expected losses."""
        if len(at) == 0:
            return self
        losses = np.concatenate([self._losses, self.expected(at)[0]], axis=1)
        return GaussianProcess(self._rows, np.concatenate([self._known, at]), losses, self._settings)


def likely_settings(rows: UnitRows, known: Numbers, losses: Numbers, rng: np.random.Generator) -> Settings:
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
        settings = Settings(pool[:, :-1], pool[:, -1])
        prior = ((settings.scales - usual) ** 2).sum(axis=1) / 2
        kept = pool[np.argsort(prior - _log_likelihood(settings, distances, losses), kind="stable")[:PARENTS]]
        drawn = kept[rng.integers(0, len(kept), DRAWS)] + rng.normal(0, 0.5 / turn, (DRAWS, rows.columns + 1))
    return Settings(kept[:KEPT_SETTINGS, :-1], kept[:KEPT_SETTINGS, -1])


def _log_likelihood(settings: Settings, distances: Numbers, losses: Numbers) -> Numbers:
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
