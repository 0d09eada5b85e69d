"""The model behind Bayesian sampling where much is known, or the space has many parameters: Optuna's tree-structured
Parzen estimator. To import it takes Optuna along."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from runyard.tuning.bayes.axes import Axes, Axis, AxisKind, Point
from runyard.tuning.bayes.observations import Observation

GOOD_PART = 0.2
MOST_GOOD = 25
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def proposed_points(axes: Axes, observed: Sequence[Observation], seed: int) -> Iterator[Point]:
    """Where the model expects most of a new trial, then where else, without an end. Nothing is written or logged.

    Points that are still tried count among the bad ones, which keeps others away from them, and from what was proposed
    before; so do those that ended without a number.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {str(place): _distribution(axis) for place, axis in enumerate(axes.axes)}
    study = optuna.create_study(sampler=_sampler(seed))
    study.add_trials([_trial(each, distributions) for each in observed])
    while True:
        found = study.ask(distributions).params
        yield tuple(found[name] for name in distributions)


def _sampler(seed: int) -> TPESampler:
    sampler = TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=0)
    # The argument of this name warns that it will go, and warnings cannot be silenced for one thread alone.
    sampler._gamma = lambda finished: max(1, min(math.ceil(GOOD_PART * finished), MOST_GOOD))
    return sampler


def _distribution(axis: Axis) -> BaseDistribution:
    if axis.kind is AxisKind.OPTIONS:
        return _Options(range(int(axis.places)))
    if axis.kind is AxisKind.STEPS:
        return IntDistribution(int(axis.low), int(axis.high))
    return FloatDistribution(axis.low, axis.high)


class _Options(CategoricalDistribution):
    """Places of options, each its own index: to compare each of a thousand options in each of a thousand trials would
    take seconds."""

    def to_internal_repr(self, param_value_in_external_repr: Any) -> float:
        return int(param_value_in_external_repr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Options) and len(self.choices) == len(other.choices)

    __hash__ = CategoricalDistribution.__hash__


class _OwnTrial(FrozenTrial):
    """It is made for one study, which need not copy it: that would take most of the time."""

    def __deepcopy__(self, memo: Any) -> "_OwnTrial":
        return self


def _trial(seen: Observation, distributions: dict[str, BaseDistribution]) -> FrozenTrial:
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
