from azureml.core import Datastore, Experiment  # noqa: F401
from azureml.pipeline.core._names import (  # noqa: F401
    PipelineRun, PublishedPipeline, Schedule, ScheduleRecurrence, TimeZone)
