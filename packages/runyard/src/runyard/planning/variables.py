import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.core.definitions.data import LINK
from runyard.core.definitions.environment import why_no_variable
from runyard.core.definitions.run import RunDefinition, Submitter
from runyard.model.assets import Workspace
from runyard.model.runs import RunRecord
from runyard.planning.data import settable

_PLACES = frozenset(
    {"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PYENV_ROOT"}
    | {"CONDA_EXE", "CONDA_PKGS_DIRS", "MAMBA_EXE", "MAMBA_ROOT_PREFIX"}
    | {"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST"}
)
"""Those that name places of a machine."""
_FROM_SUBMITTER = (
    _PLACES
    | {"USER", "LANG", "LC_ALL", "TZ"}
    | {"http_proxy", "https_proxy", "no_proxy", "all_proxy"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
)
_ENGINES = frozenset({"DOCKER_HOST", "CONTAINER_HOST"})
_ENGINE_OF_A_MACHINE = re.compile(r"unix:///.+|(tcp|http|https)://(127\.[0-9.]+|localhost|\[::1\])(:[0-9]+)?/?")
"""An engine at another address is somebody else's: it would be given the logins of the workspace's registries."""
_PATHS = re.compile(r"(^|[\s,=])(/|~|file:)")
_FOR_INSTALLERS = ("PIP_", "UV_")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "grpc_proxy"})
_LONGEST_LIFE_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True)
class Place:
    """Where a run belongs, and how its script reaches the service."""

    workspace: Workspace
    experiment_id: str
    url: str
    run_token: str


def submitter_variables(definition: RunDefinition) -> dict[str, str]:
    """What the script takes over from whoever submitted it: a fixed list, and a locale that can print any text."""
    return variables_taken_over(definition.runyard.submitter)


def variables_taken_over(submitter: Submitter) -> dict[str, str]:
    kept = {
        name: value
        for name, value in submitter.variables.items()
        if (name in _FROM_SUBMITTER or name.startswith(_FOR_INSTALLERS)) and not why_no_variable(name, value)
        if name not in _ENGINES or _ENGINE_OF_A_MACHINE.fullmatch(value)
    }
    if not kept.get("LANG") and not kept.get("LC_ALL"):
        kept["LANG"] = "C.UTF-8"
    return kept


def without_places(variables: Mapping[str, str]) -> dict[str, str]:
    """Without those that name files, folders or programs of the submitter's machine: in an image they are others."""
    return {
        name: value
        for name, value in variables.items()
        if name not in _PLACES and not (name.startswith(_FOR_INSTALLERS) and _PATHS.search(value))
    }


def platform_variables(run: RunRecord, place: Place) -> dict[str, str]:
    """The variables by which a script knows that it is a run, and which one."""
    definition = run.definition
    expiry = int(run.created_at.timestamp()) + _LONGEST_LIFE_SECONDS
    return {
        "AZUREML_RUN_ID": run.id,
        "AZUREML_ARM_SUBSCRIPTION": place.workspace.subscription_id,
        "AZUREML_ARM_RESOURCEGROUP": place.workspace.resource_group,
        "AZUREML_ARM_WORKSPACE_NAME": place.workspace.name,
        "AZUREML_ARM_PROJECT_NAME": run.experiment,
        "AZUREML_RUN_TOKEN": place.run_token,
        "AZUREML_RUN_TOKEN_EXPIRY": str(expiry),
        "AZUREML_SERVICE_ENDPOINT": place.url,
        "AZUREML_DISCOVERY_SERVICE_ENDPOINT": f"{place.url}/discovery",
        "AZUREML_EXPERIMENT_ID": place.experiment_id,
        "AZUREML_WORKSPACE_ID": place.workspace.id,
        "AZUREML_FRAMEWORK": definition.framework,
        "AZUREML_COMMUNICATOR": definition.communicator,
        "AZUREML_TARGET_TYPE": "local" if run.target == "local" else "batchai",
        "RUNYARD_URL": place.url,
        "PYTHONUNBUFFERED": "1",
        **_data_variables(definition),
    }


def gpu_variables(gpus: Sequence[str]) -> dict[str, str]:
    """The processes of a node see all of its GPUs, and choose by their local rank."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def loopback_variables(addresses: Sequence[str]) -> dict[str, str]:
    """Nodes of one machine meet on its loopback interface, whatever interface was named for other machines."""
    if not is_loopback(addresses):
        return {}
    return {
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
        "TP_SOCKET_IFNAME": "lo",
    }


def direct_variables(definition: RunDefinition, addresses: Sequence[str]) -> dict[str, str]:
    """Processes of a run reach one another directly, whatever proxy leads to the world: gRPC, and so TensorFlow, would
    ask it for them."""
    given = {**submitter_variables(definition), **definition.environment.variables}
    if not any(name.lower() in _PROXIES for name in given):
        return {}
    spared = {
        "no_proxy": given.get("no_proxy") or given.get("NO_PROXY", ""),
        "NO_PROXY": given.get("NO_PROXY") or given.get("no_proxy", ""),
    }
    if given.get("no_grpc_proxy"):  # Where it is set, gRPC does not look at the others.
        spared["no_grpc_proxy"] = given["no_grpc_proxy"]
    # "*" spares everything, but only alone.
    return {
        name: value if value.strip() == "*" else ",".join(filter(None, (value, *dict.fromkeys(addresses))))
        for name, value in spared.items()
    }


def is_loopback(addresses: Sequence[str]) -> bool:
    """Whether all of them are this machine's own."""
    try:
        return all(ipaddress.ip_address(address).is_loopback for address in addresses)
    except ValueError:
        return False


def _data_variables(definition: RunDefinition) -> dict[str, str]:
    """How a script's SDK learns which inputs and outputs it has; the paths of those are set by the node."""
    inputs, outputs = definition.data, definition.outputs
    variables = {name: one.dataset_id for name, one in inputs.items() if one.mode == "direct" and settable(name)}
    if inputs:
        modes = (f"{name}:{one.mode}" for name, one in inputs.items())
        variables["AZUREML_DATASET_ENVIRONMENT_VARS"] = ",".join(modes)
    links = [name for name, one in outputs.items() if one.mode == LINK]
    for variable, names in (
        ("AZUREML_DATASET_FILE_OUTPUTS", [name for name in outputs if name not in links]),
        ("AZUREML_LINK_DATASET_OUTPUTS", links),
    ):
        if names:
            variables[variable] = ";".join(names)
    return variables
