"""From the "data" of a request to what an estimator takes: an array, or a DataFrame where it goes by names."""
from runyard_sdk.scoring.answers import Refused

ARRAY = "array"


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
        array = _array(data)
        return (ARRAY, array.dtype.kind, array.shape[1:]), array

    def ready(self, kind, rows):
        """Rows of that kind as the estimator takes them."""
        if kind[0] == ARRAY:
            return rows
        frame = _frame(rows.tolist(), kind[0])
        if self._names and set(self._names) <= set(frame.columns):
            return frame[self._names]
        # An estimator that was fitted on an array counts columns and knows no names.
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


def _array(data):
    import numpy
    array = numpy.asarray(data)
    if array.ndim == 0:
        raise ValueError("it is one value, and must be a list of rows")
    if array.dtype.kind in "US":
        return numpy.array(data, dtype=object)  # else numbers beside a text would become texts
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
    # Rows join only where their types agree: a text among numbers makes a column of another kind for all of them.
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
    """Whether some step chooses columns by name, or is no step of scikit-learn's and may do so."""
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
