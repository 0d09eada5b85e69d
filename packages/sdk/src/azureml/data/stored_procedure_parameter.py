from azureml.data._unsupported import DATABASE, refused_class

StoredProcedureParameter = refused_class("StoredProcedureParameter", DATABASE)
StoredProcedureParameterType = refused_class("StoredProcedureParameterType", DATABASE)
