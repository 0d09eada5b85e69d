"""scikit-learn models without code: {"data": rows, "method": name} -> {name: results}."""

import bz2
import gzip
import json
import lzma
import re
import warnings
import zlib
from types import BuiltinFunctionType, FunctionType, MethodType

from runyard_sdk.scoring.answers import Refused
from runyard_sdk.scoring.failure import InitFailed, one_line
from runyard_sdk.scoring.scorers.batches import RowsTogether, answer_in_groups
from runyard_sdk.scoring.scorers.bodies import json_object, json_type
from runyard_sdk.scoring.scorers.model_files import all_files, inside, only_model, only_one, with_suffix

# The first that a model has is the default.
METHODS = ("predict_proba", "predict", "transform", "decision_function", "score_samples", "predict_log_proba")
EXAMPLE = '{"data": [[1.0, 2.0]], "method": "predict"}'
THEIR_FAULT = (ValueError, TypeError, KeyError, IndexError)
SUFFIXES = (".pkl", ".pickle", ".joblib", ".sav", ".pkl.gz", ".pkl.z", ".joblib.gz", ".joblib.z", ".pkl.compressed")
SERVED = ("predict", "predict_proba", "transform")
SAVED_BY = re.compile(rb"_sklearn_version.{1,12}?([0-9]+\.[0-9]+[0-9a-z.]*)", re.DOTALL)
SEARCHED_BYTES = 256 * 1024 * 1024
ARRAY = "array"
LIBRARIES = ("sklearn", "xgboost", "lightgbm")
# transform() of the first two iterates until all rows together have converged; the others change the shape of a row.
NOT_ROW_BY_ROW = ("NMF", "MiniBatchNMF", "SparsePCA", "MiniBatchSparsePCA")
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_CONTAINERS = (list, tuple, set, frozenset)
_DEEPEST = 12


def load(start):
    """Load the only estimator, from a joblib or pickle file."""
    estimator = load_estimator(start)
    # These warnings come with every call: rows are passed as arrays on purpose where names are not needed.
    warnings.filterwarnings("ignore", message=".*feature names")
    return SklearnScorer(estimator)


class SklearnScorer(object):
    batches = True

    def __init__(self, estimator):
        self._estimator = estimator
        self._methods = [name for name in METHODS if callable(getattr(estimator, name, None))]
        self._inputs = Inputs(estimator)
        self._rows, self._give_several = RowsTogether(self._compute, is_row_by_row(estimator)), set()
        self.schema = _schema(self._methods, self._inputs)

    def score(self, requests):
        return answer_in_groups(requests, self._read, self._answer)

    def _read(self, request):
        body = json_object(request.body, EXAMPLE)
        method = body.get("method") or self._methods[0]
        if method not in self._methods:
            raise Refused(400, "method is %s; this %s has %s." % (
                json.dumps(method), type(self._estimator).__name__, ", ".join(self._methods)))
        if "data" not in body:
            raise Refused(400, "The body has no \"data\". Send an object such as %s." % EXAMPLE)
        try:
            kind, rows = self._inputs.read(body)
        except THEIR_FAULT as error:
            raise Refused(400, "The data (a JSON %s) cannot be read as rows: %s" % (json_type(body["data"]), error))
        return (method, kind), rows

    def _answer(self, key, jobs):
        method = key[0]
        outputs = self._rows.outputs(key, [[rows] for rows in jobs])
        # An estimator with several outputs returns a list of arrays, each with all rows.
        several = method in self._give_several
        return [_answer(method, [one.tolist() for one in out] if several else out[0].tolist()) for out in outputs]

    def _compute(self, key, inputs):
        method, kind = key
        try:
            results = getattr(self._estimator, method)(self._inputs.ready(kind, inputs[0]))
        except THEIR_FAULT as error:
            raise Refused(400, str(error))
        if isinstance(results, list) and results and hasattr(results[0], "shape"):
            self._give_several.add(method)
            return results
        return [_dense_array(results)]


def _dense_array(results):
    import numpy
    return results.toarray() if hasattr(results, "toarray") else numpy.asarray(results)


def _answer(method, values):
    # NaN and infinities are written as json.dumps does, like the original's server.
    return 200, None, ('{"%s": %s}' % (method, json.dumps(values))).encode("ascii")


