from azureml._not_yet import not_yet_class

Dataflow = not_yet_class("Dataflow", 2, "azureml.data")
DatasetDefinition = not_yet_class("DatasetDefinition", 2, "azureml.data")
