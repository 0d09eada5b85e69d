from azureml.exceptions import UserErrorException  # noqa: F401


class DatacacheConsumptionConfig(object):
    """A dataset behind a cache. Runyard caches every dataset; using it raises."""

    def __init__(self, datacache_store, dataset, mode="mount", replica_count=None, path_on_compute=None, **kwargs):
        self.datacache_store = datacache_store
        self.dataset = dataset
        self.datacache_id = None
        self.mode = mode
        self.replica_count = replica_count
        self.path_on_compute = path_on_compute

    def as_mount(self, path_on_compute=None, replica_count=None):
        return DatacacheConsumptionConfig(self.datacache_store, self.dataset, "mount", replica_count, path_on_compute)

    def _bind(self, inputs):
        from azureml._unsupported import unsupported
        raise unsupported("A data cache", "Datasets are cached by themselves; use dataset.as_mount().")
