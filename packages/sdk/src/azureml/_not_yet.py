"""What later parts of Runyard bring: the names exist, and using one says what is not there yet."""
from azureml.exceptions import UserErrorException


class NotYetException(UserErrorException, NotImplementedError):
    """This version of Runyard does not have the part that was used."""


def not_yet(what):
    """The error that says so; the caller raises it."""
    return NotYetException(
        "%s is not in this version of Runyard yet. "
        "Runs, estimators, sweeps over hyperparameters, distributed training, environments, data, models and web "
        "services are." % what)


class NotYetImportError(NotYetException, ImportError):
    """A whole module that this version of Runyard does not have; an ImportError too, for code that tries first."""


def not_yet_module(name):
    """The error that importing such a module raises."""
    return NotYetImportError(
        "The module %s is not in this version of Runyard. Leave this import out, or guard it with "
        "`except ImportError`." % name)


def unsupported(what, instead):
    """The error for a thing of the original that has no meaning here."""
    return NotYetException("%s is not supported by Runyard. %s" % (what, instead))


class _NotYet(type):
    """Looking anything public up on such a class raises; so does calling it."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError("type object %r has no attribute %r" % (cls.__name__, name))
        raise cls._refusal("%s.%s" % (cls.__name__, name))


def not_yet_class(name, module, **members):
    """A class that can be imported, subclassed and used in isinstance, and raises when it is made or asked."""
    return _refusing(name, module, not_yet, members)


def unsupported_class(name, module, instead):
    """The same for a thing of the original that has no meaning here; `instead` says what to do."""
    return _refusing(name, module, lambda what: unsupported(what, instead), {})


def _refusing(name, module, refusal, members):
    def __init__(self, *args, **kwargs):
        raise refusal("%s.%s" % (module, name))

    body = dict(members, __init__=__init__, __module__=module, _refusal=staticmethod(refusal),
                __doc__="Not in this version of Runyard: using it raises NotYetException.")
    return _NotYet(name, (object,), body)
