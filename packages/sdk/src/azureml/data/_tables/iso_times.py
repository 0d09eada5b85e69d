"""Times in columns of Arrow texts, read without an object for each value."""


def iso_times(series):
    """The column's times as datetime64[ns] in UTC, where all are ISO 8601 texts such as inference knows; else None."""
    if getattr(series.dtype, "storage", None) != "pyarrow":
        return None
    import pandas
    import pyarrow
    from pyarrow import compute
    texts = series.array.__arrow_array__()
    span = compute.min_max(texts).as_py()
    if span["min"] is None or span["min"] < "1678" or span["max"] >= "2262":  # not every version sees an overflow
        return None
    is_zoned = compute.all(compute.ends_with(texts, "Z")).as_py()
    hours_alone = len("2019-01-02 03Z") if is_zoned else len("2019-01-02 03")
    if compute.any(compute.equal(compute.binary_length(texts), hours_alone)).as_py():
        return None
    try:
        times = compute.cast(texts, pyarrow.timestamp("ns", "UTC" if is_zoned else None))
    except pyarrow.ArrowInvalid:
        return None
    return pandas.Series(times.to_numpy(), index=series.index, name=series.name)
