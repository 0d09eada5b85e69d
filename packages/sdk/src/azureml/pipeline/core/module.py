from azureml.core.compute import AdlaCompute, BatchCompute  # noqa: F401
from azureml.pipeline.core import (  # noqa: F401
    Module, ModuleVersion, ModuleVersionDescriptor, PipelineParameter, PipelineStep)
