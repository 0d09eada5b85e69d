from azureml.pipeline.steps._names import (
    AdlaStep, AutoMLStep, AutoMLStepRun, AzureBatchStep, CommandStep, DataTransferStep, DatabricksStep, EstimatorStep,
    HyperDriveStep, HyperDriveStepRun, KustoStep, ModuleStep, MpiStep, ParallelRunConfig, ParallelRunStep,
    PythonScriptStep, RScriptStep, SynapseSparkStep, _HDInsightStep)

__all__ = ["AdlaStep", "AutoMLStep", "AutoMLStepRun", "AzureBatchStep", "CommandStep", "DataTransferStep",
           "DatabricksStep", "EstimatorStep", "HyperDriveStep", "HyperDriveStepRun", "KustoStep", "ModuleStep",
           "MpiStep", "ParallelRunConfig", "ParallelRunStep", "PythonScriptStep", "RScriptStep", "SynapseSparkStep",
           "_HDInsightStep"]
