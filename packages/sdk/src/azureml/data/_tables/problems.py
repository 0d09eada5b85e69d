from azureml.data.dataset_error_handling import DatasetExecutionError
from azureml.exceptions import UserErrorException

_CHOICES = {"on_error": ("null", "fail"), "out_of_range_datetime": ("null", "error")}


class Problems(object):
    """Values that could not be converted: null in the result and told in one warning, or an error at once."""

    def __init__(self, on_error="null", out_of_range_datetime="null"):
        for argument, value in (("on_error", on_error), ("out_of_range_datetime", out_of_range_datetime)):
            if value not in _CHOICES[argument]:
                raise UserErrorException("%s must be %r or %r, got %r." % ((argument,) + _CHOICES[argument] + (value,)))
        self._fails = on_error == "fail"
        self._fails_out_of_range = out_of_range_datetime == "error"
        self._found = {}

    def note(self, column, kind, values):
        """These values (a pandas Series) of a column are not of the type `kind`."""
        example = values.iloc[0]
        if self._fails:
            raise DatasetExecutionError(
                "%d value(s) of column %r cannot be read as %s, such as %r. Give the column another type with "
                "set_column_types, or pass on_error='null' to have them as null." % (
                    len(values), column, kind, example), None)
        count, first = self._found.get((column, kind), (0, example))
        self._found[(column, kind)] = (count + len(values), first)

    def note_out_of_range(self, column, texts, form):
        """These texts were not read as times in this format; some may be times that pandas cannot hold."""
        if not self._fails_out_of_range:
            return
        from datetime import datetime
        for text in texts:
            try:
                datetime.strptime(text, form)
            except ValueError:
                continue
            raise DatasetExecutionError(
                "%r in column %r is outside of the years 1677 to 2262 that pandas can hold. Pass "
                "out_of_range_datetime='null' to have such times as null." % (text, column), None)

    def warn(self):
        """Tell what became null, once for all columns."""
        if self._found:
            import warnings
            told = ["%d value(s) of column %r are no %s, such as %r" % (count, column, kind, first)
                    for (column, kind), (count, first) in sorted(self._found.items())]
            warnings.warn("Null in the result: " + "; ".join(told) + ". Types come from the first rows unless "
                          "set_column_types names them; on_error='fail' makes this an error.", stacklevel=3)
