from azureml._unsupported import not_yet_class

AutoMLConfig = not_yet_class("AutoMLConfig", "azureml.train.automl")
