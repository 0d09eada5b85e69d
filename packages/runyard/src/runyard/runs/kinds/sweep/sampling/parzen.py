"""Proposes points by Optuna's tree-structured Parzen estimator, for many known trials or many parameters. Imports
Optuna: import this module lazily."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from runyard.runs.kinds.sweep.sampling.axes import Axes, Axis, AxisKind, Point
from runyard.runs.kinds.sweep.sampling.observations import ModelPoint

GOOD_PART = 0.2
MOST_GOOD = 25
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def proposed_points(axes: Axes, observed: Sequence[ModelPoint], seed: int) -> Iterator[Point]:
    """Yield points without end, the most promising first. Nothing is written or logged.

    Pending and proposed points count as bad ones, which keeps new points away from them; so do those that ended
    without a number.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {str(position): _distribution(axis) for position, axis in enumerate(axes.axes)}
    study = optuna.create_study(sampler=_sampler(seed))
    study.add_trials([_trial(each, distributions) for each in observed])
    while True:
        found = study.ask(distributions).params
        yield tuple(found[name] for name in distributions)


def _sampler(seed: int) -> TPESampler:
    sampler = TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=0)
    # The public argument warns that it is deprecated, and warnings cannot be silenced for one thread only.
    sampler._gamma = lambda finished: max(1, min(math.ceil(GOOD_PART * finished), MOST_GOOD))
    return sampler


def _distribution(axis: Axis) -> BaseDistribution:
    if axis.kind is AxisKind.OPTIONS:
        return _Options(range(int(axis.size)))
    if axis.kind is AxisKind.STEPS:
        return IntDistribution(int(axis.low), int(axis.high))
    return FloatDistribution(axis.low, axis.high)


class _Options(CategoricalDistribution):
    """Options by index. Comparing a thousand options in a thousand trials, as the base class does, takes seconds."""

    def to_internal_repr(self, param_value_in_external_repr: Any) -> float:
        return int(param_value_in_external_repr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Options) and len(self.choices) == len(other.choices)

    __hash__ = CategoricalDistribution.__hash__


class _OwnTrial(FrozenTrial):
    """A trial that the study does not copy: copying would take most of the time."""

    def __deepcopy__(self, memo: Any) -> "_OwnTrial":
        return self


def _trial(seen: ModelPoint, distributions: dict[str, BaseDistribution]) -> FrozenTrial:
    state = TrialState.PRUNED if seen.loss is None else TrialState.COMPLETE
    if seen.is_pending:
        state = TrialState.RUNNING
    return _OwnTrial(
        number=0,
        trial_id=0,
        state=state,
        value=None if seen.is_pending else seen.loss,
        params=dict(zip(distributions, seen.point, strict=True)),
        distributions=distributions,
        user_attrs={},
        system_attrs={},
        intermediate_values={},
        datetime_start=_LONG_AGO,
        datetime_complete=None if seen.is_pending else _LONG_AGO,
    )
