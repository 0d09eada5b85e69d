from azureml._unsupported import unsupported
from azureml.exceptions import AzureMLException  # noqa: F401


class DatasetProfile(object):
    """Statistics of a table: `columns` maps each name to its ColumnProfile."""

    def __init__(self, saved_dataset_id, run_id, experiment_name, workspace, profile):
        self.saved_dataset_id = saved_dataset_id
        self.workspace = workspace
        self.columns = profile

    def get_producing_run(self):
        raise unsupported("get_producing_run()", "A profile is reckoned where it is asked for, by no run.")

    def is_stale(self):
        """False: a profile is computed when requested."""
        return False

    def to_pandas_dataframe(self):
        """One row per column of the table."""
        from azureml.data._tables.libraries import pandas_for
        pandas = pandas_for("A profile as a table")
        return pandas.DataFrame([vars(column) for column in self.columns.values()], index=list(self.columns))

    def __repr__(self):
        return "DatasetProfile(%s)" % ", ".join(map(repr, self.columns.values()))

    @classmethod
    def _of(cls, dataset, workspace):
        frame = dataset.to_pandas_dataframe()
        return cls(dataset.id, None, None, workspace or dataset._workspace,
                   {name: ColumnProfile(frame[name]) for name in frame.columns})


class ColumnProfile(object):
    """Counts, range and quantiles of one column; None for what its type does not have."""

    def __init__(self, series):
        known = series[series.notna()]
        self.column_name = series.name
        self.type = str(series.dtype)
        self.count = len(series)
        self.missing_count = int(series.isna().sum())
        self.not_missing_count = len(known)
        self.percent_missing = self.missing_count / float(len(series)) if len(series) else 0.0
        self.unique_values = _unique(known)
        is_ordered = series.dtype.kind in "iufM" and len(known) > 0
        self.min = known.min() if is_ordered else None
        self.max = known.max() if is_ordered else None
        is_number = series.dtype.kind in "iuf" and len(known) > 0
        self.mean = float(known.mean()) if is_number else None
        self.std = float(known.std()) if is_number else None
        self.quantiles = {share: float(known.quantile(share)) for share in _SHARES} if is_number else None

    def __repr__(self):
        return "ColumnProfile(%r, %s, count=%d, missing=%d, min=%r, max=%r)" % (
            self.column_name, self.type, self.count, self.missing_count, self.min, self.max)


_SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def _unique(values):
    """Number of distinct values; None for lists and dicts, which are not hashable."""
    try:
        return int(values.nunique())
    except TypeError:
        return None