def _schema(methods, inputs):
    rows = inputs.rows_schema()
    return {
        "input": {
            "type": "object", "required": ["data"],
            "properties": {"data": rows, "method": {"type": "string", "enum": methods, "default": methods[0]}},
        },
        "output": {"type": "object", "properties": {name: {"type": "array", "items": {}} for name in methods}},
        "sample_input": {"data": inputs.sample_rows(), "method": methods[0]},
    }


def load_estimator(start):
    """Load the estimator; start.notes gets the release that saved it if it is not the installed one."""
    model = only_model(start)
    files = with_suffix(model, SUFFIXES) or all_files(model)[:1 if len(all_files(model)) == 1 else 0]
    path = only_one(model, files, "pickled model", "model.pkl with joblib.dump(model, 'outputs/model.pkl')")
    import sklearn
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator = _read(path)
        except Exception as error:
            raise _failed(inside(model, path), path, error, sklearn.__version__) from error
    start.notes.extend(_about_versions(caught, path, sklearn.__version__))
    if not any(callable(getattr(estimator, name, None)) for name in SERVED):
        raise InitFailed(
            "'%s' holds a %s%s, which can neither predict nor transform." % (
                inside(model, path), type(estimator).__name__, _keys(estimator)),
            "Save the fitted estimator or pipeline itself, or deploy with a scoring script.")
    return estimator


def _read(path):
    try:
        import joblib
    except ImportError:
        import pickle
        with open(path, "rb") as file:
            return pickle.load(file)
    return joblib.load(path)


def _failed(name, path, error, here):
    saved_by = saved_by_release(path)
    problem = "'%s' cannot be loaded by scikit-learn %s: %s" % (name, here, one_line(error))
    if saved_by and saved_by != here:
        return InitFailed(
            "%s. It was saved by scikit-learn %s." % (problem.rstrip("."), saved_by),
            "Register the model with model_framework_version='%s', and deploy again." % saved_by)
    if isinstance(error, ImportError) and getattr(error, "name", None):
        return InitFailed(problem, "The model uses the package of module '%s'. Deploy it with an inference_config "
                                   "whose environment holds that package." % error.name.split(".")[0])
    return InitFailed(problem)


def saved_by_release(path):
    """Release named in the file of an estimator, without loading it; None if there is none."""
    try:
        with open(path, "rb") as file:
            data = _unpacked(file.read(SEARCHED_BYTES))
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return None
    found = SAVED_BY.search(data)
    return found.group(1).decode("ascii").rstrip(".") if found else None


def _unpacked(data):
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:3] == b"BZh":
        return bz2.decompress(data)
    if data[:6] == b"\xfd7zXZ\x00" or data[:3] == b"\x5d\x00\x00":
        return lzma.decompress(data)
    if data[:1] == b"\x78":
        return zlib.decompress(data)
    return data


def _about_versions(caught, path, here):
    if not any("unpickle" in str(one.message) for one in caught):
        return []
    return ["The model was saved by scikit-learn %s and is served by %s. Where results differ, register it with "
            "model_framework_version." % (saved_by_release(path) or "of another version", here)]


def _keys(value):
    if not isinstance(value, dict):
        return ""
    return " (%s)" % ", ".join(repr(key) for key in list(value)[:5])


class Inputs(object):
    def __init__(self, estimator):
        self._names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
        self._needs_names = bool(self._names) and _goes_by_names(estimator)
        self._width = _width(estimator) or len(self._names)

    def read(self, body):
        """(kind, array of rows) of a request; rows of one kind can be joined. "data" is a list of rows, a list of
        records, {"columns": [...], "data": [...]} or {column: values}."""
        data = body["data"]
        if isinstance(data, dict) and "columns" in data and "data" in data:
            return _table(data["columns"], data["data"])
        if isinstance(data, dict):
            return _table(list(data), [list(row) for row in zip(*_columns(data))])
        if "columns" in body:
            return _table(body["columns"], data)
        if isinstance(data, list) and data and isinstance(data[0], dict):
            return _table(*_records(data))
        if self._needs_names and _is_rows_of(data, len(self._names)):
            return _table(self._names, data)
        array = _input_array(data)
        return (ARRAY, array.dtype.kind, array.shape[1:]), array

    def ready(self, kind, rows):
        """Rows of that kind as the estimator takes them: an array, or a DataFrame where it uses names."""
        if kind[0] == ARRAY:
            return rows
        frame = _frame(rows.tolist(), kind[0])
        if self._names and set(self._names) <= set(frame.columns):
            return frame[self._names]
        # An estimator that was fitted on an array knows positions, no names.
        return frame if self._names or not self._width else frame.values

    def rows_schema(self):
        columns = {"type": "array", "items": {}}
        if self._width:
            columns["minItems"] = columns["maxItems"] = self._width
        rows = {"type": "array", "items": columns}
        if self._names:
            record = {"type": "object", "required": self._names, "properties": {name: {} for name in self._names}}
            rows["items"] = {"oneOf": [record, columns]}
        return rows

    def sample_rows(self):
        if self._needs_names:
            return [{name: 0 for name in self._names}]
        return [[0.0] * (self._width or 1)]


