from azureml._not_yet import not_yet_class

DatasetActionRun = not_yet_class("DatasetActionRun", 2, "azureml.data")
