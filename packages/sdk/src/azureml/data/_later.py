"""Data caches: names that part 2 fills or that Runyard needs no counterpart for."""
from azureml._not_yet import not_yet_class

DatacacheStore = not_yet_class("DatacacheStore", 2, "azureml.data")
DatacacheHydrationTracker = not_yet_class("DatacacheHydrationTracker", 2, "azureml.data")
