from azureml.pipeline.core._names import PipelineEndpoint, PipelineRun, PublishedPipeline  # noqa: F401
