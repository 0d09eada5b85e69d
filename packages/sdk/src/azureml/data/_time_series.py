from azureml.exceptions import DatasetTimestampMissingError, UserErrorException


class TimeSeries(object):
    """What a tabular dataset can do once it is known which of its columns holds the time of a row."""

    @property
    def timestamp_columns(self):
        """(the column of times, the column of the partitions' times); None for one that is not set or was dropped."""
        found = (None, None)
        for step in self._steps:
            if step[0] == "timestamps":
                found = (step[1], step[2])
            elif step[0] == "keep_columns":
                found = tuple(name if name in step[1] else None for name in found)
            elif step[0] == "drop_columns":
                found = tuple(None if name in step[1] else name for name in found)
        return found

    def with_timestamp_columns(self, timestamp=None, partition_timestamp=None, validate=False, **kwargs):
        """Say which columns hold times; None for both takes that back. With `validate` they must be of times."""
        timestamp = kwargs.pop("fine_grain_timestamp", timestamp)
        partition_timestamp = kwargs.pop("coarse_grain_timestamp", partition_timestamp)
        if kwargs:
            raise UserErrorException("with_timestamp_columns has no argument %r." % sorted(kwargs)[0])
        for argument, name in (("timestamp", timestamp), ("partition_timestamp", partition_timestamp)):
            if name is not None and (not isinstance(name, str) or not name):
                raise UserErrorException("%s must be the name of a column, got %r." % (argument, name))
        if timestamp is not None and timestamp == partition_timestamp:
            raise UserErrorException("partition_timestamp must be another column than timestamp, %r." % timestamp)
        made = self._derived(["timestamps", timestamp, partition_timestamp])
        if validate:
            _check_times(self, [name for name in (timestamp, partition_timestamp) if name])
        return made

    def time_before(self, end_time, include_boundary=True, validate=True):
        """The rows of before `end_time`."""
        return self._in_time("time_before", None, _time("end_time", end_time), include_boundary)

    def time_after(self, start_time, include_boundary=True, validate=True):
        """The rows of after `start_time`."""
        return self._in_time("time_after", _time("start_time", start_time), None, include_boundary)

    def time_between(self, start_time, end_time, include_boundary=True, validate=True):
        start, end = _time("start_time", start_time), _time("end_time", end_time)
        if start > end:
            raise UserErrorException("start_time %s is later than end_time %s." % (start, end))
        return self._in_time("time_between", start, end, include_boundary)

    def time_recent(self, time_delta, include_boundary=True, validate=True):
        """The rows of the last `time_delta` before now (in UTC)."""
        from datetime import datetime, timedelta
        if not isinstance(time_delta, timedelta):
            raise UserErrorException("time_delta must be a datetime.timedelta, got %r." % (time_delta,))
        return self._in_time("time_recent", datetime.utcnow() - time_delta, None, include_boundary)

    def _in_time(self, method, start, end, include_boundary):
        fine, coarse = self.timestamp_columns
        if fine is None and coarse is None:
            raise DatasetTimestampMissingError(
                "%s needs to know which column holds the times. Say so: dataset.with_timestamp_columns('time')." % (
                    method,))
        made = self
        if coarse is not None:
            begin = None if start is None else _begin_of_part(self, coarse, start)
            made = made._derived(["time", coarse, _text(begin), _text(end), True])
        if fine is not None:
            made = made._derived(["time", fine, _text(start), _text(end), bool(include_boundary)])
        return made


def _begin_of_part(dataset, key, time):
    """The time that the partition with this time in it is named by: of 2019-05-17 in {t:yyyy/MM}, 2019-05-01."""
    from datetime import datetime
    form = dataset._partitions().time_formats.get(key)
    return datetime.strptime(time.strftime(form), form) if form else time


def _time(argument, value):
    """A datetime in UTC without a zone."""
    from datetime import datetime, timezone
    if not isinstance(value, datetime):
        raise UserErrorException("%s must be a datetime.datetime, got %r." % (argument, value))
    return value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo is not None else value


def _text(time):
    return None if time is None else time.isoformat()


def _check_times(dataset, names):
    from azureml.data.dataset_error_handling import DatasetValidationError
    frame = dataset.take(1).to_pandas_dataframe()
    wrong = [name for name in names if name not in frame.columns or frame[name].dtype.kind != "M"]
    if wrong:
        raise DatasetValidationError("The columns %s are not there or hold no times. Columns of times are: %s." % (
            ", ".join(map(repr, wrong)),
            ", ".join(repr(name) for name in frame.columns if frame[name].dtype.kind == "M") or "none"))
