import os

from azureml._not_yet import not_yet, unsupported
from azureml.data._file_layout import matching, stored_path, web_path
from azureml.data.abstract_dataset import AbstractDataset
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig
from azureml.exceptions import AzureMLException, UserErrorException  # noqa: F401


class FileDataset(AbstractDataset):
    """Files of the web or of datastores, under the paths that to_path() lists."""

    _can_be_files = True
    _type = "file"

    def __init__(self):
        super(FileDataset, self).__init__()

    def to_path(self):
        """The path of each file below the dataset's root, with a leading slash."""
        return ["/" + path for path, _ in self._files()]

    def download(self, target_path=None, overwrite=False, ignore_not_found=False):
        """Fetch all files below target_path (a new temporary folder if None); their absolute paths."""
        if target_path is None:
            import tempfile
            target_path = tempfile.mkdtemp()
        files = [(os.path.join(os.path.abspath(target_path), *path.split("/")), source)
                 for path, source in self._files()]
        if not overwrite:
            for target, _ in files:
                if os.path.exists(target):
                    raise UserErrorException("%r exists already; pass overwrite=True to replace it." % target)
        for target, source in files:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            source(target)
        return [target for target, _ in files]

    def mount(self, mount_point=None, **kwargs):
        """A context object whose mount_point holds the files, read-only, between start() and stop()."""
        from azureml.data.context_managers import MountedFiles
        return MountedFiles(self, mount_point)

    def as_mount(self, path_on_compute=None):
        return self._unnamed_input().as_mount(path_on_compute)

    def as_download(self, path_on_compute=None):
        return self._unnamed_input().as_download(path_on_compute)

    def as_hdfs(self):
        raise unsupported("as_hdfs()", "There is no HDFS here; use as_mount() or as_download().")

    def as_cache(self, datacache_store):
        raise unsupported("A data cache", "Datasets are cached by themselves; use as_mount().")

    def hydrate(self, datacache_store, replica_count=None):
        raise unsupported("A data cache", "Datasets are cached by themselves; use as_mount().")

    def take(self, count):
        raise not_yet("FileDataset.take", 2)

    def skip(self, count):
        raise not_yet("FileDataset.skip", 2)

    def take_sample(self, probability, seed=None):
        raise not_yet("FileDataset.take_sample", 2)

    def random_split(self, percentage, seed=None):
        raise not_yet("FileDataset.random_split", 2)

    def filter(self, expression):
        raise not_yet("FileDataset.filter", 2)

    def file_metadata(self, col):
        raise not_yet("FileDataset.file_metadata", 2)

    @classmethod
    def _of_sources(cls, sources, workspace=None):
        made = cls()
        made._sources, made._workspace = sources, workspace
        return made

    def _unnamed_input(self):
        return DatasetConsumptionConfig("input__" + os.urandom(4).hex(), self)

    def _files(self):
        """(path below the root, a function that writes the file to a target) of each file, in order."""
        urls = [source["url"] for source in self._sources if "url" in source]
        if urls:
            return [(web_path(urls, url), _web_fetcher(url)) for url in urls]
        found = []
        for source in self._sources:
            found.extend(self._stored_files(source, len(self._sources) == 1))
        return found

    def _stored_files(self, source, is_only):
        from azureml.core.datastore import Datastore
        from azureml.data._file_layout import fixed_part
        store = Datastore.get(self._workspace, source["datastore"])
        names = matching(store._file_names(fixed_part(source["path"])), source["path"])
        return [(stored_path(is_only, store.name, source["path"], name), _store_fetcher(store, name))
                for name in names]


def _web_fetcher(url):
    def fetch(target):
        import shutil
        from urllib.error import URLError
        from urllib.request import urlopen
        partial = "%s.%d.part" % (target, os.getpid())
        try:
            with urlopen(url) as answer, open(partial, "wb") as sink:
                shutil.copyfileobj(answer, sink)
            os.replace(partial, target)
        except URLError as error:
            raise UserErrorException("%s could not be downloaded: %s." % (url, getattr(error, "reason", error)))
        finally:
            if os.path.exists(partial):
                os.remove(partial)
    return fetch


def _store_fetcher(store, name):
    def fetch(target):
        from runyard_sdk.client import quoted_path
        store.workspace._client.download(store._route() + "/" + quoted_path(name), target)
    return fetch


AbstractDataset._classes["file"] = FileDataset
