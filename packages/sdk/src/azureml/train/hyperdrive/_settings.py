"""Argument checks for sweeps. Each message names the argument."""
from azureml.exceptions import TrainingException, UserErrorException
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException


class InvalidSetting(HyperDriveConfigException, UserErrorException, TrainingException, ValueError):
    """Invalid setting of a sweep: derives from every class that some version of SDK v1 raised."""


def plain(value):
    """JSON form of the value: numpy scalars and arrays become Python's own."""
    if isinstance(value, (bool, int, float, str)) and type(value).__module__ == "builtins":
        return value
    for convert in ("tolist", "item"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    return value


def number(name, value, least=None, above=None):
    """Return a finite number, at least `least` or above `above`, as int or float."""
    given = plain(value)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given - given != 0:
        raise InvalidSetting("%s must be a finite number, got %r." % (name, value))
    if least is not None and given < least:
        raise InvalidSetting("%s must be at least %s, got %r." % (name, least, value))
    if above is not None and given <= above:
        raise InvalidSetting("%s must be above %s, got %r." % (name, above, value))
    return given


def whole_number(name, value, least, most=None):
    """Return an integer from `least` to `most`."""
    given = plain(value)
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidSetting("%s must be a whole number, got %r." % (name, value))
    if given < least or (most is not None and given > most):
        bounds = "at least %d" % least if most is None else "%d to %d" % (least, most)
        raise InvalidSetting("%s must be %s, got %r." % (name, bounds, value))
    return given


def text(name, value):
    if not isinstance(value, str) or not value.strip():
        raise InvalidSetting("%s must be a text that is not empty, got %r." % (name, value))
    return value


def instance(name, value, kind, example):
    """Return `value`, which must be of class `kind`; `example` says where to get one."""
    if not isinstance(value, kind):
        raise InvalidSetting("%s must be of the class %s, such as %s; got %r." % (name, kind.__name__, example, value))
    return value
