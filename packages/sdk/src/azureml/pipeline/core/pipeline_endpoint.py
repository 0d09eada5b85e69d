from azureml.pipeline.core import PipelineEndpoint, PipelineRun, PublishedPipeline  # noqa: F401
