"""Delimited files read by the user's pandas, with the column names and types of SDK v1."""
import re
import warnings

from azureml.data._tabular_format import ENCODINGS, delimiter_and_quoting
from azureml.data._tables.conversion import converted, with_nulls_as_none
from azureml.data._tables.first_rows import column_names, first_rows, not_in_encoding
from azureml.data._tables.inference import inferred_type
from azureml.data._tables.libraries import pandas_for
from azureml.data._tables.text_columns import TextColumns
from azureml.data.dataset_error_handling import DatasetExecutionError

_READ_AS_NUMBERS = ("number", "flag", "long", "float")
_LEFT_AS_READ = ("flag", "string", "stream")
_SPARE = "\0spare"  # one column more than there should be: old versions of pandas cut longer rows without a word


class DelimitedReader(object):
    """Reads the files of a table one after another: names and types are those of the first rows."""

    def __init__(self, form, problems, wanted=None):
        self._form, self._problems, self._wanted = form, problems, wanted
        self._names, self._types = [], {}
        self._texts, self._is_first, self._engine = TextColumns(), True, "c"

    def read(self, path, rows=None):
        """The frame of one file, at most so many rows of it; None where it has no rows."""
        has_header = self._form["header"] in ("ALL_FILES_HAVE_SAME_HEADERS", "COMBINE_ALL_FILES_HEADERS") or (
            self._form["header"] == "ONLY_FIRST_FILE_HAS_HEADERS" and self._is_first)
        head, blank_lines = first_rows(path, self._form)
        if not head:
            return None
        header, sample = (head[0], head[1:]) if has_header else ([], head)
        if self._is_first or self._form["header"] == "COMBINE_ALL_FILES_HEADERS":
            self._names = column_names(header, 0)
        self._names = column_names(self._names, max([len(row) for row in head]))
        self._is_first, self._engine = False, "c"
        self._learn_types(sample)
        frame = self._parsed(path, blank_lines + (1 if has_header else 0), rows)
        for name in frame.columns:
            if self._types[name]["kind"] not in _LEFT_AS_READ:
                frame[name] = converted(frame[name], self._types[name], self._problems)
        return frame

    def settled(self, frame):
        """The frame of all files: what can only be said with all rows at hand."""
        for name in frame.columns:
            before, kind = frame[name], self._types.get(name, {}).get("kind")
            if kind == "flag":
                after = converted(before, self._types[name], self._problems)
            elif kind == "string" and self._form["empty_as_string"]:
                after = before.where(before.notna(), "")
            else:
                after = with_nulls_as_none(before)
            if after is not before:  # old versions of pandas copy what they are given
                frame[name] = after
        return frame

    def _learn_types(self, sample):
        for at, name in enumerate(self._names):
            if name in self._types:
                continue
            texts = [row[at] for row in sample if at < len(row)]
            if name in self._form["column_types"]:
                self._types[name] = self._form["column_types"][name]
            elif self._form["infer_column_types"]:
                self._types[name] = inferred_type(texts)
            else:
                self._types[name] = {"kind": "string"}
            if not self._is_read_as_number(name):
                self._texts.consider(name, self._types[name]["kind"], texts)

    def _parsed(self, path, skipped, rows):
        """The file's text as pandas reads it; rows that are longer than all before them get columns of their own."""
        pandas = pandas_for("Reading delimited files")
        while True:
            try:
                frame = self._read_csv(pandas, path, skipped, rows)
            except pandas.errors.ParserError as error:
                self._learn_from(error)
            except UnicodeError as error:
                raise not_in_encoding(self._form, error)
            else:
                if _SPARE in frame.columns and not frame.pop(_SPARE).isna().all():
                    self._widen(len(self._names) + 1)
                elif self._texts.are_whole(frame):
                    return frame

    def _read_csv(self, pandas, path, skipped, rows):
        kinds = {name: str for name in self._names if not (self._is_read_as_number(name) or name in self._texts)}
        kinds[_SPARE], used = "category", self._used()
        separator, quoting = delimiter_and_quoting(self._form)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pandas.errors.DtypeWarning)  # mixed columns are converted later
            return pandas.read_csv(
                path, engine=self._engine, sep=separator, quoting=quoting, header=None, skiprows=skipped, nrows=rows,
                names=self._names + ([] if used else [_SPARE]), dtype=kinds, usecols=used, keep_default_na=False,
                na_values=[""], encoding=ENCODINGS[self._form["encoding"]].replace("utf-8-sig", "utf-8"))

    def _learn_from(self, error):
        """Make ready for another try, or raise what is wrong with the file."""
        longer = re.search(r"saw (\d+)", str(error))
        if longer is not None:
            self._widen(int(longer.group(1)))
        elif "Too many columns" in str(error) and self._wanted is not None:
            self._wanted = None  # a file with fewer columns than those before it can only be read whole
        elif "Too many columns" in str(error) and self._engine == "c":
            self._engine = "python"  # pandas 1.4 and 1.5 will not fill up the rows of a file of one or two rows
        else:
            raise DatasetExecutionError("A file cannot be read as delimited text: %s." % error, error)

    def _widen(self, width):
        self._names = column_names(self._names, width)
        self._learn_types([])

    def _used(self):
        """Those of the columns that are wanted; None for all, also where none of them is."""
        return [name for name in self._names if name in (self._wanted or ())] or None

    def _is_read_as_number(self, name):
        kind = self._types[name]
        return kind["kind"] in _READ_AS_NUMBERS and kind.get("decimal_mark", ".") == "."
