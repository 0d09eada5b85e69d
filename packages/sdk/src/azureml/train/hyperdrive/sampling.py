"""Sampling of hyperparameters."""
from abc import ABC

from azureml.exceptions import AzureMLException  # noqa: F401
from azureml.train.hyperdrive._settings import InvalidSetting, text, whole_number
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException, HyperDriveRehydrateException  # noqa: F401
from azureml.train.hyperdrive.parameter_expressions import checked_expression

_RULES = ("random", "sobol")


class HyperParameterSampling(ABC):
    """A sampling method and its search space; compares equal by name, space and properties.

    `supported_distributions` are the accepted range names (None: all); `distributions_validators` is {range name:
    function that is called with its arguments and raises}.
    """

    def __init__(self, sampling_method_name, parameter_space, properties=None, supported_distributions=None,
                 distributions_validators=None):
        self._sampling_method_name = sampling_method_name
        self._parameter_space = _checked_space(parameter_space)
        self._properties = _checked_properties(properties)
        for name, (kind, arguments) in self._parameter_space.items():
            if supported_distributions and kind not in supported_distributions:
                raise InvalidSetting("%s does not take %s, the range of %r. It takes: %s." % (
                    type(self).__name__, kind, name, ", ".join(sorted(supported_distributions))))
            validate = (distributions_validators or {}).get(kind)
            if validate is not None:
                validate(arguments)

    def to_json(self):
        written = {"name": self._sampling_method_name, "parameter_space": dict(self._parameter_space)}
        if self._properties:
            written["properties"] = dict(self._properties)
        return written

    def __eq__(self, other):
        return isinstance(other, HyperParameterSampling) and self.to_json() == other.to_json()

    def __hash__(self):
        return hash((self._sampling_method_name, tuple(sorted(self._parameter_space))))

    def __repr__(self):
        return "%s(%r)" % (type(self).__name__, self._parameter_space)


class RandomParameterSampling(HyperParameterSampling):
    """Random values. properties: `seed` (the same seed draws the same values), `rule` ("random", or "sobol" for more
    evenly spread values)."""

    SAMPLING_NAME = "RANDOM"

    def __init__(self, parameter_space, properties=None):
        super(RandomParameterSampling, self).__init__(self.SAMPLING_NAME, parameter_space, properties)


class GridParameterSampling(HyperParameterSampling):
    """Every combination of the options, once."""

    SAMPLING_NAME = "GRID"

    def __init__(self, parameter_space, properties=None):
        super(GridParameterSampling, self).__init__(self.SAMPLING_NAME, parameter_space, properties, {"choice"})


class BayesianParameterSampling(HyperParameterSampling):
    """Values that earlier trials suggest. properties: `seed`."""

    SAMPLING_NAME = "BayesianOptimization"

    def __init__(self, parameter_space, properties=None):
        super(BayesianParameterSampling, self).__init__(
            self.SAMPLING_NAME, parameter_space, properties, {"choice", "uniform", "quniform"})


def argument_name(name):
    """Script argument of a hyperparameter; leading dashes are kept."""
    return name if name.startswith("-") else "--" + name


def sampling_of(written):
    """Sampling from the result of to_json()."""
    for kind in (RandomParameterSampling, GridParameterSampling, BayesianParameterSampling):
        if kind.SAMPLING_NAME == written["name"]:
            return kind(written["parameter_space"], written.get("properties"))
    raise HyperDriveRehydrateException("The sweep has the sampling %r, which this SDK does not know. Upgrade it: pip "
                                       "install --upgrade runyard-sdk." % (written["name"],))


def _checked_space(space):
    if not isinstance(space, dict) or not space:
        raise InvalidSetting("parameter_space must be a dict {argument of the script: range} that is not empty, "
                             "got %r." % (space,))
    checked, name_of = {}, {}
    for name, expression in space.items():
        argument = argument_name(text("A name of parameter_space", name))
        if argument in name_of:
            raise InvalidSetting("parameter_space has %r and %r, which both are the argument %s." % (
                name_of[argument], name, argument))
        name_of[argument] = name
        checked[name] = checked_expression(name, expression)
    return checked


def _checked_properties(properties):
    if properties is None:
        return {}
    if not isinstance(properties, dict):
        raise InvalidSetting("properties must be a dict, got %r." % (properties,))
    checked = {name: value for name, value in properties.items() if value is not None}
    if "seed" in checked:
        checked["seed"] = whole_number("properties['seed']", checked["seed"], 0)
    if "rule" in checked:
        checked["rule"] = str(checked["rule"]).lower()
        if checked["rule"] not in _RULES:
            raise InvalidSetting("properties['rule'] must be 'random' or 'sobol', got %r." % (properties["rule"],))
    return checked
