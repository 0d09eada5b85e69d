from azureml.pipeline.core._names import (
    InputPortBinding, Module, ModuleVersion, ModuleVersionDescriptor, OutputPortBinding, Pipeline, PipelineData,
    PipelineDataset, PipelineDraft, PipelineEndpoint, PipelineParameter, PipelineRun, PipelineStep, PortDataReference,
    PublishedPipeline, Schedule, ScheduleRecurrence, StepRun, StepRunOutput, StepSequence, TimeZone, TrainingOutput)

__all__ = ["InputPortBinding", "Module", "ModuleVersion", "ModuleVersionDescriptor", "OutputPortBinding", "Pipeline",
           "PipelineData", "PipelineDataset", "PipelineDraft", "PipelineEndpoint", "PipelineParameter", "PipelineRun",
           "PipelineStep", "PortDataReference", "PublishedPipeline", "Schedule", "ScheduleRecurrence", "StepRun",
           "StepRunOutput", "StepSequence", "TimeZone", "TrainingOutput"]
