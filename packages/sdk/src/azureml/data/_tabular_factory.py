from azureml._not_yet import not_yet


def _tabular(name):
    def refuse(*args, **kwargs):
        raise not_yet("Dataset.Tabular.%s" % name, 2)
    refuse.__name__ = name
    return staticmethod(refuse)


class TabularDatasetFactory(object):
    """Tabular datasets come with part 2; each method says so."""

    from_delimited_files = _tabular("from_delimited_files")
    from_json_lines_files = _tabular("from_json_lines_files")
    from_parquet_files = _tabular("from_parquet_files")
    from_sql_query = _tabular("from_sql_query")
    register_dask_dataframe = _tabular("register_dask_dataframe")
    register_pandas_dataframe = _tabular("register_pandas_dataframe")
    register_spark_dataframe = _tabular("register_spark_dataframe")
