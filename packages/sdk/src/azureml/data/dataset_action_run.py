from azureml.data._refused_kinds import PROFILE, refused_class

DatasetActionRun = refused_class("DatasetActionRun", PROFILE)
