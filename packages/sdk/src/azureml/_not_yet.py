"""What later parts of Runyard bring: the names exist, and using one says what is not there yet."""
from azureml.exceptions import UserErrorException


class NotYetException(UserErrorException, NotImplementedError):
    """This version of Runyard does not have the part that was used."""


def not_yet(what, part=None):
    """The error that says so, and with which part of 5 it comes where that is known; the caller raises it."""
    when = ": it comes with part %d of 5" % part if part else ""
    return NotYetException(
        "%s is not in this version of Runyard yet%s. "
        "Runs, estimators, distributed training, environments, data, models and web services are." % (what, when))


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


def not_yet_class(name, part, module, **members):
    """A class that can be imported, subclassed and used in isinstance, and raises when it is made or asked."""
    return _refusing(name, module, lambda what: not_yet(what, part), members)


def unsupported_class(name, module, instead):
    """The same for a thing of the original that has no meaning here; `instead` says what to do."""
    return _refusing(name, module, lambda what: unsupported(what, instead), {})


def _refusing(name, module, refusal, members):
    def __init__(self, *args, **kwargs):
        raise refusal("%s.%s" % (module, name))

    body = dict(members, __init__=__init__, __module__=module, _refusal=staticmethod(refusal),
                __doc__="Not in this version of Runyard: using it raises NotYetException.")
    return _NotYet(name, (object,), body)
