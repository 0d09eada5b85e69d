"""pandas, pyarrow and dask of the user's environment, imported on first use."""
import sys

from azureml.exceptions import UserErrorException


def pandas_for(what):
    """Return pandas. Raises UserErrorException, naming what to install, if it is missing."""
    return _library("pandas", what)


def parquet_for(what):
    """Return pyarrow and pyarrow.parquet, or raise the same error."""
    pyarrow = _library("pyarrow", what)
    _library("pyarrow.parquet", what)
    return pyarrow, pyarrow.parquet


def dask_for(what):
    """Return dask.dataframe, or raise the same error."""
    return _library("dask.dataframe", what)


def has(name):
    """Whether a library can be imported."""
    try:
        _imported(name)
    except ImportError:
        return False
    return True


def _library(name, what):
    try:
        return _imported(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UserErrorException(
            "%s needs %s, which the Python environment at %s does not have (%s). Add it: `%s -m pip install %s`, or "
            "for a run environment.python.conda_dependencies.add_pip_package(%r)." % (
                what, package, sys.prefix, error, sys.executable or "python", package, package),
            inner_exception=error) from None


def _imported(name):
    from importlib import import_module
    return import_module(name)
