"""Pipeline steps: importable, not implemented yet."""

from azureml._unsupported import not_yet_class

AdlaStep = not_yet_class("AdlaStep", "azureml.pipeline.steps")
AutoMLStep = not_yet_class("AutoMLStep", "azureml.pipeline.steps")
AutoMLStepRun = not_yet_class("AutoMLStepRun", "azureml.pipeline.steps")
AzureBatchStep = not_yet_class("AzureBatchStep", "azureml.pipeline.steps")
CommandStep = not_yet_class("CommandStep", "azureml.pipeline.steps")
DataTransferStep = not_yet_class("DataTransferStep", "azureml.pipeline.steps")
DatabricksStep = not_yet_class("DatabricksStep", "azureml.pipeline.steps")
EstimatorStep = not_yet_class("EstimatorStep", "azureml.pipeline.steps")
HyperDriveStep = not_yet_class("HyperDriveStep", "azureml.pipeline.steps")
HyperDriveStepRun = not_yet_class("HyperDriveStepRun", "azureml.pipeline.steps")
KustoStep = not_yet_class("KustoStep", "azureml.pipeline.steps")
ModuleStep = not_yet_class("ModuleStep", "azureml.pipeline.steps")
MpiStep = not_yet_class("MpiStep", "azureml.pipeline.steps")
ParallelRunConfig = not_yet_class("ParallelRunConfig", "azureml.pipeline.steps")
ParallelRunStep = not_yet_class("ParallelRunStep", "azureml.pipeline.steps")
PythonScriptStep = not_yet_class("PythonScriptStep", "azureml.pipeline.steps")
RScriptStep = not_yet_class("RScriptStep", "azureml.pipeline.steps")
SynapseSparkStep = not_yet_class("SynapseSparkStep", "azureml.pipeline.steps")
_HDInsightStep = not_yet_class("_HDInsightStep", "azureml.pipeline.steps")
__all__ = ["AdlaStep", "AutoMLStep", "AutoMLStepRun", "AzureBatchStep", "CommandStep", "DataTransferStep",
           "DatabricksStep", "EstimatorStep", "HyperDriveStep", "HyperDriveStepRun", "KustoStep", "ModuleStep",
           "MpiStep", "ParallelRunConfig", "ParallelRunStep", "PythonScriptStep", "RScriptStep", "SynapseSparkStep",
           "_HDInsightStep"]
