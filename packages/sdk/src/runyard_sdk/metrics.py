"""Packed metrics (docs/wire.md) in the shapes that SDK v1's get_metrics returns."""

import json
import sys

NAMES_A_PAGE = 2000
_ARRAY_TYPES = {"i": "q", "f": "d"}


def read_all(client, path, **query):
    """`[(header of one metric, its values), ...]` of all pages of `path`."""
    found, after = [], 0
    while after is not None:
        content = client.read(path, limit=NAMES_A_PAGE, after=after, **query)
        found += unpacked(content)
        after = _header(content).get("next")
    return found


def unpacked(content):
    """`[(header of one metric, its values), ...]` of a packed response."""
    end = content.index(b"\n")
    header = _header(content)
    found, position = [], end + 1
    for metric in header["metrics"]:
        payload = content[position:position + metric["bytes"]]
        position += metric["bytes"]
        found.append((metric, _values(metric["type"], payload)))
    return found


def _header(content):
    return json.loads(content[:content.index(b"\n")].decode("utf-8"))


def shaped(series, run_id):
    """`{name: value}` as v1 returns it, from one run's `(header, values)` pairs."""
    result = {}
    for metric, values in series:
        if values:
            result[metric["name"]] = _SHAPES[metric["kind"]](values, run_id)
    return result


def artifact_address(run_id, path):
    return "aml://artifactId/ExperimentRun/dcid.{}/{}".format(run_id, path)


def _values(kind, payload):
    if kind == "j":
        return json.loads(payload.decode("utf-8"))
    from array import array

    values = array(_ARRAY_TYPES[kind])
    values.frombytes(payload)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def _one_or_all(values):
    return values[0] if len(values) == 1 else values


def _scalars(values, run_id):
    return _one_or_all(values)


def _images(values, run_id):
    return _one_or_all([artifact_address(run_id, path) for path in values])


def _rows(rows, run_id):
    columns = {name: None for row in rows for name in row}
    return {name: _one_or_all([row.get(name) for row in rows]) for name in columns}


def _tables(tables, run_id):
    columns = {}
    for table in tables:
        for name, values in table.items():
            columns.setdefault(name, []).extend(values if isinstance(values, list) else [values])
    return {name: _one_or_all(values) for name, values in columns.items()}


_SHAPES = {"scalar": _scalars, "list": _scalars, "row": _rows, "table": _tables, "image": _images}
