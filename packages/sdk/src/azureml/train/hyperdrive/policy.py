"""Early termination policies. An interval is one log of the primary metric by a child."""
from abc import ABC

from azureml.exceptions import TrainingException  # noqa: F401
from azureml.train.hyperdrive._settings import InvalidSetting, number, whole_number
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException, HyperDriveRehydrateException  # noqa: F401
from runyard_sdk.tuning import AshaPolicy


class EarlyTerminationPolicy(ABC):
    """Name and settings of a policy; compares equal by both."""

    def __init__(self, name, properties=None):
        self._name = name
        self._properties = dict(properties or {})

    def to_json(self):
        return {"name": self._name, "properties": dict(self._properties)}

    def __eq__(self, other):
        return isinstance(other, EarlyTerminationPolicy) and self.to_json() == other.to_json()

    def __hash__(self):
        return hash((self._name, repr(sorted(self._properties.items()))))

    def __repr__(self):
        settings = ", ".join("%s=%r" % pair for pair in sorted(self._properties.items()))
        return "%s(%s)" % (type(self).__name__, settings)


class _IntervalPolicy(EarlyTerminationPolicy):
    """Policy that checks a child at each multiple of evaluation_interval from delay_evaluation on."""

    POLICY_NAME = None

    def __init__(self, evaluation_interval, delay_evaluation, **properties):
        properties["evaluation_interval"] = whole_number("evaluation_interval", evaluation_interval, 1)
        properties["delay_evaluation"] = whole_number("delay_evaluation", delay_evaluation, 0)
        super(_IntervalPolicy, self).__init__(self.POLICY_NAME, properties)

    @property
    def evaluation_interval(self):
        return self._properties["evaluation_interval"]

    @property
    def delay_evaluation(self):
        return self._properties["delay_evaluation"]


class BanditPolicy(_IntervalPolicy):
    """Stop a child whose best metric is further from the overall best than the slack: a share, or an amount."""

    POLICY_NAME = "Bandit"

    def __init__(self, evaluation_interval=1, slack_factor=None, slack_amount=None, delay_evaluation=0):
        if (slack_factor is None) == (slack_amount is None):
            raise InvalidSetting("Give exactly one of slack_factor and slack_amount, got %s." % (
                "neither" if slack_factor is None else "both"))
        name, slack = ("slack_factor", slack_factor) if slack_amount is None else ("slack_amount", slack_amount)
        super(BanditPolicy, self).__init__(evaluation_interval, delay_evaluation,
                                           **{name: number(name, slack, least=0)})

    @property
    def slack_factor(self):
        return self._properties.get("slack_factor")

    @property
    def slack_amount(self):
        return self._properties.get("slack_amount")


class MedianStoppingPolicy(_IntervalPolicy):
    """Stop a child whose best metric is worse than the median of all running averages."""

    POLICY_NAME = "MedianStopping"

    def __init__(self, evaluation_interval=1, delay_evaluation=0):
        super(MedianStoppingPolicy, self).__init__(evaluation_interval, delay_evaluation)


class TruncationSelectionPolicy(_IntervalPolicy):
    """Stop this percentage of the worst children of each interval."""

    POLICY_NAME = "TruncationSelection"

    def __init__(self, truncation_percentage, evaluation_interval=1, delay_evaluation=0):
        super(TruncationSelectionPolicy, self).__init__(
            evaluation_interval, delay_evaluation,
            truncation_percentage=whole_number("truncation_percentage", truncation_percentage, 1, 99))

    @property
    def truncation_percentage(self):
        return self._properties["truncation_percentage"]


class NoTerminationPolicy(EarlyTerminationPolicy):
    """Stop no child early."""

    POLICY_NAME = "Default"

    def __init__(self):
        super(NoTerminationPolicy, self).__init__(self.POLICY_NAME)


EarlyTerminationPolicy.register(AshaPolicy)
_KINDS = (BanditPolicy, MedianStoppingPolicy, TruncationSelectionPolicy, NoTerminationPolicy, AshaPolicy)


def policy_of(written):
    """Policy from the result of to_json()."""
    name, properties = written["name"], dict(written.get("properties") or {})
    for kind in _KINDS:
        if kind.POLICY_NAME == name:
            return kind(**properties)
    raise HyperDriveRehydrateException("The sweep has the policy %r, which this SDK does not know. Upgrade it: pip "
                                       "install --upgrade runyard-sdk." % (name,))
