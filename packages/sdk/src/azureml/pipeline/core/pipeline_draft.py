from azureml.pipeline.core import PipelineDraft, PipelineRun  # noqa: F401
