"""The user's own pandas and pyarrow, imported when a table is first read or written."""
import sys

from azureml.exceptions import UserErrorException


def pandas_for(what):
    """The pandas of this environment. UserErrorException, saying what to add to it, where there is none."""
    return _library("pandas", what)


def parquet_for(what):
    """pyarrow and pyarrow.parquet of this environment, or the same error."""
    pyarrow = _library("pyarrow", what)
    _library("pyarrow.parquet", what)
    return pyarrow, pyarrow.parquet


def dask_for(what):
    """dask.dataframe of this environment, or the same error."""
    return _library("dask.dataframe", what)


def has(name):
    """Whether a library can be imported here."""
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
