import os

from azureml._filters import as_texts, has_all, keys_of
from azureml._service import webservice_errors
from azureml._times import time_of, written_time
from azureml.core._damaged_files import download_verified, raise_damaged
from azureml.core._inference_config import InferenceConfig  # noqa: F401
from azureml.core._model_body import check_model_name, dataset_pairs, model_body, resource_fields, resources_of, samples
from azureml.core._model_files import common_root, local_files, path_below, target_paths
from azureml.core._model_package import ModelPackage  # noqa: F401
from azureml.core._model_serving import ModelServing
from azureml.core.compute import AksCompute  # noqa: F401
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.dataset import Dataset  # noqa: F401
from azureml.core.environment import Environment  # noqa: F401
from azureml.core.experiment import Experiment  # noqa: F401
from azureml.core.profile import (  # noqa: F401
    MAX_PROFILE_CPU, MAX_PROFILE_MEMORY, MIN_PROFILE_CPU, MIN_PROFILE_MEMORY, ModelProfile)
from azureml.core.resource_configuration import ResourceConfiguration  # noqa: F401
from azureml.core.run import get_run  # noqa: F401
from azureml.data.dataset_snapshot import DatasetSnapshot  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.data.tabular_dataset import TabularDataset  # noqa: F401
from azureml.exceptions import (  # noqa: F401
    ModelNotFoundException, RunEnvironmentException, UserErrorException, WebserviceException)
from runyard_sdk.blobs import send_entries
from runyard_sdk.errors import BlobDamaged
from runyard_sdk.scoring.model_paths import deployed, find_model, is_scoring

MODELS_DIR = "azureml-models"
AKS_ENDPOINT_TYPE = "AKSENDPOINT"
MIR_WEBSERVICE_TYPE = "MIR"
ARCHITECTURE_AMD64 = "amd64"
WEBAPI_IMAGE_FLAVOR = "WebApiContainer"
SUPPORTED_CUDA_VERSIONS = ["9.0", "9.1", "10.0"]
UNDOCUMENTED_RUNTIMES = ["python-slim"]
DATASET_SNAPSHOT_ID_FORMAT = "/datasetId/{dataset_id}/datasetSnapshotName/{dataset_snapshot_name}"
AZUREML_ARTIFACTS_TIMEOUT_ENV_VAR = "AZUREML_ARTIFACTS_DEFAULT_TIMEOUT"
AZUREML_ARTIFACTS_MIN_TIMEOUT = 300
ASSET_ARTIFACTS_UPLOAD_TIMEOUT_SECONDS_PER_BYTE = 0.00066

