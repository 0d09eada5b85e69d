"""Schemathesis drives every operation of the OpenAPI against a real service: no 5xx, every answer as its model says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.server.lifecycle import start_service
from tests.conftest import end_home
from tests.wire_client import WireClient

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]
CONFIG = Path(__file__).parent / "schemathesis.toml"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EXAMPLES = 15
"""For each operation and phase: about two minutes on two cores."""


def test_no_generated_request_breaks_the_service_or_its_promises(tmp_path):
    home = tmp_path / "home"
    facts = start_service(home, keep=True)
    try:
        owner = WireClient(facts["url"], facts["token"], workspace="fuzzed")
        owner.put(owner.here, {"exist_ok": True})
        owner.interactive_run("fuzzed-run")
        schema = tmp_path / "openapi.json"
        schema.write_text(json.dumps(_without_rows(owner.get("/openapi.json"))))
        done = subprocess.run(
            [
                str(Path(sys.prefix) / "fuzz" / "bin" / "schemathesis"),
                f"--config-file={CONFIG}",
                "run",
                str(schema),
                f"--url={facts['url']}",
                f"--header=Authorization: Bearer {facts['token']}",
                "--phases=examples,coverage,fuzzing",
                f"--checks={CHECKS}",
                f"--max-examples={EXAMPLES}",
                "--request-timeout=60",
                "--seed=1",
                "--generation-database=none",
                "--no-shrink",
                "--no-color",
                "--warnings=off",
                "--continue-on-failure",
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            timeout=540,
        )
        assert owner.get("/health")["pid"] == facts["pid"]
    finally:
        end_home(home)
    print(done.stdout[-20_000:], done.stderr[-2000:])
    assert done.returncode == 0


def _without_rows(schema: Any) -> Any:
    """Schemathesis rewrites `prefixItems` of an answer to a form that it then calls invalid."""
    if isinstance(schema, list):
        return [_without_rows(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _without_rows(value) for name, value in schema.items() if name != "prefixItems"}
    return {**plain, "items": {"anyOf": _without_rows(schema["prefixItems"])}} if "prefixItems" in schema else plain
