"""The first rows of a delimited file, with the standard library alone."""
import csv
import sys

from azureml.data._tabular_format import ENCODINGS, delimiter_and_quoting
from azureml.data._tables.inference import SAMPLE_ROWS
from azureml.data.dataset_error_handling import DatasetExecutionError


def first_rows(path, form):
    """The header and first rows as lists of text, and how many blank lines stand before them."""
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
    """The file as text, unpacked where its name says that it is packed."""
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
    """Names for `width` columns or more: blanks around them fall away, a name that is missing or there already is made.

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
    """The error for a file that has other bytes than its encoding can have."""
    return DatasetExecutionError("A file is not written in %s: %s. Name its encoding, as in encoding='windows1252'." % (
        form["encoding"], error), error)
