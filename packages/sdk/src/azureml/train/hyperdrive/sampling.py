"""How the values of a sweep are drawn."""
from azureml.exceptions import AzureMLException  # noqa: F401
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException, HyperDriveRehydrateException  # noqa: F401


class HyperParameterSampling(object):
    def __init__(self, sampling_method_name, parameter_space, properties=None, supported_distributions=None,
                 distributions_validators=None):
        self._sampling_method_name = sampling_method_name
        self._parameter_space = dict(parameter_space)
        self._properties = properties
        for name, expression in self._parameter_space.items():
            if supported_distributions and expression[0] not in supported_distributions:
                raise HyperDriveConfigException("%s does not take %r, the range of %r. It takes: %s." % (
                    type(self).__name__, expression[0], name, ", ".join(sorted(supported_distributions))))

    def to_json(self):
        written = {"name": self._sampling_method_name, "parameter_space": dict(self._parameter_space)}
        if self._properties:
            written["properties"] = self._properties
        return written

    def __eq__(self, other):
        return isinstance(other, HyperParameterSampling) and self.to_json() == other.to_json()

    def __hash__(self):
        return hash(self._sampling_method_name)


class RandomParameterSampling(HyperParameterSampling):
    SAMPLING_NAME = "RANDOM"

    def __init__(self, parameter_space, properties=None):
        super(RandomParameterSampling, self).__init__(self.SAMPLING_NAME, parameter_space, properties)


class GridParameterSampling(HyperParameterSampling):
    SAMPLING_NAME = "GRID"

    def __init__(self, parameter_space, properties=None):
        super(GridParameterSampling, self).__init__(self.SAMPLING_NAME, parameter_space, properties, {"choice"})


class BayesianParameterSampling(HyperParameterSampling):
    SAMPLING_NAME = "BayesianOptimization"

    def __init__(self, parameter_space, properties=None):
        super(BayesianParameterSampling, self).__init__(
            self.SAMPLING_NAME, parameter_space, properties, {"choice", "uniform", "quniform"})
