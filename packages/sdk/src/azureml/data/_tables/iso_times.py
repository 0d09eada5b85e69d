"""Times in columns of Arrow texts, read without an object for each value."""


def iso_times(series):
    """The column's times as datetime64[ns] in UTC, where all are ISO 8601 texts such as inference knows; else None."""
    if getattr(series.dtype, "storage", None) != "pyarrow":
        return None
    import numpy
    import pandas
    texts = series.array.__arrow_array__()
    times, at = numpy.empty(len(texts), "datetime64[ns]"), 0
    for part in getattr(texts, "chunks", [texts]):
        found = _times(part)
        if found is None:
            return None
        times[at:at + len(part)] = found.to_numpy(zero_copy_only=False)
        at += len(part)
    return pandas.Series(times, index=series.index, name=series.name)


def _times(texts):
    """An Arrow array of the times, or None: Arrow itself also takes hours alone, as time and as offset of a zone."""
    import pyarrow
    from pyarrow import compute
    span = compute.min_max(texts).as_py()
    if span["min"] is not None and (span["min"] < "1678" or span["max"] >= "2262"):
        return None  # not every version of Arrow sees that nanoseconds cannot hold these
    is_zoned = (span["min"] or "").endswith("Z")
    if is_zoned and not compute.all(compute.ends_with(texts, "Z")).as_py():
        return None
    hours_alone = len("2019-01-02 03Z") if is_zoned else len("2019-01-02 03")
    if compute.any(compute.equal(compute.binary_length(texts), hours_alone)).as_py():
        return None
    try:
        return compute.cast(texts, pyarrow.timestamp("ns", "UTC" if is_zoned else None))
    except pyarrow.ArrowInvalid:
        return None
