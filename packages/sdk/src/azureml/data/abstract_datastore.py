class AbstractDatastore(object):
    """A storage location of the workspace."""

    def __init__(self, workspace, name, datastore_type):
        self._workspace = workspace
        self._name = name
        self._datastore_type = datastore_type
        self._credentials = {}
        self._has_stored_credentials = False

    @property
    def workspace(self):
        return self._workspace

    @workspace.setter
    def workspace(self, workspace):
        self._workspace = workspace

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, name):
        self._name = name

    @property
    def datastore_type(self):
        return self._datastore_type

    @datastore_type.setter
    def datastore_type(self, datastore_type):
        self._datastore_type = datastore_type

    def set_as_default(self):
        """Make this the result of ws.get_default_datastore()."""
        from azureml._assets import patch_asset
        patch_asset(self.workspace, "datastores", self.name, body={"is_default": True})

    def unregister(self):
        """Remove the datastore and its credentials. The data is not deleted."""
        from azureml._assets import delete_asset
        delete_asset(self.workspace, "datastores", self.name)

    def _credential(self, name):
        """One credential: as given, or as registered, which is requested once and cached in this object."""
        if self._has_stored_credentials:
            stored = self.workspace._client.get(self.workspace._path("datastores", self.name, "credentials"))
            self._credentials = dict(self._credentials, **stored)
            self._has_stored_credentials = False
        return self._credentials.get(name)

    def __repr__(self):
        return "%s(name=%r, workspace=%r)" % (type(self).__name__, self.name, getattr(self.workspace, "name", None))
