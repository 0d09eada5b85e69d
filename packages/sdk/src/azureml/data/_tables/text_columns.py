"""Columns of texts that the user's pandas may find the type of: since 3.1 it reads these several times as quickly."""
from azureml.data._tables.inference import shows_text, shows_truth
from azureml.data._tables.libraries import has, pandas_for


class TextColumns(object):
    """Says which columns to read without a type, and checks afterwards that nothing was lost by that.

    pandas looks for types in parts of a file. A part of a text column that holds nothing but 007 becomes the number 7.
    """

    def __init__(self):
        self._expected = {}
        self._text_type, self._are_quicker = None, False

    def consider(self, name, kind, texts):
        """Learn from the first texts of a column that is to be of this kind."""
        if self._text_type is None:
            self._text_type = pandas_for("Reading delimited files").Series(["text"]).dtype
            self._are_quicker = self._text_type != object and has("pyarrow")
        if self._are_quicker and shows_text(texts):
            self._expected[name] = self._is_text
        elif self._are_quicker and kind == "bool" and shows_truth(texts):
            self._expected[name] = _is_truth

    def __contains__(self, name):
        return name in self._expected

    def are_whole(self, frame):
        """Whether the columns came as expected. Those that did not are to be read as text from now on."""
        lost = [name for name in frame.columns if name in self and not self._expected[name](frame[name])]
        for name in lost:
            del self._expected[name]
        return not lost

    def _is_text(self, series):
        return series.dtype == self._text_type


def _is_truth(series):
    from pandas.api.types import infer_dtype
    return series.dtype == bool or infer_dtype(series, skipna=True) == "boolean"
