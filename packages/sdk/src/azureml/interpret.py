from azureml._not_yet import not_yet_module

raise not_yet_module(__name__)
