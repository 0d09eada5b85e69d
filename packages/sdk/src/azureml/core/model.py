import os

from azureml._not_yet import not_yet, not_yet_class
from azureml.core._model_files import common_root, local_files, target_paths
from azureml.core.compute import AksCompute  # noqa: F401
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.dataset import Dataset  # noqa: F401
from azureml.core.environment import Environment  # noqa: F401
from azureml.core.experiment import Experiment  # noqa: F401
from azureml.core.profile import (  # noqa: F401
    MAX_PROFILE_CPU, MAX_PROFILE_MEMORY, MIN_PROFILE_CPU, MIN_PROFILE_MEMORY, ModelProfile)
from azureml.core.resource_configuration import ResourceConfiguration
from azureml.core.run import get_run  # noqa: F401
from azureml.data.dataset_snapshot import DatasetSnapshot  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.data.tabular_dataset import TabularDataset  # noqa: F401
from azureml.exceptions import (  # noqa: F401
    ModelNotFoundException, RunEnvironmentException, UserErrorException, WebserviceException)

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

InferenceConfig = not_yet_class("InferenceConfig", 4, "azureml.core.model")
ModelPackage = not_yet_class("ModelPackage", 4, "azureml.core.model")


class Model(object):
    """A registered model: files under a name and a version. Model(workspace, name) is the newest version."""

    class Framework(object):
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
        found = _matching(_assets(workspace, name), tags, properties, run_id, model_framework)
        if version is not None:
            found = [asset for asset in found if str(asset["version"]) == str(version)]
        if not found:
            raise WebserviceException("ModelNotFound: There is no model %r%s in workspace %r." % (
                name, " with version %s" % version if version is not None else "", workspace.name))
        self._take(workspace, found[0])

    @staticmethod
    def register(workspace, model_path, model_name, tags=None, properties=None, description=None, datasets=None,
                 model_framework=None, model_framework_version=None, child_paths=None, sample_input_dataset=None,
                 sample_output_dataset=None, resource_configuration=None):
        """Store a local file or folder as the next version of model_name."""
        placed = local_files(model_path, child_paths)
        body = _body(workspace, description, properties, model_framework, model_framework_version, datasets,
                     sample_input_dataset, sample_output_dataset, resource_configuration)
        print("Registering model %s" % model_name)
        contents = workspace._client.send_files([path for _, path in placed])
        body["files"] = [[name, content[0], content[1], os.stat(path).st_mode & 0o777]
                         for (name, path), content in zip(placed, contents)]
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
        """Where the model's files are: fetched inside a run; else a local path called model_name."""
        if _workspace is None and os.path.exists(model_name) and not os.environ.get("AZUREML_RUN_ID"):
            return model_name
        workspace = _workspace or _workspace_of_run(model_name)
        try:
            model = Model(workspace, name=model_name, version=version)
        except WebserviceException as error:
            raise ModelNotFoundException(error.message)
        return model.download(os.path.join(MODELS_DIR, model.name, str(model.version)), exist_ok=True)

    def download(self, target_dir=".", exist_ok=False, exists_ok=None):
        """Fetch the files; the path of the file, or of the folder that all files lie in."""
        allowed = exist_ok if exists_ok is None else exists_ok
        placed = target_paths(self._asset["body"]["files"], target_dir)
        for _, _, target in placed:
            if os.path.exists(target) and not allowed:
                raise WebserviceException("%r exists already; pass exist_ok=True to replace it." % target)
        for sha256, mode, target in placed:
            self.workspace._client.download("/blobs/" + sha256, target)
            os.chmod(target, mode)
        return common_root([target for _, _, target in placed])

    def update(self, tags=None, description=None, sample_input_dataset=None, sample_output_dataset=None,
               resource_configuration=None):
        """Replace the tags, and set what else is given."""
        body = {"description": description}
        if sample_input_dataset is not None:
            body["sample_input_dataset_id"] = sample_input_dataset._saved(self.workspace).id
        if sample_output_dataset is not None:
            body["sample_output_dataset_id"] = sample_output_dataset._saved(self.workspace).id
        if resource_configuration is not None:
            body.update(_resources(resource_configuration))
        changed = dict({key: None for key in self.tags}, **_texts(tags)) if tags is not None else None
        self._patch({key: value for key, value in body.items() if value is not None}, changed)

    def update_tags_properties(self, add_tags=None, remove_tags=None, add_properties=None):
        tags = dict(_texts(add_tags), **{key: None for key in remove_tags or []})
        self._patch({"properties": self._with_properties(add_properties)} if add_properties else None, tags)

    def add_tags(self, tags):
        self._patch(None, _texts(tags))

    def remove_tags(self, tags):
        self._patch(None, {key: None for key in tags})

    def add_properties(self, properties):
        """Add properties; one that is set cannot change."""
        self._patch({"properties": self._with_properties(properties)}, None)

    def add_dataset_references(self, datasets):
        pairs = [list(pair) for pair in self._asset["body"].get("datasets") or []]
        self._patch({"datasets": pairs + _dataset_pairs(self.workspace, datasets)}, None)

    def delete(self):
        from azureml._assets import delete_asset
        delete_asset(self.workspace, "models", self.name, self.version)

    def get_sas_urls(self):
        """File name to address; the addresses need the service's token."""
        return {entry[0]: "%s/blobs/%s" % ("/api/v1", entry[1]) for entry in self._asset["body"]["files"]}

    def serialize(self):
        resources = self.resource_configuration
        return {"createdTime": self.created_time, "createdBy": self.created_by, "description": self.description,
                "id": self.id, "mimeType": self.mime_type, "name": self.name, "framework": self.model_framework,
                "frameworkVersion": self.model_framework_version, "tags": self.tags, "properties": self.properties,
                "unpack": self.unpack, "url": self.url, "version": self.version, "experimentName": self.experiment_name,
                "runId": self.run_id, "resourceConfiguration": resources.serialize() if resources else None}

    @staticmethod
    def deserialize(workspace, model_payload):
        return Model(workspace, id=model_payload["id"])

    @staticmethod
    def deploy(workspace, name, models, inference_config=None, deployment_config=None, deployment_target=None,
               overwrite=False, show_output=False):
        raise not_yet("Deploying a model as a web service (Model.deploy)", 4)

    @staticmethod
    def package(workspace, models, inference_config=None, generate_dockerfile=False, image_name=None,
                image_label=None):
        raise not_yet("Packaging a model (Model.package)", 4)

    @staticmethod
    def profile(workspace, profile_name, models, inference_config, input_dataset, cpu=None, memory_in_gb=None,
                description=None):
        raise not_yet("Profiling a model (Model.profile)", 4)

    @staticmethod
    def print_configuration(models, inference_config, deployment_config, deployment_target):
        raise not_yet("Model.print_configuration", 4)

    def __repr__(self):
        return "Model(workspace=%r, name=%s, id=%s, version=%s, tags=%s, properties=%s)" % (
            self.workspace, self.name, self.id, self.version, self.tags, self.properties)

    @staticmethod
    def _register_from_run(run, model_name, model_path, tags=None, properties=None, model_framework=None,
                           model_framework_version=None, description=None, datasets=None, sample_input_dataset=None,
                           sample_output_dataset=None, resource_configuration=None):
        """Register files that a run has stored; the service takes them from there."""
        workspace = run.experiment.workspace
        body = _body(workspace, description, properties, model_framework, model_framework_version, datasets,
                     sample_input_dataset, sample_output_dataset, resource_configuration)
        body.update(run_id=run.id, experiment=run.experiment.name, model_path=model_path)
        return Model._create(workspace, model_name, body, tags)

    @staticmethod
    def _create(workspace, model_name, body, tags):
        from azureml._assets import create_asset
        return Model._of_asset(workspace, create_asset(workspace, "models", model_name, body, tags=_texts(tags)))

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
        self.created_time, self.created_by = asset["created_at"], None
        self.description = body.get("description")
        self.tags = dict(asset.get("tags") or {})
        self.properties = dict(body.get("properties") or {})
        self.model_framework = body.get("framework")
        self.model_framework_version = body.get("framework_version")
        self.run_id, self.experiment_name = body.get("run_id"), body.get("experiment")
        self.sample_input_dataset = _dataset_of(workspace, body.get("sample_input_dataset_id"))
        self.sample_output_dataset = _dataset_of(workspace, body.get("sample_output_dataset_id"))
        self.resource_configuration = _resources_of(body)
        self.mime_type, self.unpack = "application/x-python", bool(body.get("unpack"))
        self.url = "aml://asset/%s" % asset["id"]
        self.parent_id, self.derived_model_ids = None, []

    @property
    def run(self):
        """The run that made it, or None."""
        return get_run(Experiment(self.workspace, self.experiment_name), self.run_id) if self.run_id else None

    @property
    def datasets(self):
        """Scenario to the datasets that were registered with the model."""
        found = {}
        for scenario, dataset_id in self._asset["body"].get("datasets") or []:
            found.setdefault(scenario, []).append(_dataset_of(self.workspace, dataset_id))
        return found

    def _with_properties(self, added):
        changed = [key for key, value in _texts(added).items() if self.properties.get(key, value) != value]
        if changed:
            raise WebserviceException("The property %r is set already and cannot change." % changed[0])
        return dict(self.properties, **_texts(added))

    def _patch(self, body, tags):
        from azureml._assets import patch_asset
        self._take(self.workspace, patch_asset(self.workspace, "models", self.name, self.version, body, tags))


