"""Data caches: Runyard needs none."""
from azureml.data._refused_kinds import CACHE, refused_class

DatacacheStore = refused_class("DatacacheStore", CACHE)
DatacacheHydrationTracker = refused_class("DatacacheHydrationTracker", CACHE)
