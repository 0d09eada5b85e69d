"""Ranges that hyperparameters are drawn from, in the form ['name', [arguments]]."""
from azureml.exceptions import AzureMLException  # noqa: F401
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException


def choice(*options):
    """One of the options, or of the items of a single list or range."""
    if not options:
        raise HyperDriveConfigException("choice needs at least one option.")
    if len(options) == 1 and isinstance(options[0], (list, tuple, range)):
        options = options[0]
    return ["choice", [list(options)]]


def randint(upper):
    """A whole number of 0 to upper - 1."""
    return ["randint", [upper]]


def uniform(min_value, max_value):
    return ["uniform", _ordered(min_value, max_value)]


def quniform(min_value, max_value, q):
    return ["quniform", _ordered(min_value, max_value) + [q]]


def loguniform(min_value, max_value):
    """exp of a uniform value between the two."""
    return ["loguniform", _ordered(min_value, max_value)]


def qloguniform(min_value, max_value, q):
    return ["qloguniform", _ordered(min_value, max_value) + [q]]


def normal(mu, sigma):
    return ["normal", [mu, sigma]]


def qnormal(mu, sigma, q):
    return ["qnormal", [mu, sigma, q]]


def lognormal(mu, sigma):
    return ["lognormal", [mu, sigma]]


def qlognormal(mu, sigma, q):
    return ["qlognormal", [mu, sigma, q]]


def _ordered(min_value, max_value):
    if min_value >= max_value:
        raise HyperDriveConfigException("min_value must be below max_value, got %r and %r." % (min_value, max_value))
    return [min_value, max_value]