def _body(workspace, description, properties, framework, framework_version, datasets, sample_input, sample_output,
          resources):
    if framework_version and not framework:
        raise WebserviceException("model_framework_version needs model_framework, for example "
                                  "Model.Framework.TENSORFLOW.")
    body = {"description": description, "properties": _texts(properties), "framework": framework,
            "framework_version": framework_version, "datasets": _dataset_pairs(workspace, datasets),
            "sample_input_dataset_id": sample_input._saved(workspace).id if sample_input is not None else None,
            "sample_output_dataset_id": sample_output._saved(workspace).id if sample_output is not None else None}
    body.update(_resources(resources))
    return body


def _dataset_pairs(workspace, datasets):
    return [[scenario, dataset._saved(workspace).id] for scenario, dataset in datasets or []]


def _dataset_of(workspace, dataset_id):
    return Dataset.get_by_id(workspace, dataset_id) if dataset_id else None


def _resources(configuration):
    if configuration is None:
        return {}
    return {"cpu": configuration.cpu, "memory_in_gb": configuration.memory_in_gb, "gpu": configuration.gpu}


def _resources_of(body):
    given = [body.get(name) for name in ("cpu", "memory_in_gb", "gpu")]
    return ResourceConfiguration(*given) if any(value is not None for value in given) else None


