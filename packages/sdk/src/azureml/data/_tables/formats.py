"""Readers of delimited, JSON lines and Parquet files, with the column names and types of SDK v1."""

import csv
import json
import re
import sys
import warnings

from azureml.data._tables.columns import SAMPLE_ROWS, TextColumns, converted, inferred_type, typed, with_nulls_as_none
from azureml.data._tables.libraries import pandas_for, parquet_for
from azureml.data._tabular_format import ENCODINGS, delimiter_and_quoting
from azureml.data.dataset_error_handling import DatasetExecutionError

_READ_AS_NUMBERS = ("number", "flag", "long", "float")
_LEFT_AS_READ = ("flag", "string", "stream")
_SPARE = "\0spare"  # one column too many: old versions of pandas silently cut longer rows
_ROWS_AT_ONCE = 20000


def first_rows(path, form):
    """Header and first rows as lists of text, and the number of blank lines before them; standard library only."""
    from itertools import islice
    delimiter, quoting = delimiter_and_quoting(form)
    previous = csv.field_size_limit(min(sys.maxsize, 2 ** 31 - 1))
    try:
        with opened_text(path, form) as stream:
            blank_lines, rows = 0, []
            for row in islice(csv.reader(stream, delimiter=delimiter, quoting=quoting), SAMPLE_ROWS + 1000):
                if row:
                    rows.append(row)
                elif not rows:
                    blank_lines += 1
                if len(rows) > SAMPLE_ROWS:
                    break
            return rows, blank_lines
    except csv.Error as error:
        raise DatasetExecutionError("A file cannot be read as delimited text: %s." % error, error)
    except UnicodeError as error:
        raise not_in_encoding(form, error)
    finally:
        csv.field_size_limit(previous)


def opened_text(path, form):
    """Open the file as text, decompressed according to its ending."""
    how = {"encoding": ENCODINGS[form["encoding"]], "newline": ""}
    if path.endswith(".gz"):
        import gzip
        return gzip.open(path, "rt", **how)
    if path.endswith(".bz2"):
        import bz2
        return bz2.open(path, "rt", **how)
    if path.endswith(".xz"):
        import lzma
        return lzma.open(path, "rt", **how)
    return open(path, **how)


def column_names(header, width):
    """Names for at least `width` columns: stripped; missing and repeated names are generated.

    The third column without a name is Column3; a second `a` is `a_1`.
    """
    names = []
    for at in range(max(width, len(header))):
        name = (header[at].strip() if at < len(header) else "") or "Column%d" % (at + 1)
        unique, count = name, 0
        while unique in names:
            count += 1
            unique = "%s_%d" % (name, count)
        names.append(unique)
    return names


def not_in_encoding(form, error):
    """Exception for a file with bytes that its encoding cannot have."""
    return DatasetExecutionError("A file is not written in %s: %s. Name its encoding, as in encoding='windows1252'." % (
        form["encoding"], error), error)


class DelimitedReader(object):
    """Reads the files of a table one after another: names and types come from the first rows."""

    def __init__(self, form, problems, wanted=None):
        self._form, self._problems, self._wanted = form, problems, wanted
        self._names, self._types = [], {}
        self._texts, self._is_first, self._engine = TextColumns(), True, "c"

    def read(self, path, rows=None):
        """Frame of one file, at most so many rows; None if it has no rows."""
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
        """Frame of all files, after decisions that need all rows."""
        for name in frame.columns:
            before, kind = frame[name], self._types.get(name, {}).get("kind")
            if kind == "flag":
                after = converted(before, self._types[name], self._problems)
            elif kind == "string" and self._form["empty_as_string"]:
                after = before.where(before.notna(), "")
            else:
                after = with_nulls_as_none(before)
            if after is not before:  # old versions of pandas copy their input
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
        """The file as pandas reads it; rows longer than all before get additional columns."""
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
        """Prepare another attempt, or raise the error of the file."""
        longer = re.search(r"saw (\d+)", str(error))
        if longer is not None:
            self._widen(int(longer.group(1)))
        elif "Too many columns" in str(error) and self._wanted is not None:
            self._wanted = None  # a file with fewer columns than those before can only be read whole
        elif "Too many columns" in str(error) and self._engine == "c":
            self._engine = "python"  # pandas 1.4 and 1.5 do not pad the rows of a file of one or two rows
        else:
            raise DatasetExecutionError("A file cannot be read as delimited text: %s." % error, error)

    def _widen(self, width):
        self._names = column_names(self._names, width)
        self._learn_types([])

    def _used(self):
        """Columns to read; None for all, also if none of the requested ones exists."""
        return [name for name in self._names if name in (self._wanted or ())] or None

    def _is_read_as_number(self, name):
        kind = self._types[name]
        return kind["kind"] in _READ_AS_NUMBERS and kind.get("decimal_mark", ".") == "."


class JsonLinesReader(object):
    """Reads files with one JSON object per line; nested values stay dicts and lists."""

    def __init__(self, form, problems, wanted=None):
        self._form, self._problems, self._wanted = form, problems, wanted

    def read(self, path, rows=None):
        """Frame of one file, at most so many rows; None if it has no rows."""
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


class ParquetReader(object):
    """Reads the Parquet files of a table with the user's pyarrow, only the needed columns and rows."""

    def __init__(self, form, problems, wanted=None):
        self._form, self._problems, self._wanted = form, problems, wanted

    def read(self, path, rows=None):
        pandas_for("Reading Parquet files")
        pyarrow, parquet = parquet_for("Reading Parquet files")
        try:
            file = parquet.ParquetFile(path)
            names = file.schema.to_arrow_schema().names
            columns = [name for name in names if name in (self._wanted or ())] or names
            table = self._table(pyarrow, file, columns, rows)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise DatasetExecutionError("A file cannot be read as Parquet: %s." % error, error)
        return table.to_pandas(ignore_metadata=True, date_as_object=False)

    def settled(self, frame):
        return typed(frame, self._form["column_types"], self._problems)

    @staticmethod
    def _table(pyarrow, file, columns, rows):
        if rows is None:
            return file.read(columns=columns)
        groups, count = [], 0
        while count < rows and len(groups) < file.num_row_groups:
            groups.append(file.read_row_group(len(groups), columns=columns))
            count += groups[-1].num_rows
        table = pyarrow.concat_tables(groups) if groups else file.read(columns=columns)
        return table.slice(0, rows)
