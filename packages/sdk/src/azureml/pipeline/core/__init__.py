"""Pipeline classes: importable, not implemented yet."""

from azureml._unsupported import not_yet_class

InputPortBinding = not_yet_class("InputPortBinding", "azureml.pipeline.core")
InputPortDef = not_yet_class("InputPortDef", "azureml.pipeline.core")
Module = not_yet_class("Module", "azureml.pipeline.core")
ModuleVersion = not_yet_class("ModuleVersion", "azureml.pipeline.core")
ModuleVersionDescriptor = not_yet_class("ModuleVersionDescriptor", "azureml.pipeline.core")
OutputPortBinding = not_yet_class("OutputPortBinding", "azureml.pipeline.core")
OutputPortDef = not_yet_class("OutputPortDef", "azureml.pipeline.core")
Pipeline = not_yet_class("Pipeline", "azureml.pipeline.core")
PipelineData = not_yet_class("PipelineData", "azureml.pipeline.core")
PipelineDataset = not_yet_class("PipelineDataset", "azureml.pipeline.core")
PipelineDraft = not_yet_class("PipelineDraft", "azureml.pipeline.core")
PipelineEndpoint = not_yet_class("PipelineEndpoint", "azureml.pipeline.core")
PipelineParameter = not_yet_class("PipelineParameter", "azureml.pipeline.core")
PipelineRun = not_yet_class("PipelineRun", "azureml.pipeline.core")
PipelineStep = not_yet_class("PipelineStep", "azureml.pipeline.core")
PortDataReference = not_yet_class("PortDataReference", "azureml.pipeline.core")
PublishedPipeline = not_yet_class("PublishedPipeline", "azureml.pipeline.core")
Schedule = not_yet_class("Schedule", "azureml.pipeline.core")
ScheduleRecurrence = not_yet_class("ScheduleRecurrence", "azureml.pipeline.core")
StepRun = not_yet_class("StepRun", "azureml.pipeline.core")
StepRunOutput = not_yet_class("StepRunOutput", "azureml.pipeline.core")
StepSequence = not_yet_class("StepSequence", "azureml.pipeline.core")
TimeZone = not_yet_class("TimeZone", "azureml.pipeline.core")
TrainingOutput = not_yet_class("TrainingOutput", "azureml.pipeline.core")
__all__ = ["InputPortBinding", "Module", "ModuleVersion", "ModuleVersionDescriptor", "OutputPortBinding", "Pipeline",
           "PipelineData", "PipelineDataset", "PipelineDraft", "PipelineEndpoint", "PipelineParameter", "PipelineRun",
           "PipelineStep", "PortDataReference", "PublishedPipeline", "Schedule", "ScheduleRecurrence", "StepRun",
           "StepRunOutput", "StepSequence", "TimeZone", "TrainingOutput"]
