from azureml._not_yet import not_yet_class

StoredProcedureParameter = not_yet_class("StoredProcedureParameter", 2, "azureml.data")
StoredProcedureParameterType = not_yet_class("StoredProcedureParameterType", 2, "azureml.data")
