"""The process that builds the environment of a revision. The gateway itself stays small and imports none of this.

`python -m runyard.serving.gateway.environment_build_process HOME PARENT_PID` reads JSON with environment, variables,
packages and addresses from stdin, writes the build log to stderr and, at its end, one line of JSON to stdout: {} or the
error as on the wire.
"""

import json
import sys
from pathlib import Path

from runyard.core.errors import Json, RunyardError, to_wire
from runyard.core.record_json import from_json
from runyard.core.records.environments import PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.run_folders import environments_root
from runyard.environments.builder import LocalEnvironments
from runyard.environments.package_sources import BuildSettings
from runyard.node.processes.procfs import die_with_parent


def main(home: Path, parent: int) -> int:
    die_with_parent(parent)
    request = json.loads(sys.stdin.buffer.read())
    spec = from_json(EnvironmentSpec, request["environment"], "environment")
    answer: Json = {}
    try:
        settings = from_json(PackageSettings, request["packages"], "packages")
        provisions = BuildSettings(settings, addresses=request["addresses"])
        LocalEnvironments(environments_root(home), request["variables"], lambda: provisions).ensure(spec, _print_line)
    except RunyardError as error:
        answer = {"error": to_wire(error)}
    print(json.dumps(answer), flush=True)
    return 0


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
