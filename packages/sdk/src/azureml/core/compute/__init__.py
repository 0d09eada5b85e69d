from azureml._version import VERSION
from azureml.core.compute._unsupported import (
    AdlaCompute, BatchCompute, ComputeInstance, DataFactoryCompute, DatabricksCompute, DsvmCompute, HDInsightCompute,
    KubernetesCompute, KustoCompute, RemoteCompute, SynapseCompute)
from azureml.core.compute.aks import AksCompute
from azureml.core.compute.amlcompute import AmlCompute
from azureml.core.compute.compute import ComputeTarget
from azureml.core.compute.ray import RayCompute

__all__ = ["VERSION", "AdlaCompute", "AksCompute", "AmlCompute", "BatchCompute", "ComputeInstance", "ComputeTarget",
           "DataFactoryCompute", "DatabricksCompute", "DsvmCompute", "HDInsightCompute", "KubernetesCompute",
           "KustoCompute", "RayCompute", "RemoteCompute", "SynapseCompute"]
