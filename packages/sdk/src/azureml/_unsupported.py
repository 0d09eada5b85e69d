"""SDK v1 names that Runyard does not implement: they can be imported, and raise NotYetException when used."""

from azureml.exceptions import UserErrorException


class NotYetException(UserErrorException, NotImplementedError):
    """The used feature is not in this version of Runyard."""


def not_yet(what):
    """Return the exception for a feature that is not implemented yet."""
    return NotYetException(
        "%s is not in this version of Runyard yet. "
        "Runs, estimators, sweeps over hyperparameters, distributed training, environments, data, models and web "
        "services are." % what)


class NotYetImportError(NotYetException, ImportError):
    """The module is not in this version of Runyard. Also an ImportError, for code that guards its import."""


def not_yet_module(name):
    """Return the exception that importing such a module raises."""
    return NotYetImportError(
        "The module %s is not in this version of Runyard. Leave this import out, or guard it with "
        "`except ImportError`." % name)


def unsupported(what, instead):
    """Return the exception for a feature that has no equivalent in Runyard; `instead` says what to do."""
    return NotYetException("%s is not supported by Runyard. %s" % (what, instead))


class _NotYet(type):
    """Metaclass: looking up a public attribute raises, and so does calling the class."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError("type object %r has no attribute %r" % (cls.__name__, name))
        raise cls._refusal("%s.%s" % (cls.__name__, name))


def not_yet_class(name, module, **members):
    """Return a class that can be imported, subclassed and used with isinstance, and raises when instantiated or
    accessed."""
    return _refusing(name, module, not_yet, members)


def unsupported_class(name, module, instead):
    """Like `not_yet_class`, for a class that has no equivalent in Runyard; `instead` says what to do."""
    return _refusing(name, module, lambda what: unsupported(what, instead), {})


def _refusing(name, module, refusal, members):
    def __init__(self, *args, **kwargs):
        raise refusal("%s.%s" % (module, name))

    body = dict(members, __init__=__init__, __module__=module, _refusal=staticmethod(refusal),
                __doc__="Not in this version of Runyard: using it raises NotYetException.")
    return _NotYet(name, (object,), body)
