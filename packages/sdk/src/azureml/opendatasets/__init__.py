from azureml._not_yet import not_yet, not_yet_class

_MNIST_ADDRESS = "https://azureopendatastorage.blob.core.windows.net/mnist/"
_MNIST_FILES = {"train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
                "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")}


class MNIST(object):
    """The handwritten digits, as a file dataset of the four files that the web holds."""

    def __init__(self, *args, **kwargs):
        raise not_yet("An MNIST object", 2)

    @classmethod
    def get_file_dataset(cls, dataset_filter="all", enable_telemetry=True):
        """Images and labels for "train", for "test", or "all" four files."""
        from azureml.core import Dataset
        from azureml.exceptions import UserErrorException
        if dataset_filter != "all" and dataset_filter not in _MNIST_FILES:
            raise UserErrorException("dataset_filter must be 'all', 'train' or 'test', got %r." % (dataset_filter,))
        parts = _MNIST_FILES if dataset_filter == "all" else (dataset_filter,)
        return Dataset.File.from_files([_MNIST_ADDRESS + name for part in parts for name in _MNIST_FILES[part]])

    @classmethod
    def get_tabular_dataset(cls, *args, **kwargs):
        raise not_yet("MNIST.get_tabular_dataset", 2)


NycTlcGreen = not_yet_class("NycTlcGreen", None, "azureml.opendatasets")
NycTlcYellow = not_yet_class("NycTlcYellow", None, "azureml.opendatasets")
NoaaIsdWeather = not_yet_class("NoaaIsdWeather", None, "azureml.opendatasets")
Diabetes = not_yet_class("Diabetes", None, "azureml.opendatasets")
