import os
from collections.abc import Mapping
from pathlib import Path

from runyard.cli.connection import connect, quoted
from runyard.errors import RunyardError
from runyard.model.findings import Finding, Level
from runyard.model.package_settings import REFUSE, VIRTUAL_ENVIRONMENT

APPLIES = {
    REFUSE: "fail with the cause no_engine",
    VIRTUAL_ENVIRONMENT: "get the same packages in a virtual environment, with a warning",
}


def examine_environments(home: Path) -> list[Finding]:
    """Findings for environments: container engine and conda."""
    return [_engine(home), _conda()]


def _engine(home: Path) -> Finding:
    from runyard.containers.finding import find_engine

    try:
        engine = find_engine(os.environ)
        facts = engine.facts()
    except RunyardError as error:
        chosen = os.environ.get("DOCKER_HOST")
        found = f"{chosen} (DOCKER_HOST) does not answer" if chosen else "neither docker nor podman answers"
        return Finding("container engine", Level.LACKS, found, f"{_what_applies(home)} {error.hint}")
    return Finding("container engine", Level.OK, f"{facts.name} {facts.version} at {engine.address}")


def _what_applies(home: Path) -> str:
    """What runs in images do without an engine; by workspace where the service runs."""
    by_setting: dict[str, list[str]] = {}
    for workspace, setting in _settings(home).items():
        by_setting.setdefault(setting, []).append(f"'{workspace}'")
    if not by_setting:
        return f"Runs in images {APPLIES[REFUSE]}."
    parts = [f"in {', '.join(sorted(names))} they {APPLIES[setting]}" for setting, names in sorted(by_setting.items())]
    return f"Runs in images have no engine: {'; '.join(parts)}."


def _settings(home: Path) -> Mapping[str, str]:
    """Setting of each workspace; empty where no service runs, because none is started for this."""
    from runyard.lifecycle import service_status

    if service_status(home) is None:
        return {}
    service = connect()
    names = [str(one["name"]) for one in service.get("/workspaces")["workspaces"]]
    return {name: str(service.get(f"/workspaces/{quoted(name)}/packages")["without_engine"]) for name in names}


def _conda() -> Finding:
    from runyard.environments.conda.finding import find_conda

    tool = find_conda(os.environ)
    if tool is None:
        remedy = (
            "conda packages are installed from the Python package index under the names they have there; one that is "
            "on no such index needs micromamba, mamba or conda on PATH."
        )
        return Finding("conda", Level.LACKS, "no micromamba, mamba or conda", remedy)
    return Finding("conda", Level.OK, f"{tool.name} {tool.version()} at {tool.path}")
