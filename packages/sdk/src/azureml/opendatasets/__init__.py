from azureml._unsupported import unsupported

_ACCOUNT = "azureopendatastorage"
_MNIST_ADDRESS = "https://%s.blob.core.windows.net/mnist/" % _ACCOUNT
_MNIST_FILES = {"train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
                "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")}


class _OpenDataset(object):
    """Data of a public container with many files; can be read through a datastore of the user's own."""

    _container = _folder = None

    def __init__(self, *args, **kwargs):
        raise self._refusal()

    @classmethod
    def get_tabular_dataset(cls, *args, **kwargs):
        raise cls._refusal()

    @classmethod
    def get_file_dataset(cls, *args, **kwargs):
        raise cls._refusal()

    @classmethod
    def _refusal(cls):
        return unsupported(
            "azureml.opendatasets.%s" % cls.__name__, "Its files lie in a public container: store = "
            "Datastore.register_azure_blob_container(ws, 'open_data', %r, %r); Dataset.Tabular.from_parquet_files("
            "(store, '%s/**/*.parquet'))." % (cls._container, _ACCOUNT, cls._folder))


class MNIST(_OpenDataset):
    """Handwritten digits, as a file dataset of the four published files."""

    _container, _folder = "mnist", "processed"

    @classmethod
    def get_file_dataset(cls, dataset_filter="all", enable_telemetry=True):
        """Images and labels of "train", of "test", or "all" four files."""
        from azureml.core import Dataset
        from azureml.exceptions import UserErrorException
        if dataset_filter != "all" and dataset_filter not in _MNIST_FILES:
            raise UserErrorException("dataset_filter must be 'all', 'train' or 'test', got %r." % (dataset_filter,))
        parts = _MNIST_FILES if dataset_filter == "all" else (dataset_filter,)
        return Dataset.File.from_files([_MNIST_ADDRESS + name for part in parts for name in _MNIST_FILES[part]],
                                       validate=False)


class Diabetes(_OpenDataset):
    _container, _folder = "mlsamples", "diabetes"


class NoaaIsdWeather(_OpenDataset):
    _container, _folder = "isdweatherdatacontainer", "ISDWeather"


class NycTlcGreen(_OpenDataset):
    _container, _folder = "nyctlc", "green"


class NycTlcYellow(_OpenDataset):
    _container, _folder = "nyctlc", "yellow"
