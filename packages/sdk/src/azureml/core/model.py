import os
import re
import sys

from azureml._assets import (
    as_texts, create_asset, delete_asset, has_all, keys_of, list_assets, parse_time, patch_asset, time_text)
from azureml._paths import below_folder
from azureml._service import translated, webservice_errors
from azureml.core._inference_config import InferenceConfig  # noqa: F401
from azureml.core._model_package import ModelPackage, create_package  # noqa: F401
from azureml.core._run_files import download_verified, raise_damaged
from azureml.core.compute import AksCompute  # noqa: F401
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.dataset import Dataset  # noqa: F401
from azureml.core.environment import Environment  # noqa: F401
from azureml.core.experiment import Experiment  # noqa: F401
from azureml.core.profile import (  # noqa: F401
    MAX_PROFILE_CPU, MAX_PROFILE_MEMORY, MIN_PROFILE_CPU, MIN_PROFILE_MEMORY, ModelProfile, start_profile)
from azureml.core.resource_configuration import ResourceConfiguration  # noqa: F401
from azureml.core.run import Run, get_run  # noqa: F401
from azureml.data.dataset_snapshot import DatasetSnapshot  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.data.tabular_dataset import TabularDataset  # noqa: F401
from azureml.exceptions import (  # noqa: F401
    ModelNotFoundException, RunEnvironmentException, UserErrorException, WebserviceException)
from runyard_sdk.blobs import send_entries
from runyard_sdk.errors import BlobDamaged, RunyardError
from runyard_sdk.ignore import no_rules
from runyard_sdk.snapshot import walk

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
_MODEL_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9\-._]{0,254}\Z"
_TENSORFLOW = (("tensorflow", "tensorflow-cpu", "tensorflow-gpu"), ("keras", "numpy"))
_REPORTED_PACKAGES = {
    "ScikitLearn": (("scikit-learn",), ("numpy", "scipy", "joblib", "pandas", "xgboost", "lightgbm", "catboost",
                                        "imbalanced-learn")),
    "TensorFlow": _TENSORFLOW,
    "TfKeras": _TENSORFLOW,
    "PyTorch": (("torch",), ("torchvision", "numpy")),
    "Onnx": (("onnx", "onnxruntime"), ("numpy",)),
    "Chainer": (("chainer",), ("numpy",)),
}
"""Packages reported per framework: its own, and those that its models depend on."""
_MODELS_ROOT_VARIABLE = "RUNYARD_MODELS_ROOT"


class _ModelServing(object):
    """Deploying, packaging and profiling of registered models."""

    @staticmethod
    def deploy(workspace, name, models, inference_config=None, deployment_config=None, deployment_target=None,
               overwrite=False, show_output=False):
        """Deploy models as a web service; ready after wait_for_deployment().

        Without inference_config one model is served by its model_framework. Without deployment_config and
        deployment_target it is an AciWebservice. With show_output waits and prints progress.
        """
        from azureml.core.webservice.webservice import deploy
        service = deploy(workspace, name, models, inference_config, deployment_config, deployment_target, overwrite)
        if show_output:
            service.wait_for_deployment(show_output=True)
        return service

    @staticmethod
    def package(workspace, models, inference_config=None, generate_dockerfile=False, image_name=None,
                image_label=None):
        """Make a folder with a Dockerfile, the models, the script and its environment; `save` downloads it."""
        return create_package(workspace, models, inference_config)

    @staticmethod
    def profile(workspace, profile_name, models, inference_config, input_dataset=None, cpu=None, memory_in_gb=None,
                description=None, input_data=None):
        """Send every row of a dataset to the model and measure latency and memory. input_data, a text, is a single
        request; the name is of 1.0.65."""
        requests = input_data if input_dataset is None else input_dataset
        return start_profile(workspace, profile_name, models, inference_config, requests, cpu, memory_in_gb,
                             description)

    @staticmethod
    def print_configuration(models, inference_config, deployment_config, deployment_target):
        """Print the settings of a deployment."""
        print("Models: %s" % ", ".join(getattr(model, "id", str(model)) for model in models or []))
        if inference_config is not None:
            print("Entry script: %s" % inference_config.entry_script)
            print("Environment: %s" % getattr(inference_config.environment, "name", inference_config.runtime))
        if deployment_target is not None:
            print("Deployment target: %s" % deployment_target.name)
        if deployment_config is not None:
            deployment_config.print_deploy_configuration()


