from azureml.data._unsupported import PROFILE, refused_class

DatasetActionRun = refused_class("DatasetActionRun", PROFILE)
