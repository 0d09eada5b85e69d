import os

from azureml._unsupported import unsupported
from azureml.data.abstract_dataset import checked_count, checked_share, seed_of
from azureml.data.abstract_dataset import AbstractDataset
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig
from azureml.exceptions import AzureMLException, UserErrorException  # noqa: F401

_METADATA = ("Path", "Size", "LastModifiedTime", "CanSeek")


class FileDataset(AbstractDataset):
    """Files of URLs or datastores, under the paths that to_path() lists."""

    _can_be_files = True
    _type = "file"

    def __init__(self):
        super(FileDataset, self).__init__()

    def to_path(self):
        """Path of each file below the dataset's root, with a leading slash."""
        from azureml.data._service_files import resolved
        return ["/" + file["path"] for file in resolved(self)]

    def download(self, target_path=None, overwrite=False, ignore_not_found=False):
        """Download all files below target_path (a new temporary folder if None), in parallel; return their absolute
        paths.

        An interrupted download resumes when called again. Raises UserErrorException for an existing file unless
        `overwrite`, and for a file missing at its source unless `ignore_not_found`.
        """
        from azureml.data._service_files import fetch_all, local_path, resolution
        if target_path is None:
            import tempfile
            target_path = tempfile.mkdtemp()
        found = resolution(self)
        _warn_of(found.get("changes"))
        for file in found["files"] if not overwrite else []:
            target = local_path(target_path, file["path"])
            if os.path.exists(target):
                raise UserErrorException("%r exists already; pass overwrite=True to replace it." % target)
        return fetch_all(self, found["files"], target_path, missing=[] if ignore_not_found else None)

    def mount(self, mount_point=None, **kwargs):
        """Context object whose mount_point holds the files, read-only, between start() and stop()."""
        from azureml.data.context_managers import MountedFiles
        return MountedFiles(self, mount_point)

    def as_mount(self, path_on_compute=None):
        return self._unnamed_input().as_mount(path_on_compute)

    def as_download(self, path_on_compute=None):
        return self._unnamed_input().as_download(path_on_compute)

    def as_hdfs(self):
        return self._unnamed_input().as_hdfs()

    def as_cache(self, datacache_store):
        raise unsupported("A data cache", "Datasets are cached by themselves; use as_mount().")

    def hydrate(self, datacache_store, replica_count=None):
        raise unsupported("A data cache", "Datasets are cached by themselves; use as_mount().")

    def take(self, count):
        """The first `count` files."""
        return self._derived(["take", checked_count(count, "files")])

    def skip(self, count):
        """All but the first `count` files."""
        return self._derived(["skip", checked_count(count, "files")])

    def take_sample(self, probability, seed=None):
        """Each file with this probability; the same files for the same seed."""
        return self._derived(["sample", checked_share("probability", probability), seed_of(seed), True])

    def random_split(self, percentage, seed=None):
        """Two complementary datasets; the first has about this share (0 to 1) of the files."""
        share, seed = checked_share("percentage", percentage), seed_of(seed)
        return self._derived(["sample", share, seed, True]), self._derived(["sample", share, seed, False])

    def filter(self, expression):
        """Files that match an expression, such as dataset.file_metadata('Size') > 1024.

        Columns are those of file_metadata and the partition keys: dataset['year'] == '2019'.
        """
        from azureml.data._expressions import checked
        from azureml.data._service_files import resolved
        expression = checked(expression, "expression")
        return self._derived(["filter", self._partitions().on_paths(expression, _METADATA, lambda: resolved(self))])

    def file_metadata(self, col):
        """Column of file metadata for filter(): 'Path', 'Size', 'LastModifiedTime' or 'CanSeek'."""
        from azureml.data._expressions import column
        if col not in _METADATA:
            raise UserErrorException("col must be one of %s, got %r." % (", ".join(map(repr, _METADATA)), col))
        return column(col)

    @classmethod
    def _of_sources(cls, sources, workspace=None):
        made = cls()
        made._sources, made._workspace = sources, workspace
        return made

    def _unnamed_input(self):
        return DatasetConsumptionConfig("input__" + os.urandom(4).hex(), self)


def _warn_of(changes):
    if changes:
        import warnings
        warnings.warn("This version of the dataset was made of other data: " + " ".join(changes), stacklevel=3)


AbstractDataset._classes["file"] = FileDataset
