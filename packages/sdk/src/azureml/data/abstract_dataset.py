from azureml.data.dataset_consumption_config import DatasetConsumptionConfig
from azureml.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory
from azureml.exceptions import RunEnvironmentException, UserErrorException  # noqa: F401


class AbstractDataset(object):
    """Base of datasets. An unregistered one has no id, name or version."""

    File = FileDatasetFactory
    Tabular = TabularDatasetFactory
    _can_be_files = False
    _classes = {}

    def __init__(self):
        self._workspace = None
        self._asset = None
        self._sources = []
        self._steps = []
        self._format = None
        self._validates = True

    @property
    def id(self):
        return self._asset["id"] if self._asset else None

    @property
    def name(self):
        return (self._asset["name"] or None) if self._asset else None

    @property
    def version(self):
        return self._asset["version"] if self.name else None

    @property
    def description(self):
        return self._asset["body"].get("description") if self._asset else None

    @property
    def tags(self):
        return dict(self._asset.get("tags") or {}) if self._asset else {}

    @property
    def data_changed_time(self):
        """Time of the newest change of its files, as a datetime in UTC; None if no source reports it."""
        from azureml.data._service_files import resolved
        times = [file["modified_at"] for file in resolved(self) if file.get("modified_at")]
        return utc_time(max(times)) if times else None

    @property
    def partition_keys(self):
        """Names that `partition_format` gives to parts of the files' paths."""
        return self._partitions().keys

    def get_partition_key_values(self, partition_keys=None):
        """Distinct combinations of values as dicts; of all keys, or of the named ones."""
        from azureml.data._service_files import resolved
        return self._partitions().combinations(resolved(self), partition_keys)

    @staticmethod
    def get_by_name(workspace, name, version="latest", **kwargs):
        from azureml._assets import get_asset
        return AbstractDataset._of_asset(
            workspace, get_asset(workspace, "datasets", name, None if version == "latest" else version))

    @staticmethod
    def get_by_id(workspace, id, **kwargs):
        from azureml._assets import get_asset_by_id
        if not isinstance(id, str) or not id:
            raise UserErrorException("id must be the id of a dataset, got %r." % (id,))
        return AbstractDataset._of_asset(workspace, get_asset_by_id(workspace, "datasets", id))

    @staticmethod
    def get_all(workspace):
        """Datasets by name, newest version of each."""
        from azureml._assets import list_assets
        return {asset["name"]: AbstractDataset._of_asset(workspace, asset)
                for asset in list_assets(workspace, "datasets", latest=True)}

    def register(self, workspace, name, description=None, tags=None, create_new_version=False):
        """Store under a name; return a new object with id, name and version. An equal definition keeps its version.

        The version pins the current files: a run that finds others reports it. Raises UserErrorException where the name
        belongs to other data, unless `create_new_version`.
        """
        if not isinstance(name, str) or not name.strip():
            raise UserErrorException("name must say what the dataset is called, got %r." % (name,))
        return AbstractDataset._of_asset(workspace, self._post(
            workspace, name, description, tags=_texts(tags), create_new_version=bool(create_new_version)))

    def unregister_all_versions(self):
        from azureml._assets import delete_asset
        self._need_registered("unregister_all_versions")
        delete_asset(self._workspace, "datasets", self.name)
        self._asset = None

    def update(self, description=None, tags=None):
        self._patch(body={"description": description} if description is not None else None, tags=tags)
        return self

    def add_tags(self, tags=None):
        self._patch(tags=tags)
        return self

    def remove_tags(self, tags=None):
        self._patch(tags={tag: None for tag in tags or []})
        return self

    def as_named_input(self, name):
        return DatasetConsumptionConfig(name, self)

    def __getitem__(self, key):
        """Column, to compare with a value in filter()."""
        from azureml.data._expressions import column
        return column(key)

    def __repr__(self):
        return "%s(id=%r, name=%r, version=%r, source=%r)" % (
            type(self).__name__, self.id, self.name, self.version, [_readable(source) for source in self._sources])

    @staticmethod
    def _of_asset(workspace, asset):
        body = asset["body"]
        made = object.__new__(AbstractDataset._classes[body.get("type", "file")])
        AbstractDataset.__init__(made)
        made._workspace, made._asset = workspace, asset
        made._sources, made._steps = body.get("sources") or [], body.get("steps") or []
        made._format = body.get("format")
        return made

    def _derived(self, step):
        """Unregistered dataset of the same sources with one more step."""
        made = object.__new__(type(self))
        AbstractDataset.__init__(made)
        made._workspace, made._sources, made._format = self._workspace, self._sources, self._format
        made._steps, made._validates = self._steps + [step], self._validates
        return made

    def _saved(self, workspace):
        """This dataset with an id: an unregistered one is stored without a name on first use.

        One of URLs belongs to no workspace: it is stored in each workspace that uses it.
        """
        is_elsewhere = self._asset is not None and self._workspace.name != workspace.name
        if self._asset is None or (is_elsewhere and "url" in self._sources[0]):
            self._asset, self._workspace = self._post(workspace, "", None), workspace
        return self

    def _post(self, workspace, name, description, **more):
        from runyard_sdk.submitter import network_variables
        return workspace._client.post_again(workspace._path("datasets"), dict(
            more, name=name, body=self._body(description), validate=self._validates, variables=network_variables()))

    def _body(self, description=None):
        body = {"type": self._type, "sources": self._sources, "steps": self._steps, "description": description,
                "properties": {}}
        if self._format is not None:
            body["format"] = self._format
        return body

    def _partitions(self):
        from azureml.data._partitions import PartitionFormat
        return PartitionFormat((self._format or {}).get("partition_format"))

    def _patch(self, body=None, tags=None):
        from azureml._assets import patch_asset
        self._need_registered("update")
        self._asset = patch_asset(self._workspace, "datasets", self.name, self.version, body=body, tags=_texts(tags))

    def _need_registered(self, what):
        if not self.name:
            raise UserErrorException("%s needs a registered dataset; call register first." % what)

    def _bind(self, inputs):
        raise UserErrorException("A dataset cannot be an argument by itself: say how the script gets it, with "
                                 "dataset.as_named_input('name').as_mount() or .as_download().")


def utc_time(text):
    """Parse a time of the API into a datetime."""
    from datetime import datetime, timezone
    form = "%Y-%m-%dT%H:%M:%S.%f" if "." in text else "%Y-%m-%dT%H:%M:%S"
    return datetime.strptime(text.rstrip("Z"), form).replace(tzinfo=timezone.utc)


def _texts(tags):
    return {str(key): None if value is None else str(value) for key, value in (tags or {}).items()}


def _readable(source):
    return source.get("url") or "('%s', '%s')" % (source["datastore"], source["path"])


def checked_count(count, what):
    """Check the number of rows or files (`what`) to take or skip."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UserErrorException("count must be a whole number of %s, 0 or more; got %r." % (what, count))
    return count


def checked_share(argument, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UserErrorException("%s must be a number from 0 to 1, got %r." % (argument, value))
    return value


def seed_of(seed):
    """The seed, or a random one, which is stored: every read draws the same rows."""
    if seed is None:
        import os
        return int.from_bytes(os.urandom(4), "big")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UserErrorException("seed must be a whole number, got %r." % (seed,))
    return seed


def checked_columns(columns, argument="columns"):
    """Column names as a list: one name, or a list or tuple of names."""
    names = [columns] if isinstance(columns, str) else columns
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) for name in names):
        raise UserErrorException("%s must be the name of a column or a list of names, got %r." % (argument, columns))
    return list(names)