def _input_array(data):
    import numpy
    array = numpy.asarray(data)
    if array.ndim == 0:
        raise ValueError("it is one value, and must be a list of rows")
    if array.dtype.kind in "US":
        return numpy.array(data, dtype=object)  # otherwise numbers next to a text would become texts
    if array.dtype.kind == "O":
        return _array_of_objects(array)
    return array


def _array_of_objects(array):
    if any(isinstance(value, (list, dict)) for value in array.flat):
        raise ValueError("its rows have unlike lengths")
    if any(isinstance(value, str) for value in array.flat):
        return array
    return array.astype(float)  # null is a missing value


def _table(columns, rows):
    import numpy
    if not (isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
        raise ValueError("columns must be a list of names, and data a list of rows")
    if any(len(row) != len(columns) for row in rows):
        raise ValueError("each row must have one value for each of the %d columns" % len(columns))
    array = numpy.empty((len(rows), len(columns)), dtype=object)
    for at, row in enumerate(rows):
        array[at, :] = row
    # Rows join only if their types agree: a text among numbers would change the type of the column for all.
    return (tuple(map(str, columns)), frozenset(tuple(map(type, row)) for row in rows)), array


def _records(records):
    columns = list(records[0])
    for record in records:
        if not isinstance(record, dict) or set(record) != set(columns):
            raise ValueError("each record must have the fields of the first: %s" % ", ".join(map(str, columns)))
    return columns, [[record[name] for name in columns] for record in records]


def _columns(data):
    values = [column if isinstance(column, list) else [column] for column in data.values()]
    if len(set(map(len, values))) > 1:
        raise ValueError("its columns have unlike lengths")
    return values


def _frame(rows, columns):
    try:
        import pandas
    except ImportError:
        raise Refused(400, "Rows with names need pandas, which this model's environment lacks. Send a list of lists.")
    return pandas.DataFrame(rows, columns=list(columns))


def _is_rows_of(data, width):
    return isinstance(data, list) and all(isinstance(row, list) and len(row) == width for row in data)


def _goes_by_names(estimator):
    """Whether a step selects columns by name, or is not scikit-learn's and may do so."""
    steps = [step for _, step in getattr(estimator, "steps", ())] or [estimator]
    best = getattr(estimator, "best_estimator_", None)
    if best is not None:
        return _goes_by_names(best)
    if any(not type(step).__module__.startswith("sklearn.") for step in steps if not isinstance(step, str)):
        return True
    return any(_names_columns(chosen) for step in steps for _, _, chosen in getattr(step, "transformers", ()))


def _names_columns(chosen):
    return isinstance(chosen, str) or callable(chosen) or (
        isinstance(chosen, (list, tuple)) and any(isinstance(one, str) for one in chosen))


def _width(estimator):
    for name in ("n_features_in_", "n_features_"):
        width = getattr(estimator, name, None)
        if isinstance(width, int):
            return width
    shape = getattr(getattr(estimator, "coef_", None), "shape", ())
    return int(shape[-1]) if shape else 0


def is_row_by_row(estimator):
    """Whether the estimator, and every other one in it, is of a library that treats rows independently, without user
    functions: a custom step may do anything with the rows."""
    return _is_theirs(type(estimator)) and not _holds_others(estimator, set(), 0)


def _holds_others(value, seen, depth):
    """Whether anything in it, at any depth, could run code that is not the library's."""
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
        parts = list(getattr(value, "flat", ()))  # the trees of gradient boosting are in an array
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
