from azureml.core import Datastore, Experiment  # noqa: F401
from azureml.pipeline.core import PipelineRun, PublishedPipeline, Schedule, ScheduleRecurrence, TimeZone  # noqa: F401
