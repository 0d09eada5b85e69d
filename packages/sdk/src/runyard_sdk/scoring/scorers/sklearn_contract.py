"""Which estimators answer each row for itself because their library says so."""
from types import BuiltinFunctionType, FunctionType, MethodType

LIBRARIES = ("sklearn", "xgboost", "lightgbm")
# transform() of the first two goes on until the rows together have converged; the others give one row another shape.
NOT_ROW_BY_ROW = ("NMF", "MiniBatchNMF", "SparsePCA", "MiniBatchSparsePCA")
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_CONTAINERS = (list, tuple, set, frozenset)
_DEEPEST = 12


def is_row_by_row(estimator):
    """Whether it is an estimator of such a library and so is every other one in it, with no function of its maker's
    in any of them: a step that is somebody's own may do with the rows what it likes."""
    return _is_theirs(type(estimator)) and not _holds_others(estimator, set(), 0)


def _holds_others(value, seen, depth):
    """Whether what it holds, at any depth, could compute something that is not the library's own."""
    if depth > _DEEPEST:
        return True
    if isinstance(value, _FUNCTIONS):
        return not _is_theirs(value)
    if id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, _CONTAINERS):
        parts = list(value)
    elif getattr(getattr(value, "dtype", None), "kind", None) == "O":
        parts = list(getattr(value, "flat", ()))  # the trees of a gradient boosting lie in an array
    elif not _computes(value):
        return False
    elif not _is_theirs(type(value)):
        return True
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    return any(_holds_others(part, seen, depth + 1) for part in parts)


def _computes(value):
    return not isinstance(value, type) and any(hasattr(value, name) for name in ("predict", "transform", "__call__"))


def _is_theirs(kind):
    return (kind.__module__ or "").split(".")[0] in LIBRARIES and kind.__name__ not in NOT_ROW_BY_ROW