class Model(_ModelServing):
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
        _check_model_name(model_name)
        placed = _local_files(model_path, child_paths)
        body = _model_body(workspace, description, properties, model_framework, model_framework_version, datasets,
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
        """Local path of the model's files: in a scoring script those of the web service, inside a run downloaded ones,
        else a local path called model_name. Raises ModelNotFoundException if there are none."""
        if _is_scoring():
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
        return _path_below(folder, model._asset["body"]["files"])

    def download(self, target_dir=".", exist_ok=False, exists_ok=None):
        """Download the files; return the path of the file, or of the folder that holds all files."""
        allowed = exist_ok if exists_ok is None else exists_ok
        placed = _target_paths(self._asset["body"]["files"], target_dir)
        for _, _, target in placed:
            if os.path.exists(target) and not allowed:
                raise WebserviceException("%r exists already; pass exist_ok=True to replace it." % target)
        client, damaged = self.workspace._client, []
        for (sha256, mode, target), (path, _, _, _) in zip(placed, self._asset["body"]["files"]):
            try:
                download_verified(client, sha256, target, "{!r} of model {}".format(path, self.id))
                os.chmod(target, mode)
            except BlobDamaged as error:  # download the remaining files
                damaged.append(error)
        raise_damaged(client, damaged, len(placed))
        return _common_root([target for _, _, target in placed])

    def update(self, tags=None, description=None, sample_input_dataset=None, sample_output_dataset=None,
               resource_configuration=None):
        """Replace the tags, and set the other arguments that are given."""
        body = dict(_samples(self.workspace, sample_input_dataset, sample_output_dataset), description=description)
        body.update(_resource_fields(resource_configuration))
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
        """Add properties; an existing property cannot change."""
        self._patch({"properties": self._with_properties(properties)}, None)

    def add_dataset_references(self, datasets):
        pairs = [list(pair) for pair in self._asset["body"].get("datasets") or []]
        self._patch({"datasets": pairs + _dataset_pairs(self.workspace, datasets)}, None)

    def delete(self):
        """Delete this version. Raises WebserviceException while a web service or image uses it."""
        with webservice_errors():
            delete_asset(self.workspace, "models", self.name, self.version)

    def get_sas_urls(self):
        """URL by file name; the URLs need the service's token."""
        address = self.workspace._client.transport.address
        return {entry[0]: "%s/api/v1/blobs/%s" % (address, entry[1]) for entry in self._asset["body"]["files"]}

    def serialize(self):
        resources = self.resource_configuration
        return {"createdTime": time_text(self.created_time), "createdBy": self.created_by, "id": self.id,
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
        """Register files that a run uploaded; the service copies them."""
        _check_model_name(model_name)
        workspace = run.experiment.workspace
        body = _model_body(workspace, description, properties, model_framework, model_framework_version, datasets,
                           sample_input_dataset, sample_output_dataset, resource_configuration)
        body.update(run_id=run.id, experiment=run.experiment.name, model_path=model_path)
        return Model._create(workspace, model_name, body, tags)

    @staticmethod
    def _create(workspace, model_name, body, tags):
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
        self.created_time, self.created_by = parse_time(asset["created_at"]), None
        self.description = body.get("description")
        self.tags = dict(asset.get("tags") or {})
        self.properties = dict(body.get("properties") or {})
        self.model_framework = body.get("framework")
        self.model_framework_version = body.get("framework_version")
        self.run_id, self.experiment_name = body.get("run_id"), body.get("experiment")
        self.resource_configuration = _resources_of(body)
        self.mime_type, self.unpack = "application/x-python", bool(body.get("unpack"))
        self.url = "aml://asset/%s" % asset["id"]
        self.parent_id, self.derived_model_ids = None, []

    @property
    def run(self):
        """Run that registered the model, or None."""
        return get_run(Experiment(self.workspace, self.experiment_name), self.run_id) if self.run_id else None

    @property
    def sample_input_dataset(self):
        return _dataset_of(self.workspace, self._asset["body"].get("sample_input_dataset_id"))

    @property
    def sample_output_dataset(self):
        return _dataset_of(self.workspace, self._asset["body"].get("sample_output_dataset_id"))

    @property
    def datasets(self):
        """Datasets registered with the model, by scenario."""
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
        with webservice_errors():
            asset = patch_asset(self.workspace, "models", self.name, self.version, body, tags)
        self._take(self.workspace, asset)


def _dataset_of(workspace, dataset_id):
    return Dataset.get_by_id(workspace, dataset_id) if dataset_id else None


def _assets(workspace, name, latest=False):
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
    path = _find_deployed(model_name, version)
    if path is None:
        known = ", ".join("%s:%s" % pair for pair in _deployed_models())
        raise ModelNotFoundException("The model %r%s is not deployed with this web service; it has %s." % (
            model_name, ", version %s," % version if version is not None else "", known or "none"))
    return path


def _workspace_of_run(model_name):
    try:
        return Run.get_context(allow_offline=False).experiment.workspace
    except RunEnvironmentException:
        raise ModelNotFoundException("There is no file or folder %r here, and this is not a run. Download the model "
                                     "with Model(workspace, %r).download()." % (model_name, model_name))


def _check_model_name(name):
    """Raises WebserviceException for an invalid model name."""
    if not isinstance(name, str) or not re.match(_MODEL_NAME, name):
        raise WebserviceException("The model name %r is not valid. It has 1 to 255 letters, digits, '-', '.' and '_', "
                                  "and begins with a letter or digit." % (name,))


def _model_body(workspace, description, properties, framework, framework_version, datasets, sample_input, sample_output,
                resources):
    """Request body of a registration. Raises WebserviceException for a framework version without a framework."""
    if framework_version and not framework:
        raise WebserviceException("model_framework_version needs model_framework, for example "
                                  "Model.Framework.TENSORFLOW.")
    body = {"description": description, "properties": as_texts(properties), "framework": framework,
            "framework_version": framework_version, "datasets": _dataset_pairs(workspace, datasets),
            "client": _client_facts(framework)}
    body.update(_samples(workspace, sample_input, sample_output))
    body.update(_resource_fields(resources))
    return body


def _samples(workspace, sample_input, sample_output):
    """Ids of the given sample datasets; unsaved ones are saved."""
    given = {"sample_input_dataset_id": sample_input, "sample_output_dataset_id": sample_output}
    return {name: dataset._saved(workspace).id for name, dataset in given.items() if dataset is not None}


def _dataset_pairs(workspace, datasets):
    return [[scenario, dataset._saved(workspace).id] for scenario, dataset in datasets or []]


def _resource_fields(configuration):
    if configuration is None:
        return {}
    if not isinstance(configuration, ResourceConfiguration):
        raise WebserviceException("resource_configuration must be a ResourceConfiguration, got %r." % (configuration,))
    return {"cpu": configuration.cpu, "memory_in_gb": configuration.memory_in_gb, "gpu": configuration.gpu}


def _resources_of(body):
    """ResourceConfiguration of a stored model, or None."""
    given = [body.get(name) for name in ("cpu", "memory_in_gb", "gpu")]
    return ResourceConfiguration(*given) if any(value is not None for value in given) else None


def _client_facts(framework):
    """Python and package versions of this process: {"python": minor version, "packages": {name: version}}.

    Imports nothing. No packages where the framework is not installed: the model was made elsewhere. Packages of every
    installed framework where the model's framework is not given.
    """
    kinds = [_REPORTED_PACKAGES[framework]] if framework in _REPORTED_PACKAGES else list(_REPORTED_PACKAGES.values())
    found, reported = _installed_versions({name for own, others in kinds for name in own + others}), {}
    for own, others in kinds:
        if any(name in found for name in own):
            reported.update((name, found[name]) for name in own + others if name in found)
    return {"python": "%d.%d" % sys.version_info[:2], "packages": reported}


def _installed_versions(names):
    """Versions found in the first folder of sys.path that has the package, which is the one imported."""
    wanted, found = {_comparable(name): name for name in names}, {}
    for folder in sys.path:
        for entry in _folder_entries(folder):
            stem, kind = os.path.splitext(entry)
            if kind not in (".dist-info", ".egg-info"):
                continue
            name, _, version = stem.partition("-")
            known = wanted.get(_comparable(name))
            if known and version:
                found.setdefault(known, version.split("-py")[0])
    return found


def _folder_entries(folder):
    try:
        return os.listdir(folder or ".")
    except OSError:  # a zip file, or a path that does not exist
        return []


def _comparable(name):
    return name.lower().replace("_", "-").replace(".", "-")


def _local_files(model_path, child_paths=None):
    """[(path in the model, local path)] of a file or folder; the last segment of model_path is the root."""
    if not os.path.exists(model_path):
        raise FileNotFoundError("model_path %r names no file or folder." % str(model_path))
    whole = os.path.abspath(model_path)
    root = os.path.dirname(whole)
    chosen = [_child(whole, child) for child in child_paths] if child_paths else [whole]
    found = []
    for path in chosen:
        if not os.path.exists(path):
            raise FileNotFoundError("child_paths names %r, which is not in model_path %r." % (path, str(model_path)))
        found.extend(_below(path))
    if not found:
        raise UserErrorException("model_path %r is a folder without files." % str(model_path))
    return [(os.path.relpath(path, root).replace(os.sep, "/"), path) for path in found]


def _target_paths(files, target_dir):
    """[(sha256, mode, local target)] of a model's entries. Raises UserErrorException for one that would leave the
    folder."""
    return [(sha256, mode, below_folder(target_dir, path)) for path, sha256, _, mode in files]


def _common_root(paths):
    """The file of a model with one file, else the folder that holds all its files."""
    return paths[0] if len(paths) == 1 else os.path.commonpath(paths)


def _path_below(folder, files):
    """Path that get_model_path returns for files in this folder: the last segment of the registered path. For a folder
    with one file that is the folder, as in a scoring script; download() returns the file."""
    segments = {entry[0].split("/")[0] for entry in files}
    return os.path.join(folder, segments.pop()) if len(segments) == 1 else folder


def _child(whole, child):
    path = os.path.normpath(os.path.join(whole, child))
    if path != whole and not path.startswith(os.path.join(whole, "")):
        raise UserErrorException("child_paths names %r, which lies outside of model_path %r." % (child, whole))
    return path


def _below(path):
    """The file itself, or all files of a folder, following links. Skips sockets, pipes and devices."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise UserErrorException("model_path %r is neither a file nor a folder." % path)
    try:
        return sorted(full for _, full, _ in walk(path, no_rules(path)))
    except RunyardError as error:
        raise translated(error)


def _is_scoring():
    return bool(os.environ.get(_MODELS_ROOT_VARIABLE))


def _deployed_models():
    """[(name, version)] of the models that this process serves, by ascending version."""
    root = os.environ.get(_MODELS_ROOT_VARIABLE, "")
    found = []
    for name in sorted(_names_in(root)):
        versions = [int(version) for version in _names_in(os.path.join(root, name)) if version.isdigit()]
        found += [(name, version) for version in sorted(versions)]
    return found


def _find_deployed(name, version=None):
    """Path of the model's file or folder, its newest deployed version by default; None if it is not deployed here."""
    from runyard_sdk.scoring.start import ServedModel
    versions = [there for known, there in _deployed_models() if known == name and version in (None, there, str(there))]
    if not versions:
        return None
    folder = os.path.join(os.environ[_MODELS_ROOT_VARIABLE], name, str(versions[-1]))
    return ServedModel(name, versions[-1], folder).path


def _names_in(folder):
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
