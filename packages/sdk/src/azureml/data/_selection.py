"""Checks of what the methods that choose rows, files or columns of a dataset are given."""
from azureml.exceptions import UserErrorException


def checked_count(count, what):
    """How many rows or files (`what`) to take or skip."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UserErrorException("count must be a whole number of %s, 0 or more; got %r." % (what, count))
    return count


def checked_share(argument, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UserErrorException("%s must be a number from 0 to 1, got %r." % (argument, value))
    return value


def seed_of(seed):
    """The seed, or a random one: what is drawn with it stays the same whenever the dataset is read."""
    if seed is None:
        import os
        return int.from_bytes(os.urandom(4), "big")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UserErrorException("seed must be a whole number, got %r." % (seed,))
    return seed


def checked_columns(columns, argument="columns"):
    """Names of columns as a list: one name, or a list or tuple of names."""
    names = [columns] if isinstance(columns, str) else columns
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) for name in names):
        raise UserErrorException("%s must be the name of a column or a list of names, got %r." % (argument, columns))
    return list(names)
