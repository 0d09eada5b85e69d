"""Search space of hyperparameters, in the form ['name', [arguments]]."""
from azureml.exceptions import AzureMLException  # noqa: F401
from azureml.train.hyperdrive._settings import InvalidSetting, number, plain, whole_number
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException  # noqa: F401


def choice(*options):
    """One of the options, or of the items of a single list, range or array."""
    if len(options) == 1:
        only = plain(options[0])
        options = only if isinstance(only, (list, tuple, range)) else [only]
    if not options:
        raise InvalidSetting("choice needs at least one option.")
    return ["choice", [[_option(one) for one in options]]]


def randint(upper):
    """An integer from 0 to upper - 1."""
    return ["randint", [whole_number("upper", upper, 1)]]


def uniform(min_value, max_value):
    """Any number between the two, uniformly distributed."""
    return ["uniform", _ordered(min_value, max_value)]


def quniform(min_value, max_value, q):
    """round(uniform / q) * q."""
    return ["quniform", _ordered(min_value, max_value) + [_step(q)]]


def loguniform(min_value, max_value):
    """exp of a uniform value between the two."""
    return ["loguniform", _ordered(min_value, max_value)]


def qloguniform(min_value, max_value, q):
    """round(loguniform / q) * q."""
    return ["qloguniform", _ordered(min_value, max_value) + [_step(q)]]


def normal(mu, sigma):
    """A normally distributed number with mean mu and standard deviation sigma."""
    return ["normal", _spread(mu, sigma)]


def qnormal(mu, sigma, q):
    """round(normal / q) * q."""
    return ["qnormal", _spread(mu, sigma) + [_step(q)]]


def lognormal(mu, sigma):
    """exp of a normally distributed number."""
    return ["lognormal", _spread(mu, sigma)]


def qlognormal(mu, sigma, q):
    """round(lognormal / q) * q."""
    return ["qlognormal", _spread(mu, sigma) + [_step(q)]]


_EXPRESSIONS = {made.__name__: made for made in (
    choice, randint, uniform, quniform, loguniform, qloguniform, normal, qnormal, lognormal, qlognormal)}


def checked_expression(name, expression):
    """Range of the hyperparameter `name` with checked arguments. Raises InvalidSetting, naming it."""
    is_formed = isinstance(expression, (list, tuple)) and len(expression) == 2 and isinstance(
        expression[0], str) and isinstance(expression[1], (list, tuple))
    if not is_formed or expression[0] not in _EXPRESSIONS:
        raise InvalidSetting("parameter_space[%r] is no range of values: %r. Make one with %s." % (
            name, expression, ", ".join(sorted(_EXPRESSIONS))))
    try:
        return _EXPRESSIONS[expression[0]](*expression[1])
    except TypeError:
        raise InvalidSetting("parameter_space[%r]: %s does not take %d arguments." % (
            name, expression[0], len(expression[1])))
    except InvalidSetting as error:
        raise InvalidSetting("parameter_space[%r]: %s" % (name, error.message))


def _option(value):
    import json

    given = plain(value)
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidSetting("The options of choice must be texts, finite numbers, true or false, or lists of these; "
                             "got %r." % (value,))
    return given


def _ordered(min_value, max_value):
    low, high = number("min_value", min_value), number("max_value", max_value)
    if low >= high:
        raise InvalidSetting("min_value must be below max_value, got %r and %r." % (min_value, max_value))
    return [low, high]


def _step(q):
    return number("q", q, above=0)


def _spread(mu, sigma):
    return [number("mu", mu), number("sigma", sigma, above=0)]