def _assets(workspace, name, latest=False):
    from azureml._assets import list_assets
    found = list_assets(workspace, "models", name=name, latest=latest)
    return sorted(found, key=lambda asset: (asset["created_at"], asset["version"]), reverse=True)


def _matching(assets, tags, properties, run_id, framework):
    return [asset for asset in assets
            if _has(asset.get("tags") or {}, tags) and _has(asset["body"].get("properties") or {}, properties)
            and (run_id is None or asset["body"].get("run_id") == run_id)
            and (framework is None or asset["body"].get("framework") == framework)]


def _has(present, wanted):
    """Whether the mapping holds each wanted 'key' and ['key', 'value']."""
    for one in [wanted] if isinstance(wanted, str) else wanted or []:
        key, value = (one, None) if isinstance(one, str) else (one[0], str(one[1]) if len(one) > 1 else None)
        if key not in present or (value is not None and present[key] != value):
            return False
    return True


def _texts(mapping):
    return {str(key): "" if value is None else str(value) for key, value in (mapping or {}).items()}


def _workspace_of_run(model_name):
    from azureml.core.run import Run
    try:
        return Run.get_context(allow_offline=False).experiment.workspace
    except RunEnvironmentException:
        raise ModelNotFoundException("There is no file or folder %r here, and this is not a run. Download the model "
                                     "with Model(workspace, %r).download()." % (model_name, model_name))
