from azureml.data._unsupported import CACHE, refused_class

DatacacheSingularitySettings = refused_class("DatacacheSingularitySettings", CACHE)
SingularityPriority = refused_class("SingularityPriority", CACHE)
SingularitySlaTier = refused_class("SingularitySlaTier", CACHE)
