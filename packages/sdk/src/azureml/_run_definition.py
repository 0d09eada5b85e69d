"""Run definitions: the JSON that a run configuration, its script, arguments and data become (docs/wire.md)."""

import os

from azureml.core.environment import environment_object
from azureml.exceptions import ExperimentExecutionException, UserErrorException

SCRIPT_RUN = "azureml.scriptrun"
_RESUME_REFERENCE = "MODEL_LOCATION"
_MPI = ("mpi", "intelmpi", "openmpi")
_PARAMETER_SERVER = ("parameterserver",)
_TORCH = ("gloo", "nccl")


def submission(workspace, source_directory, run_config, script=None, command=None, arguments=None, inputs=None,
               resume_from=None, estimator=None):
    """Return the body of Experiment.submit. `arguments` may hold data objects; unsaved datasets are saved first."""
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
    """The two arguments that pass the path of the earlier model to a resumed script."""
    from azureml.data.datapath import DataPath, DataPathComputeBinding
    if not isinstance(resume_from, DataPath):
        raise UserErrorException("resume_from must be a DataPath, got %r." % (resume_from,))
    reference = resume_from.create_data_reference(_RESUME_REFERENCE, DataPathComputeBinding(mode="mount"))
    return ["--resume-from", bound_text(reference, inputs)]


def _user_error(message):
    """ExperimentExecutionException with the error code of a user error."""
    error = ExperimentExecutionException(message)
    error._error_code = UserErrorException._error_code
    return error


def check_source(source_directory, script, command):
    """Check at submit that the folder exists and holds the script."""
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
    from difflib import get_close_matches  # imported here: most importers of the SDK never submit

    there = sorted(name for name in os.listdir(root) if name.endswith(".py"))
    close = get_close_matches(script, there, 1)
    if close:
        return " Did you mean %r?" % close[0]
    return " Scripts there: %s." % ", ".join(map(repr, there[:10])) if there else " It holds no *.py file."


def _definition(run_config, source_directory):
    """Definition of the settings, without script, arguments and their data."""
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
    """Bind data that was set on the run configuration itself: configurations, references and dataset inputs."""
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
    """Replace the path of a dataset in direct mode with its id, which the script gets instead."""
    ids = {"DatasetConsumptionConfig:" + name: use["dataLocation"]["dataset"]["id"]
           for name, use in data.items() if use["mechanism"] == "Direct"}
    return [ids.get(text, text) for text in texts]


def _posix(script):
    return os.path.normpath(script).replace(os.sep, "/")


class Inputs(object):
    """Data named by the arguments and inputs of a run. Data objects bind themselves to it with `_bind`."""

    def __init__(self):
        self.references = {}
        self.data = {}
        self.outputs = {}

    def add_input(self, name, use):
        """Raises UserErrorException where the name is taken by another dataset, or by the same one in another mode."""
        present = self.data.setdefault(name, use)
        if present is not use and not present._is_same(use):
            raise UserErrorException("Two inputs of the run are called %r. Give each a name of its own, with "
                                     "as_named_input('name')." % name)

    def add_output(self, name, output):
        if self.outputs.setdefault(name, output) is not output:
            raise UserErrorException("Two outputs of the run are called %r. Give each a name of its own." % name)

    def add_all(self, given):
        """Bind each of the `inputs` of an estimator."""
        for value in given or []:
            bound_text(value, self)


def bound_text(value, inputs):
    """Text of one argument; for a DataReference, dataset input or output its placeholder."""
    bind = getattr(value, "_bind", None)
    return str(value) if bind is None else bind(inputs)


def from_list(arguments, inputs):
    """Texts of ScriptRunConfig's `arguments`."""
    return [bound_text(value, inputs) for value in arguments or []]


def from_params(script_params, inputs):
    """Texts of an estimator's `script_params`: key, value. '' or None gives the key alone, a list several values."""
    texts = []
    for key, value in (script_params or {}).items():
        texts.append(str(key))
        if value is None or (isinstance(value, str) and value == ""):
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        texts.extend(bound_text(one, inputs) for one in values)
    return texts


def check_count(argument, value, error=UserErrorException, at_least=1):
    """Raise `error`, naming the user's argument, unless the value is an integer >= `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise error("%s must be a whole number of at least %d, got %r." % (argument, at_least, value))


def check_job(job, error=UserErrorException):
    """Raise `error` where a distributed job configuration holds an invalid count."""
    for argument in ("node_count", "process_count_per_node", "worker_count"):
        if hasattr(job, argument):
            check_count(argument, getattr(job, argument), error)
    if hasattr(job, "parameter_server_count"):
        # 0 parameter servers: MultiWorkerMirroredStrategy.
        check_count("parameter_server_count", job.parameter_server_count, error, at_least=0)
    if getattr(job, "process_count", None) is not None:
        check_count("process_count", job.process_count, error)


def check_run_config(run_config, error=UserErrorException):
    """Raise `error` where a count that the communicator uses is invalid; other counts are not checked."""
    check_count("node_count", run_config.node_count, error)
    communicator = str(run_config.communicator or "").lower()
    if communicator in _MPI:
        check_count("process_count_per_node", run_config.mpi.process_count_per_node, error)
    elif communicator in _PARAMETER_SERVER:
        check_job(run_config.tensorflow, error)
    elif communicator in _TORCH:
        check_job(run_config.pytorch, error)
