from azureml._unsupported import not_yet_module

raise not_yet_module(__name__)
