import json

from azureml.data._tables.conversion import typed
from azureml.data._tables.first_rows import not_in_encoding, opened_text
from azureml.data._tables.libraries import pandas_for
from azureml.data.dataset_error_handling import DatasetExecutionError

_ROWS_AT_ONCE = 20000


class JsonLinesReader(object):
    """Reads files with one JSON object a line; what lies deeper in an object stays a dict or list."""

    def __init__(self, form, problems, wanted=None):
        self._form, self._problems, self._wanted = form, problems, wanted

    def read(self, path, rows=None):
        """The frame of one file, at most so many rows of it; None where it has no rows."""
        pandas = pandas_for("Reading JSON lines")
        parts, objects = [], []
        for found in self._objects(path):
            if rows is not None and len(objects) + sum(map(len, parts)) >= rows:
                break
            objects.append(found)
            if len(objects) == _ROWS_AT_ONCE:
                parts.append(self._frame(pandas, objects))
                objects = []
        if objects:
            parts.append(self._frame(pandas, objects))
        if len(parts) < 2:
            return parts[0] if parts else None
        return pandas.concat(parts, ignore_index=True, sort=False)

    def settled(self, frame):
        return typed(frame, self._form["column_types"], self._problems)

    def _objects(self, path):
        try:
            with opened_text(path, self._form) as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        found = self._object(line, number)
                        if found is not None:
                            yield found
        except UnicodeError as error:
            raise not_in_encoding(self._form, error)

    def _object(self, line, number):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        if self._form["invalid_lines"] == "drop":
            return None
        raise DatasetExecutionError("Line %d is no JSON object: %s. Pass invalid_lines='drop' to leave such lines "
                                    "out." % (number, line.strip()[:200]), None)

    def _frame(self, pandas, objects):
        names = {}
        for found in objects:
            names.update(dict.fromkeys(found))
        columns = [name for name in names if name in (self._wanted or ())] or list(names)
        if not columns:
            return pandas.DataFrame(index=range(len(objects)))
        return pandas.DataFrame({name: [found.get(name) for found in objects] for name in columns})