class Model(ModelServing):
    """A registered model: files under a name and a version. Model(workspace, name) is the newest version."""

    class Framework(object):
        CHAINER = "Chainer"
        CUSTOM = "Custom"
        MULTI = "Multi"
        ONNX = "Onnx"
        PYTORCH = "PyTorch"
        SCIKITLEARN = "ScikitLearn"
        TENSORFLOW = "TensorFlow"
        TFKERAS = "TfKeras"

    def __init__(self, workspace, name=None, id=None, tags=None, properties=None, version=None, run_id=None,
                 model_framework=None, expand=True, **kwargs):
        if workspace is None:
            return
        if id is not None:
            name, _, version = id.rpartition(":")
        if not name:
            raise WebserviceException("Give the name or the id (name:version) of a model.")
        there = _assets(workspace, name)
        found = [asset for asset in _matching(there, tags, properties, run_id, model_framework)
                 if version is None or str(asset["version"]) == str(version)]
        if not found:
            raise _not_found(workspace, name, version, there)
        self._take(workspace, found[0])

    @staticmethod
    def register(workspace, model_path, model_name, tags=None, properties=None, description=None, datasets=None,
                 model_framework=None, model_framework_version=None, child_paths=None, sample_input_dataset=None,
                 sample_output_dataset=None, resource_configuration=None):
        """Store a local file or folder as the next version of model_name."""
        check_model_name(model_name)
        placed = local_files(model_path, child_paths)
        body = model_body(workspace, description, properties, model_framework, model_framework_version, datasets,
                          sample_input_dataset, sample_output_dataset, resource_configuration)
        print("Registering model %s" % model_name)
        body["files"] = send_entries(workspace._client, placed)
        return Model._create(workspace, model_name, body, tags)

    @staticmethod
    def list(workspace, name=None, tags=None, properties=None, run_id=None, latest=False, dataset_id=None, expand=True,
             page_count=255, model_framework=None):
        """Models, newest first. tags and properties: 'key', ['key'] or [['key', 'value']]."""
        found = _matching(_assets(workspace, name, latest), tags, properties, run_id, model_framework)
        if dataset_id is not None:
            found = [asset for asset in found
                     if dataset_id in [pair[1] for pair in asset["body"].get("datasets") or []]]
        return [Model._of_asset(workspace, asset) for asset in found]

    @staticmethod
    def get_model_path(model_name, version=None, _workspace=None):
        """Where the model's files are: those of the web service in a scoring script, fetched inside a run; else a
        local path called model_name. ModelNotFoundException where there are none."""
        if is_scoring():
            return _deployed_path(model_name, version)
        if _workspace is None and os.path.exists(model_name) and not os.environ.get("AZUREML_RUN_ID"):
            return model_name
        workspace = _workspace or _workspace_of_run(model_name)
        try:
            model = Model(workspace, name=model_name, version=version)
        except WebserviceException as error:
            raise ModelNotFoundException(error.message)
        folder = os.path.join(MODELS_DIR, model.name, str(model.version))
        model.download(folder, exist_ok=True)
        return path_below(folder, model._asset["body"]["files"])

    def download(self, target_dir=".", exist_ok=False, exists_ok=None):
        """Fetch the files; the path of the file, or of the folder that all files lie in."""
        allowed = exist_ok if exists_ok is None else exists_ok
        placed = target_paths(self._asset["body"]["files"], target_dir)
        for _, _, target in placed:
            if os.path.exists(target) and not allowed:
                raise WebserviceException("%r exists already; pass exist_ok=True to replace it." % target)
        client, damaged = self.workspace._client, []
        for (sha256, mode, target), (path, _, _, _) in zip(placed, self._asset["body"]["files"]):
            try:
                download_verified(client, sha256, target, "{!r} of model {}".format(path, self.id))
                os.chmod(target, mode)
            except BlobDamaged as error:  # the other files are worth having
                damaged.append(error)
        raise_damaged(client, damaged, len(placed))
        return common_root([target for _, _, target in placed])

    def update(self, tags=None, description=None, sample_input_dataset=None, sample_output_dataset=None,
               resource_configuration=None):
        """Replace the tags, and set what else is given."""
        body = dict(samples(self.workspace, sample_input_dataset, sample_output_dataset), description=description)
        body.update(resource_fields(resource_configuration))
        changed = dict({key: None for key in self.tags}, **as_texts(tags)) if tags is not None else None
        self._patch({key: value for key, value in body.items() if value is not None}, changed)

    def update_tags_properties(self, add_tags=None, remove_tags=None, add_properties=None):
        tags = dict(as_texts(add_tags), **{key: None for key in keys_of(remove_tags)})
        self._patch({"properties": self._with_properties(add_properties)} if add_properties else None, tags)

    def add_tags(self, tags):
        self._patch(None, as_texts(tags))

    def remove_tags(self, tags):
        self._patch(None, {key: None for key in keys_of(tags)})

    def add_properties(self, properties):
        """Add properties; one that is set cannot change."""
        self._patch({"properties": self._with_properties(properties)}, None)

    def add_dataset_references(self, datasets):
        pairs = [list(pair) for pair in self._asset["body"].get("datasets") or []]
        self._patch({"datasets": pairs + dataset_pairs(self.workspace, datasets)}, None)

    def delete(self):
        """WebserviceException while a web service or an image has it."""
        from azureml._assets import delete_asset
        with webservice_errors():
            delete_asset(self.workspace, "models", self.name, self.version)

    def get_sas_urls(self):
        """File name to address; the addresses need the service's token."""
        address = self.workspace._client.transport.address
        return {entry[0]: "%s/api/v1/blobs/%s" % (address, entry[1]) for entry in self._asset["body"]["files"]}

    def serialize(self):
        resources = self.resource_configuration
        return {"createdTime": written_time(self.created_time), "createdBy": self.created_by, "id": self.id,
                "description": self.description, "mimeType": self.mime_type, "name": self.name,
                "framework": self.model_framework,
                "frameworkVersion": self.model_framework_version, "tags": self.tags, "properties": self.properties,
                "unpack": self.unpack, "url": self.url, "version": self.version, "experimentName": self.experiment_name,
                "runId": self.run_id, "resourceConfiguration": resources.serialize() if resources else None}

    @staticmethod
    def deserialize(workspace, model_payload):
        return Model(workspace, id=model_payload["id"])

    def __repr__(self):
        return "Model(workspace=%r, name=%s, id=%s, version=%s, tags=%s, properties=%s)" % (
            self.workspace, self.name, self.id, self.version, self.tags, self.properties)

    @staticmethod
    def _register_from_run(run, model_name, model_path, tags=None, properties=None, model_framework=None,
                           model_framework_version=None, description=None, datasets=None, sample_input_dataset=None,
                           sample_output_dataset=None, resource_configuration=None):
        """Register files that a run has stored; the service takes them from there."""
        check_model_name(model_name)
        workspace = run.experiment.workspace
        body = model_body(workspace, description, properties, model_framework, model_framework_version, datasets,
                          sample_input_dataset, sample_output_dataset, resource_configuration)
        body.update(run_id=run.id, experiment=run.experiment.name, model_path=model_path)
        return Model._create(workspace, model_name, body, tags)

    @staticmethod
    def _create(workspace, model_name, body, tags):
        from azureml._assets import create_asset
        with webservice_errors():
            return Model._of_asset(workspace, create_asset(workspace, "models", model_name, body, tags=as_texts(tags)))

    @staticmethod
    def _of_asset(workspace, asset):
        made = Model(None)
        made._take(workspace, asset)
        return made

    def _take(self, workspace, asset):
        body = asset["body"]
        self._asset = asset
        self.workspace = workspace
        self.name, self.version = asset["name"], asset["version"]
        self.id = "%s:%s" % (asset["name"], asset["version"])
        self.created_time, self.created_by = time_of(asset["created_at"]), None
        self.description = body.get("description")
        self.tags = dict(asset.get("tags") or {})
        self.properties = dict(body.get("properties") or {})
        self.model_framework = body.get("framework")
        self.model_framework_version = body.get("framework_version")
        self.run_id, self.experiment_name = body.get("run_id"), body.get("experiment")
        self.resource_configuration = resources_of(body)
        self.mime_type, self.unpack = "application/x-python", bool(body.get("unpack"))
        self.url = "aml://asset/%s" % asset["id"]
        self.parent_id, self.derived_model_ids = None, []

    @property
    def run(self):
        """The run that made it, or None."""
        return get_run(Experiment(self.workspace, self.experiment_name), self.run_id) if self.run_id else None

    @property
    def sample_input_dataset(self):
        return _dataset_of(self.workspace, self._asset["body"].get("sample_input_dataset_id"))

    @property
    def sample_output_dataset(self):
        return _dataset_of(self.workspace, self._asset["body"].get("sample_output_dataset_id"))

    @property
    def datasets(self):
        """Scenario to the datasets that were registered with the model."""
        found = {}
        for scenario, dataset_id in self._asset["body"].get("datasets") or []:
            found.setdefault(scenario, []).append(_dataset_of(self.workspace, dataset_id))
        return found

    def _with_properties(self, added):
        changed = [key for key, value in as_texts(added).items() if self.properties.get(key, value) != value]
        if changed:
            raise WebserviceException("The property %r is set already and cannot change." % changed[0])
        return dict(self.properties, **as_texts(added))

    def _patch(self, body, tags):
        from azureml._assets import patch_asset
        with webservice_errors():
            asset = patch_asset(self.workspace, "models", self.name, self.version, body, tags)
        self._take(self.workspace, asset)


