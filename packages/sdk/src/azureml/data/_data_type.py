from azureml._not_yet import not_yet


class DataType(object):
    """Column types of tabular datasets, which come with part 2."""

    @staticmethod
    def to_bool():
        raise not_yet("DataType.to_bool", 2)

    @staticmethod
    def to_datetime(formats=None):
        raise not_yet("DataType.to_datetime", 2)

    @staticmethod
    def to_float(decimal_mark="."):
        raise not_yet("DataType.to_float", 2)

    @staticmethod
    def to_long():
        raise not_yet("DataType.to_long", 2)

    @staticmethod
    def to_stream(workspace, escaped=False):
        raise not_yet("DataType.to_stream", 2)

    @staticmethod
    def to_string():
        raise not_yet("DataType.to_string", 2)
