from azureml.data.data_reference import DataReference, checked_path


class DataPath(object):
    """A path on a datastore."""

    def __init__(self, datastore=None, path_on_datastore=None, name=None):
        self._datastore = datastore
        self._path_on_datastore = checked_path("path_on_datastore", path_on_datastore)
        self._name = name

    @property
    def datastore_name(self):
        return self._datastore.name if self._datastore is not None else None

    @property
    def path_on_datastore(self):
        return self._path_on_datastore

    def create_data_reference(self, data_reference_name=None, datapath_compute_binding=None):
        binding = datapath_compute_binding or DataPathComputeBinding()
        return binding.create_data_reference(data_reference_name, self)

    @staticmethod
    def create_from_data_reference(data_reference):
        return DataPath(data_reference.datastore, data_reference.path_on_datastore, data_reference.data_reference_name)

    def __repr__(self):
        return "DataPath(datastore=%r, path_on_datastore=%r)" % (self.datastore_name, self._path_on_datastore)


class DataPathComputeBinding(object):
    """How a run accesses a DataPath."""

    def __init__(self, mode="mount", path_on_compute=None, overwrite=False):
        self._mode = mode
        self._path_on_compute = path_on_compute
        self._overwrite = overwrite

    def create_data_reference(self, data_reference_name=None, datapath=None):
        return DataReference(datapath._datastore, data_reference_name, datapath.path_on_datastore, self._mode,
                             self._path_on_compute, self._overwrite)

    @staticmethod
    def create_from_data_reference(data_reference):
        return DataPathComputeBinding(data_reference.mode, data_reference.path_on_compute, data_reference.overwrite)
