"""Lazy module attributes, on Python 3.6 too (it has no module `__getattr__`)."""
import sys


def lazy_names(module, home_of):
    """Let `module` (its __name__) import each name of `home_of` ({name: module that defines it}) on first use.

    Other public names are tried as submodules, so `azureml.core.run` works after `import azureml.core`.
    """
    this = sys.modules[module]

    class LazyModule(type(this)):
        def __getattr__(self, name):
            from importlib import import_module
            if name in home_of:
                value = getattr(import_module(home_of[name]), name)
            elif name.startswith("_"):
                raise AttributeError("module %r has no attribute %r" % (module, name))
            else:
                value = _submodule(import_module, module, name)
            setattr(self, name, value)
            return value

        def __dir__(self):
            return sorted(set(object.__dir__(self)) | set(home_of))

    this.__class__ = LazyModule


def _submodule(import_module, module, name):
    whole = "%s.%s" % (module, name)
    try:
        return import_module(whole)
    except ImportError as error:
        if error.name != whole:
            raise
        raise AttributeError("module %r has no attribute %r" % (module, name))
