"""A service on another machine, over TLS, from every Python from 3.6 that this machine has."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import interpreters
from tests.open_service import OpenService, serving_outside
from tests.sdk.test_every_interpreter import SDK

pytestmark = pytest.mark.slow

ASK = """
from runyard_sdk.client import Client
from runyard_sdk.errors import ServiceUnavailable
try:
    print(Client().get("/health")["shares_files"])
except ServiceUnavailable as error:
    print(error)
"""


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenService]:
    with serving_outside(tmp_path_factory.mktemp("far")) as served:
        yield served


@pytest.fixture(scope="module")
def pythons() -> dict[tuple[int, int], Path]:
    return interpreters()


def _said(python: Path, far: OpenService, **changes: str) -> str:
    variables = {
        **os.environ,
        "PYTHONPATH": str(SDK / "src"),
        "RUNYARD_URL": far.url,
        "RUNYARD_TOKEN": far.facts["token"],
        "RUNYARD_CA": str(far.certificate.authority),
        **changes,
    }
    done = subprocess.run([python, "-c", ASK], env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_reached_where_its_issuer_is_trusted(far, pythons):
    assert {version: _said(python, far) for version, python in pythons.items()} == dict.fromkeys(pythons, "False")


def test_its_own_certificate_is_enough(far, pythons, tmp_path):
    own = far.certificate.chain.read_text().partition("-----END CERTIFICATE-----\n")
    (tmp_path / "own.pem").write_text(own[0] + own[1])
    for python in pythons.values():
        assert _said(python, far, RUNYARD_CA=str(tmp_path / "own.pem")) == "False", python


def test_whoever_does_not_trust_it_is_told_what_to_set(far, pythons):
    for python in pythons.values():
        assert "Set RUNYARD_CA" in _said(python, far, RUNYARD_CA=""), python
        by_another_name = far.url.replace("127.0.0.1", "localhost")
        assert "is not trusted" in _said(python, far, RUNYARD_URL=by_another_name), python
        assert "cannot be used" in _said(python, far, RUNYARD_CA="/not/there"), python