def _dataset_of(workspace, dataset_id):
    return Dataset.get_by_id(workspace, dataset_id) if dataset_id else None


def _assets(workspace, name, latest=False):
    from azureml._assets import list_assets
    found = list_assets(workspace, "models", name=name, latest=latest)
    return sorted(found, key=lambda asset: (asset["created_at"], asset["version"]), reverse=True)


def _not_found(workspace, name, version, there):
    if not there:
        known = ", ".join(repr(asset["name"]) for asset in _assets(workspace, None, latest=True)[:20])
        return WebserviceException("ModelNotFound: There is no model %r in workspace %r. Known: %s." % (
            name, workspace.name, known or "none"), status_code=404)
    versions = ", ".join(str(asset["version"]) for asset in reversed(there))
    return WebserviceException("ModelNotFound: There is no model %r%s in workspace %r; its versions are %s." % (
        name, " with version %s" % version if version is not None else " as asked for", workspace.name, versions),
        status_code=404)


def _matching(assets, tags, properties, run_id, framework):
    return [asset for asset in assets
            if has_all(asset.get("tags") or {}, tags) and has_all(asset["body"].get("properties") or {}, properties)
            and (run_id is None or asset["body"].get("run_id") == run_id)
            and (framework is None or asset["body"].get("framework") == framework)]


def _deployed_path(model_name, version):
    path = find_model(model_name, version)
    if path is None:
        known = ", ".join("%s:%s" % pair for pair in deployed())
        raise ModelNotFoundException("The model %r%s is not deployed with this web service; it has %s." % (
            model_name, ", version %s," % version if version is not None else "", known or "none"))
    return path


def _workspace_of_run(model_name):
    from azureml.core.run import Run
    try:
        return Run.get_context(allow_offline=False).experiment.workspace
    except RunEnvironmentException:
        raise ModelNotFoundException("There is no file or folder %r here, and this is not a run. Download the model "
                                     "with Model(workspace, %r).download()." % (model_name, model_name))
