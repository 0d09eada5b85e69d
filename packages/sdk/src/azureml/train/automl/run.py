from azureml._unsupported import not_yet_class

AutoMLRun = not_yet_class("AutoMLRun", "azureml.train.automl")
