"""Objects of the classes whose public attributes are compared, made without a service."""

from types import SimpleNamespace
from typing import Any

from azureml.core import RunConfiguration, ScriptRunConfig
from azureml.core import runconfig as sections
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.keyvault import Keyvault
from azureml.core.model import Model
from azureml.core.resource_configuration import ResourceConfiguration
from azureml.data import OutputFileDatasetConfig
from azureml.data.azure_data_lake_datastore import AzureDataLakeGen2Datastore
from azureml.data.azure_storage_datastore import AzureBlobDatastore, AzureFileDatastore
from azureml.data.data_reference import DataReference
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig
from azureml.data.file_dataset import FileDataset
from azureml.train.estimator import MMLBaseEstimatorRunConfig, Mpi, ParameterServer

WORKSPACE = SimpleNamespace(name="w", subscription_id="s", resource_group="r", location="local")
TIMES = {"created_at": "2026-01-01T00:00:00Z", "modified_at": "2026-01-01T00:00:00Z"}


def asset(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "1", "name": "n", "version": 1, "body": body, "tags": {}, **TIMES}


def all_instances() -> dict[str, Any]:
    """Golden class name to an object of it."""
    cluster = AmlCompute._of_asset(WORKSPACE, asset({"type": "AmlCompute", "min_nodes": 0, "max_nodes": 1}))
    blob = AzureBlobDatastore(WORKSPACE, "d", "c", "a")
    lake = AzureDataLakeGen2Datastore(WORKSPACE, "d", "f", "a")
    dataset_input = DatasetConsumptionConfig("n", FileDataset())
    configuration = AmlCompute.provisioning_configuration(max_nodes=1)
    made: dict[str, Any] = {
        "azureml.core.RunConfiguration": RunConfiguration(),
        "azureml.core.ScriptRunConfig": ScriptRunConfig("."),
        "azureml.core.Keyvault": Keyvault(WORKSPACE),
        "azureml.core.Model": Model._of_asset(WORKSPACE, asset({"files": []})),
        "azureml.core.resource_configuration.ResourceConfiguration": ResourceConfiguration(),
        "azureml.core.ComputeTarget": ComputeTarget._of_asset(WORKSPACE, asset({"type": "AmlCompute"})),
        "azureml.core.compute.AmlCompute": cluster,
        "azureml.core.compute.amlcompute.AmlComputeProvisioningConfiguration": configuration,
        "azureml.core.compute.amlcompute.ScaleSettings": cluster.scale_settings,
        "azureml.data.FileDataset": FileDataset(),
        "azureml.data.OutputFileDatasetConfig": OutputFileDatasetConfig(),
        "azureml.data.output_dataset_config.OutputTabularDatasetConfig": OutputFileDatasetConfig().read_parquet_files(),
        "azureml.data.azure_data_lake_datastore.AzureDataLakeGen2Datastore": lake,
        "azureml.data.azure_storage_datastore.AzureBlobDatastore": blob,
        "azureml.data.azure_storage_datastore.AzureFileDatastore": AzureFileDatastore(WORKSPACE, "d", "c", "a"),
        "azureml.data.data_reference.DataReference": DataReference(blob),
        "azureml.data.dataset_consumption_config.DatasetConsumptionConfig": dataset_input,
        "azureml.train.dnn.Mpi": Mpi(),
        "azureml.train.dnn.ParameterServer": ParameterServer(),
        "azureml.train.estimator.MMLBaseEstimatorRunConfig": MMLBaseEstimatorRunConfig("local"),
    }
    for name in (
        "AmlComputeConfiguration", "ApplicationEndpointConfiguration", "Data", "DataLocation", "DataPath",
        "DataReferenceConfiguration", "DatacacheConfiguration", "Dataset", "DockerConfiguration", "HdiConfiguration",
        "HistoryConfiguration", "MpiConfiguration", "OutputData", "OutputOptions", "ParallelTaskConfiguration",
        "PyTorchConfiguration", "SparkConfiguration", "TensorflowConfiguration", "UploadOptions", "Uri",
    ):  # fmt: skip
        made[f"azureml.core.runconfig.{name}"] = getattr(sections, name)()
    return made
