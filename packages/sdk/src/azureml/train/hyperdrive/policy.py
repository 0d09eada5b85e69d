"""When a child of a sweep is stopped early."""
from azureml.exceptions import TrainingException  # noqa: F401
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException, HyperDriveRehydrateException  # noqa: F401


class EarlyTerminationPolicy(object):
    def __init__(self, name, properties=None):
        self._name = name
        self._properties = dict(properties or {})

    def to_json(self):
        return {"name": self._name, "properties": dict(self._properties)}

    def __eq__(self, other):
        return isinstance(other, EarlyTerminationPolicy) and self.to_json() == other.to_json()

    def __hash__(self):
        return hash(repr(sorted(self._properties.items())))


class _IntervalPolicy(EarlyTerminationPolicy):
    POLICY_NAME = None

    def __init__(self, evaluation_interval, delay_evaluation, **properties):
        if evaluation_interval < 1 or delay_evaluation < 0:
            raise HyperDriveConfigException("evaluation_interval is at least 1 and delay_evaluation at least 0; got "
                                            "%r and %r." % (evaluation_interval, delay_evaluation))
        super(_IntervalPolicy, self).__init__(self.POLICY_NAME, dict(
            properties, evaluation_interval=evaluation_interval, delay_evaluation=delay_evaluation))

    @property
    def evaluation_interval(self):
        return self._properties["evaluation_interval"]

    @property
    def delay_evaluation(self):
        return self._properties["delay_evaluation"]


class BanditPolicy(_IntervalPolicy):
    POLICY_NAME = "Bandit"

    def __init__(self, evaluation_interval=1, slack_factor=None, slack_amount=None, delay_evaluation=0):
        if (slack_factor is None) == (slack_amount is None):
            raise HyperDriveConfigException("Give exactly one of slack_factor and slack_amount.")
        slack = {"slack_factor": slack_factor} if slack_amount is None else {"slack_amount": slack_amount}
        super(BanditPolicy, self).__init__(evaluation_interval, delay_evaluation, **slack)

    @property
    def slack_factor(self):
        return self._properties.get("slack_factor")


class MedianStoppingPolicy(_IntervalPolicy):
    POLICY_NAME = "MedianStopping"

    def __init__(self, evaluation_interval=1, delay_evaluation=0):
        super(MedianStoppingPolicy, self).__init__(evaluation_interval, delay_evaluation)


class TruncationSelectionPolicy(_IntervalPolicy):
    POLICY_NAME = "TruncationSelection"

    def __init__(self, truncation_percentage, evaluation_interval=1, delay_evaluation=0):
        if not 1 <= truncation_percentage <= 99:
            raise HyperDriveConfigException("truncation_percentage is 1 to 99, got %r." % (truncation_percentage,))
        super(TruncationSelectionPolicy, self).__init__(
            evaluation_interval, delay_evaluation, truncation_percentage=truncation_percentage)

    @property
    def truncation_percentage(self):
        return self._properties["truncation_percentage"]


class NoTerminationPolicy(EarlyTerminationPolicy):
    POLICY_NAME = "Default"

    def __init__(self):
        super(NoTerminationPolicy, self).__init__(self.POLICY_NAME)
