from azureml.data._refused_kinds import DATABASE, refused_class

StoredProcedureParameter = refused_class("StoredProcedureParameter", DATABASE)
StoredProcedureParameterType = refused_class("StoredProcedureParameterType", DATABASE)
