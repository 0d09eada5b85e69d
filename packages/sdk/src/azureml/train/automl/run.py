from azureml._not_yet import not_yet_class

AutoMLRun = not_yet_class("AutoMLRun", "azureml.train.automl")
