from azureml._not_yet import not_yet_class

DatacacheSingularitySettings = not_yet_class("DatacacheSingularitySettings", 2, "azureml.data")
SingularityPriority = not_yet_class("SingularityPriority", 2, "azureml.data")
SingularitySlaTier = not_yet_class("SingularitySlaTier", 2, "azureml.data")
