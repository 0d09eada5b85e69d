from azureml.data._unsupported import DEFINITION, refused_class

Dataflow = refused_class("Dataflow", DEFINITION)
DatasetDefinition = refused_class("DatasetDefinition", DEFINITION)
