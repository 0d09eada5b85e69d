"""One run definition out of a run configuration and its script: what the service is given (docs/wire.md)."""
import os

from azureml._arguments import Inputs, bound_text, from_list
from azureml._environment_object import environment_object
from azureml.core._distribution import check_run_config
from azureml.exceptions import ExperimentExecutionException, UserErrorException

SCRIPT_RUN = "azureml.scriptrun"
_RESUME_REFERENCE = "MODEL_LOCATION"


def submission(workspace, source_directory, run_config, script=None, command=None, arguments=None, inputs=None,
               resume_from=None, estimator=None):
    """What Experiment.submit sends. `arguments` may hold data objects; unsaved datasets are saved on the way."""
    check_source(source_directory, script, command)
    check_run_config(run_config)
    inputs = inputs or Inputs()
    texts = from_list(arguments, inputs)
    if resume_from is not None:
        texts += resume_arguments(resume_from, inputs)
    command = bound_text(command, inputs) if isinstance(command, str) else command and from_list(command, inputs)
    if isinstance(command, list):
        command = " ".join(command)
    definition = _definition(run_config, source_directory)
    definition.update(script=None if command else _posix(script), command=command or "", useAbsolutePath=False)
    definition["dataReferences"].update({name: ref._to_definition() for name, ref in inputs.references.items()})
    definition["data"].update({name: use._to_definition(workspace) for name, use in inputs.data.items()})
    definition["outputData"].update({name: output._to_definition(workspace) for name, output in inputs.outputs.items()})
    definition["arguments"] = _with_direct_ids(texts, definition["data"])
    definition["runyard"] = {"estimator": estimator, "conda_packages": []}
    _bind_run_config_data(definition, run_config, workspace)
    target_type = "local" if run_config.target == "local" else "amlctrain"
    return {"source_directory": source_directory, "definition": definition, "type": SCRIPT_RUN, "snapshot": None,
            "tags": {}, "properties": {"_azureml.ComputeTargetType": target_type}}


def resume_arguments(resume_from, inputs):
    """The two words that tell a script where its earlier model lies."""
    from azureml.data.datapath import DataPath, DataPathComputeBinding
    if not isinstance(resume_from, DataPath):
        raise UserErrorException("resume_from must be a DataPath, got %r." % (resume_from,))
    reference = resume_from.create_data_reference(_RESUME_REFERENCE, DataPathComputeBinding(mode="mount"))
    return ["--resume-from", bound_text(reference, inputs)]


def _user_error(message):
    """The exception of the original, told as the user's error."""
    error = ExperimentExecutionException(message)
    error._error_code = UserErrorException._error_code
    return error


def check_source(source_directory, script, command):
    """The folder is there, and the script lies in it: found at submit, as in the original."""
    if not os.path.isdir(source_directory):
        raise _user_error("source_directory %r is not a folder." % str(source_directory))
    if command:
        return
    if not isinstance(script, str) or not script:
        raise _user_error("Name the script to run, relative to source_directory %r; got %r." % (
            str(source_directory), script))
    root = os.path.realpath(source_directory)
    if "\x00" in script or not os.path.realpath(os.path.join(root, script)).startswith(os.path.join(root, "")):
        raise _user_error(
            "The script %r lies outside of source_directory %r; only that folder is sent with the run." % (
                script, str(source_directory)))
    if not os.path.isfile(os.path.join(root, script)):
        raise _user_error("There is no script %r in source_directory %r (%s).%s" % (
            script, str(source_directory), root, _scripts_there(root, script)))


def _scripts_there(root, script):
    from difflib import get_close_matches  # not needed by those who only import the SDK

    there = sorted(name for name in os.listdir(root) if name.endswith(".py"))
    close = get_close_matches(script, there, 1)
    if close:
        return " Did you mean %r?" % close[0]
    return " Scripts there: %s." % ", ".join(map(repr, there[:10])) if there else " It holds no *.py file."


def _definition(run_config, source_directory):
    """The settings alone, without script, arguments and the data they name."""
    written = run_config._to_object()
    environment = environment_object(run_config.environment, source_directory, run_config._environment_variables)
    environment["name"] = environment["name"] or "default-environment"
    written["environment"] = environment
    renamed = {"amlcompute": "amlCompute", "pytorch": "pyTorch", "paralleltask": "parallelTask",
               "kubernetescompute": "kubernetesCompute"}
    definition = {renamed.get(key, key): value for key, value in written.items()}
    definition["environmentVariables"] = environment["environmentVariables"]
    definition["pyTorch"]["communicationBackend"] = run_config.pytorch.communication_backend
    definition["dataReferences"], definition["data"], definition["outputData"] = {}, {}, {}
    return definition


def _bind_run_config_data(definition, run_config, workspace):
    """Data put into the run configuration by hand: configurations, references and dataset inputs."""
    for name, reference in (run_config.data_references or {}).items():
        to_config = getattr(reference, "to_config", None)
        config = to_config() if to_config else reference
        definition["dataReferences"].setdefault(name, _reference_object(config))
    for name, use in (run_config.data or {}).items():
        definition["data"].setdefault(name, _data_object(name, use, workspace))
    for name, output in (run_config.output_data or {}).items():
        definition["outputData"].setdefault(name, _output_object(name, output, workspace))


def _reference_object(config):
    written = config._to_object()
    written["mode"] = str(written["mode"]).capitalize()
    return written


def _data_object(name, use, workspace):
    to_definition = getattr(use, "_to_definition", None)
    if to_definition:
        return to_definition(workspace)
    written = use._to_object()
    written["mechanism"] = str(written["mechanism"]).capitalize()
    written["environmentVariableName"] = written["environmentVariableName"] or name
    return written


def _output_object(name, output, workspace):
    to_definition = getattr(output, "_to_definition", None)
    if to_definition:
        return to_definition(workspace)
    written = output._to_object()
    options = written["additionalOptions"] or {}
    upload = options.get("uploadOptions")
    if upload:
        upload["sourceGlobs"] = (upload.get("sourceGlobs") or {}).get("patterns") or []
    written.update(mechanism=str(written["mechanism"]).capitalize(), environmentVariableName=name,
                   pathOnCompute=options.get("pathOnCompute"))
    return written


def _with_direct_ids(texts, data):
    """A dataset used directly is given to the script as its id, since there is no path."""
    ids = {"DatasetConsumptionConfig:" + name: use["dataLocation"]["dataset"]["id"]
           for name, use in data.items() if use["mechanism"] == "Direct"}
    return [ids.get(text, text) for text in texts]


def _posix(script):
    return os.path.normpath(script).replace(os.sep, "/")
