import importlib.machinery
import importlib.util
import inspect
import os
import sys

from runyard_sdk.scoring.failure import InitFailed, one_line


def import_entry_script(start):
    """The user's entry script as a module, with init() and run() there; InitFailed says what is wrong with it."""
    path = os.path.join(start.app_root, start.entry_script)
    if not os.path.isfile(path):
        raise InitFailed("entry_script %r is not in the source_directory." % start.entry_script,
                         "Give its path within source_directory.")
    module = _executed(path, start.entry_script)
    _check(module, start.entry_script)
    return module


def call_init(module, entry_script):
    try:
        module.init()
    except BaseException as error:  # sys.exit() too: the service does not start
        raise InitFailed("init() of %s failed: %s" % (entry_script, one_line(error))) from error


def _executed(path, entry_script):
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        name = "entry_script_" + name
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        where = " in line %s" % error.lineno if error.lineno else ""
        raise InitFailed("%s is not valid Python%s: %s" % (
            os.path.basename(error.filename or entry_script), where, error.msg)) from error
    except BaseException as error:  # sys.exit() too: the service does not start
        raise InitFailed("Importing %s failed: %s" % (entry_script, one_line(error))) from error
    return module


def _check(module, entry_script):
    for name in ("init", "run"):
        if not callable(getattr(module, name, None)):
            raise InitFailed("%s has no function %s()." % (entry_script, name),
                             "Define init(), which loads the model, and run(data), which answers a request.")
    if not can_be_called(module.init):
        raise InitFailed("init() of %s takes arguments, and is called with none." % entry_script,
                         "Read what it needs from files or environment variables.")


def can_be_called(function, *arguments):
    """False where the signature says that it cannot; True for what has none."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
