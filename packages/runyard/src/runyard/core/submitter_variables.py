import re
from collections.abc import Mapping

from runyard.core.definitions.environment import why_no_variable
from runyard.core.definitions.run import RunDefinition, Submitter

_MACHINE_PATHS = frozenset(
    {"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PYENV_ROOT"}
    | {"CONDA_EXE", "CONDA_PKGS_DIRS", "MAMBA_EXE", "MAMBA_ROOT_PREFIX"}
    | {"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST"}
)
"""Variables that name paths or addresses of the submitter's machine."""
_INHERITED = (
    _MACHINE_PATHS
    | {"USER", "LANG", "LC_ALL", "TZ"}
    | {"http_proxy", "https_proxy", "no_proxy", "all_proxy"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
)
_ENGINE_VARIABLES = frozenset({"DOCKER_HOST", "CONTAINER_HOST"})
_LOCAL_ENGINE = re.compile(r"unix:///.+|(tcp|http|https)://(127\.[0-9.]+|localhost|\[::1\])(:[0-9]+)?/?")
"""Container engines on this machine. One elsewhere is refused: it would get the workspace's registry logins."""
_PATHS = re.compile(r"(^|[\s,=])(/|~|file:)")
_INSTALLER_PREFIXES = ("PIP_", "UV_")


def submitter_variables(definition: RunDefinition) -> dict[str, str]:
    """Variables of the submitter that the run inherits: a fixed list, and a UTF-8 locale by default."""
    return inherited_variables(definition.runyard.submitter)


def inherited_variables(submitter: Submitter) -> dict[str, str]:
    """See `submitter_variables`."""
    kept = {
        name: value
        for name, value in submitter.variables.items()
        if (name in _INHERITED or name.startswith(_INSTALLER_PREFIXES)) and not why_no_variable(name, value)
        if name not in _ENGINE_VARIABLES or _LOCAL_ENGINE.fullmatch(value)
    }
    if not kept.get("LANG") and not kept.get("LC_ALL"):
        kept["LANG"] = "C.UTF-8"
    return kept


def without_machine_paths(variables: Mapping[str, str]) -> dict[str, str]:
    """Leave out variables that name files or programs of the submitter's machine, which an image does not have."""
    return {
        name: value
        for name, value in variables.items()
        if name not in _MACHINE_PATHS and not (name.startswith(_INSTALLER_PREFIXES) and _PATHS.search(value))
    }
