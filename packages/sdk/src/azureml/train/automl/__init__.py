from azureml._not_yet import not_yet_class

AutoMLConfig = not_yet_class("AutoMLConfig", "azureml.train.automl")
