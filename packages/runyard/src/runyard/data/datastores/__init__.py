from runyard.data.datastores.factory import open_store

__all__ = ["open_store"]
