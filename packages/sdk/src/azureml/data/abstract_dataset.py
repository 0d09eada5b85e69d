from azureml.data.dataset_consumption_config import DatasetConsumptionConfig
from azureml.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory
from azureml.exceptions import RunEnvironmentException, UserErrorException  # noqa: F401


class AbstractDataset(object):
    """What every dataset has. One that was never registered has no id, name or version."""

    File = FileDatasetFactory
    Tabular = TabularDatasetFactory
    _can_be_files = False
    _classes = {}

    def __init__(self):
        self._workspace = None
        self._asset = None
        self._sources = []

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
        return self._asset["modified_at"] if self._asset else None

    @property
    def partition_keys(self):
        return []

    def get_partition_key_values(self, partition_keys=None):
        return []

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
        """Name to dataset, the newest version of each."""
        from azureml._assets import list_assets
        return {asset["name"]: AbstractDataset._of_asset(workspace, asset)
                for asset in list_assets(workspace, "datasets", latest=True)}

    def register(self, workspace, name, description=None, tags=None, create_new_version=False):
        """Store it under a name; a new object with id, name and version. The same definition keeps its version."""
        from azureml._assets import create_asset, find_asset
        if not isinstance(name, str) or not name.strip():
            raise UserErrorException("name must say what the dataset is called, got %r." % (name,))
        present = find_asset(workspace, "datasets", name)
        if present is not None:
            if present["body"].get("sources") == self._sources and present["body"].get("type") == self._type:
                return AbstractDataset._of_asset(workspace, present)
            if not create_new_version:
                raise UserErrorException("There is a dataset %r already, with other data. Pass create_new_version=True "
                                         "to register this one as its next version." % name)
        return AbstractDataset._of_asset(workspace, create_asset(
            workspace, "datasets", name, self._body(description), tags=_texts(tags)))

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
        from azureml._not_yet import not_yet
        raise not_yet("dataset[%r]" % (key,), 2)

    def __repr__(self):
        return "%s(id=%r, name=%r, version=%r, source=%r)" % (
            type(self).__name__, self.id, self.name, self.version, [_readable(source) for source in self._sources])

    @staticmethod
    def _of_asset(workspace, asset):
        made = object.__new__(AbstractDataset._classes[asset["body"].get("type", "file")])
        AbstractDataset.__init__(made)
        made._workspace, made._asset, made._sources = workspace, asset, asset["body"].get("sources") or []
        return made

    def _saved(self, workspace):
        """This dataset with an id: an unregistered one is stored without a name on first use."""
        if self._asset is None:
            from azureml._assets import create_asset
            self._workspace = workspace
            self._asset = create_asset(workspace, "datasets", "", self._body(None))
        return self

    def _body(self, description):
        return {"type": self._type, "sources": self._sources, "description": description, "properties": {}}

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


def _texts(tags):
    return {str(key): None if value is None else str(value) for key, value in (tags or {}).items()}


def _readable(source):
    return source.get("url") or "('%s', '%s')" % (source["datastore"], source["path"])
