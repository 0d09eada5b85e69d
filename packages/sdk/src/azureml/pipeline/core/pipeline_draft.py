from azureml.pipeline.core._names import PipelineDraft, PipelineRun  # noqa: F401
