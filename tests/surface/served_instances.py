"""The same for web services, images and the clusters that these are deployed to."""

from typing import Any

from azureml.core.compute import AksCompute
from azureml.core.compute import aks as clusters
from azureml.core.image import Image
from azureml.core.image import image as image_parts
from azureml.core.profile import ModelProfile
from azureml.core.webservice import AciWebservice, AksEndpoint, AksWebservice, LocalWebservice, Webservice, aci, aks
from tests.surface.instances import TIMES, WORKSPACE, asset


def service_record(type_: str, **config: Any) -> dict[str, Any]:
    return {
        "id": "1", "name": "n", "type": type_, "version": 1, "state": "Healthy", "step": "", "revision": 1,
        "wanted_revision": 1, "failed_revision": 0, "error": None, "scoring_uri": "http://localhost:1/score",
        "swagger_uri": "http://localhost:1/swagger.json", "port": 1, "models": [], "inference": None, "config": config,
        "auth_enabled": False, "token_auth_enabled": False, "description": "", "tags": {}, "properties": {},
        "image_id": None, "created_at": TIMES["created_at"], "updated_at": TIMES["modified_at"], "replicas": 1,
        "wanted_replicas": 1, "notes": [], "lock": None,
    }  # fmt: skip


def served_instances() -> dict[str, Any]:
    """Golden class name to an object of it."""
    version = dict(service_record("AKS"), traffic_percentile=0, is_default=True, version_type="Control")
    endpoint = Webservice._of_record(WORKSPACE, dict(service_record("AKS"), versions={"v": version}))
    services = {
        type(one).__name__: one
        for one in (Webservice._of_record(WORKSPACE, service_record(kind)) for kind in ("ACI", "AKS", "Local", "Other"))
    }
    profile = object.__new__(ModelProfile)
    profile._take(WORKSPACE, {"name": "p", "state": "Running", "models": [], "version": 1, **TIMES})
    image = Image._of_asset(WORKSPACE, asset({"image_flavor": "WebApiContainer"}))
    provisioned = AksCompute.provisioning_configuration()
    made: dict[str, Any] = {
        "azureml.core.Webservice": services["AciWebservice"],
        "azureml.core.webservice.AksEndpoint": endpoint,
        "azureml.core.Image": image,
        "azureml.core.image.ContainerImage": image,
        "azureml.core.image.UnknownImage": Image._of_asset(WORKSPACE, asset({})),
        "azureml.core.image.image.Asset": image_parts.Asset("i", "m", False, "u"),
        "azureml.core.image.image.TargetRuntime": image_parts.TargetRuntime({}, "Python", "Amd64"),
        "azureml.core.profile.ModelProfile": profile,
        "azureml.core.compute.AksCompute": AksCompute._of_asset(WORKSPACE, asset({"type": "AKS"})),
        "azureml.core.compute.aks.AksProvisioningConfiguration": provisioned,
        "azureml.core.compute.aks.AksAttachConfiguration": AksCompute.attach_configuration(resource_id="/x"),
        "azureml.core.compute.aks.AksUpdateConfiguration": clusters.AksUpdateConfiguration(),
        "azureml.core.compute.aks.SslConfiguration": clusters.SslConfiguration(),
        "azureml.core.compute.aks.SystemService": clusters.SystemService("t", "1", "ip"),
        "azureml.core.webservice.aci.AciServiceDeploymentConfiguration": AciWebservice.deploy_configuration(),
        "azureml.core.webservice.aci.ContainerResourceRequirements": aci.ContainerResourceRequirements(1, 1),
        "azureml.core.webservice.aci.EncryptionProperties": aci.EncryptionProperties("u", "k", "v"),
        "azureml.core.webservice.aci.VnetConfiguration": aci.VnetConfiguration("v", "s"),
        "azureml.core.webservice.aks.AksServiceDeploymentConfiguration": AksWebservice.deploy_configuration(),
        "azureml.core.webservice.aks.AksEndpointDeploymentConfiguration": AksEndpoint.deploy_configuration(),
        "azureml.core.webservice.local.LocalWebserviceDeploymentConfiguration": LocalWebservice.deploy_configuration(),
    }
    for name, count in (("AutoScaler", 5), ("DataCollection", 2), ("LivenessProbeRequirements", 5),
                        ("AksServiceAccessToken", 4), ("ContainerResourceRequirements", 2)):  # fmt: skip
        made[f"azureml.core.webservice.aks.{name}"] = getattr(aks, name)(*range(count))
    return made | {f"azureml.core.webservice.{name}": one for name, one in services.items()}
