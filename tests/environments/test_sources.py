"""The package settings of a workspace, from the value to a real uv that asks a real index."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.index_settings import pip_variables, uv_variables
from runyard.environments.lockfile import LockFile
from runyard.environments.package_sources import PackageSources
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.index_server import Index, serving
from tests.environments.wheelhouse import add_wheel
from tests.servers.certificates import make_certificate

DEMO = EnvironmentSpec(python="3.11", requirements=("demo",))
MINE = PackageSettings(index_url="https://me:s3cret@index.example/simple")


def _unheard(line: str) -> None:
    pass


@pytest.fixture
def nobody(tmp_path: Path) -> dict[str, str]:
    """A submitter who has chosen no index."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_HTTP_RETRIES": "0",
    }


def test_the_index_of_a_workspace_replaces_all_that_the_submitter_chose(nobody):
    theirs = {
        "PIP_EXTRA_INDEX_URL": "https://theirs.example",
        "UV_INDEX_URL": "https://uv.example",
        "PIP_NO_INDEX": "1",
    }
    effective = PackageSources(
        {**nobody, **theirs}, PackageSettings(index_url="https://ours.example/simple")
    ).in_effect()
    for told in (uv_variables(effective), pip_variables(effective)):
        assert "https://ours.example/simple" in told.values()
        assert not {"https://theirs.example", "https://uv.example"} & set(told.values())
    assert "PIP_NO_INDEX" not in effective


def test_extra_indexes_and_folders_come_before_those_of_the_submitter(nobody):
    theirs = {"PIP_INDEX_URL": "https://theirs.example", "PIP_EXTRA_INDEX_URL": "https://more.example"}
    settings = PackageSettings(extra_index_urls=("https://ours.example",), find_links=("/wheels",))
    effective = PackageSources({**nobody, **theirs, "UV_FIND_LINKS": "/mine"}, settings).in_effect()
    assert uv_variables(effective)["UV_DEFAULT_INDEX"] == "https://theirs.example"
    assert uv_variables(effective)["UV_INDEX"] == "https://ours.example https://more.example"
    assert uv_variables(effective)["UV_FIND_LINKS"] == "/wheels,/mine"
    assert pip_variables(effective)["PIP_FIND_LINKS"] == "/wheels /mine"


def test_the_key_tells_indexes_apart_and_passwords_not(nobody):
    assert PackageSources(nobody).key == ""
    mine = PackageSources(nobody, MINE).key
    assert mine not in ("", PackageSources(nobody, PackageSettings(index_url="https://me@other.example/simple")).key)
    assert mine == PackageSources(nobody, replace(MINE, index_url=MINE.index_url.replace("s3cret", "rotated"))).key
    assert (
        PackageSources({**nobody, "PIP_INDEX_URL": "https://a.example"}).key
        == PackageSources({**nobody, "UV_DEFAULT_INDEX": "https://a.example/"}).key
    )
    assert PackageSources(nobody, PackageSettings(offline=True, ca_bundle="x", trusted_hosts=("a",))).key == ""


def test_an_image_build_is_told_of_no_password(nobody):
    settings = replace(MINE, extra_index_urls=("https://free.example/simple",))
    sources = PackageSources({**nobody, "https_proxy": "http://proxy.example:3128"}, settings)
    arguments = sources.build_args()
    assert "s3cret" not in str(arguments)
    assert arguments["PIP_EXTRA_INDEX_URL"] == "https://free.example/simple"
    assert arguments["https_proxy"] == "http://proxy.example:3128"
    assert sources.withheld({}) == ("https://me:****@index.example/simple",)


@pytest.mark.parametrize("address", ["https://TOKEN@index.example/simple", "https://index.example/simple?token=TOKEN"])
def test_a_token_alone_is_a_password_too(nobody, address):
    sources = PackageSources(nobody, PackageSettings(index_url=address))
    assert "TOKEN" not in str(sources.build_args())
    assert sources.withheld({}) == (address.replace("TOKEN", "****"),)
    assert sources.key == PackageSources(nobody, PackageSettings(index_url=address.replace("TOKEN", "ROTATED"))).key


def test_folders_of_this_machine_are_known(nobody):
    settings = PackageSettings(index_url="file:///mirror/a%20b", find_links=("/wheels", "https://w.example/torch"))
    assert PackageSources(nobody, settings).folders == (Path("/mirror/a b"), Path("/wheels"))


def test_a_workspace_with_an_index_and_a_password_builds_from_there(root, nobody, wheels):
    add_wheel(wheels, "demo", "1.0")
    heard: list[str] = []
    with serving(Index(wheels, login="me:s3cret")) as index:
        settings = PackageSettings(index_url=index.address_with_login)
        built = UvEnvironments(root, nobody, lambda: settings).ensure(DEMO, heard.append)
    assert LockFile.parse(built.lock).versions == ("demo==1.0",)
    assert "s3cret" not in built.lock + "".join(heard)
    written = [file for file in root.rglob("*") if file.is_file() and b"s3cret" in file.read_bytes()]
    assert written == []


def test_settings_are_asked_for_once_a_build_and_never_to_find(root, nobody, wheels):
    add_wheel(wheels, "demo", "1.0")
    asked: list[str] = []

    def settings() -> PackageSettings:
        asked.append("asked")
        return PackageSettings(index_url=wheels.as_uri(), find_links=(str(wheels),), offline=True)

    environments = UvEnvironments(root, nobody, settings)
    assert environments.find(DEMO) is None
    assert asked == []
    environments.ensure(DEMO, _unheard)
    environments.ensure(DEMO, _unheard)
    assert asked == ["asked"]


def test_the_certificates_of_a_workspace_are_trusted_and_do_not_stay(root, nobody, wheels, tmp_path):
    add_wheel(wheels, "demo", "1.0")
    certificate = make_certificate(tmp_path / "tls")
    with serving(Index(wheels), certificate) as index:
        unknown = PackageSettings(index_url=index.address)
        with pytest.raises(EnvironmentFailed) as failure:
            UvEnvironments(root, nobody, lambda: unknown).ensure(DEMO, _unheard)
        assert failure.value.facts["cause"] == "certificate"
        trusted = replace(unknown, ca_bundle=certificate.authority.read_text())
        UvEnvironments(root, nobody, lambda: trusted).ensure(DEMO, _unheard)
    assert list(root.rglob("certificates.pem")) == []


def test_a_bundle_adds_to_what_the_machine_trusts(nobody, tmp_path):
    known = tmp_path / "known.pem"
    known.write_text("KNOWN\n")
    sources = PackageSources({**nobody, "SSL_CERT_FILE": str(known)}, PackageSettings(ca_bundle="OURS"))
    with sources.with_certificates(tmp_path) as variables:
        assert Path(variables["SSL_CERT_FILE"]).read_text() == "OURS\nKNOWN\n"
        assert variables["REQUESTS_CA_BUNDLE"] == variables["PIP_CERT"] == variables["SSL_CERT_FILE"]
    assert not Path(variables["SSL_CERT_FILE"]).exists()


def test_an_offline_workspace_builds_from_the_caches_alone(root, nobody, wheels, tmp_path):
    add_wheel(wheels, "demo", "1.0", needs="inner")
    add_wheel(wheels, "inner", "2.0")
    with serving(Index(wheels)) as index:
        settings = PackageSettings(index_url=index.address)
        first = UvEnvironments(root, nobody, lambda: settings).ensure(DEMO, _unheard)
        index.asked.clear()
        offline = replace(settings, offline=True)
        again = UvEnvironments(tmp_path / "elsewhere", nobody, lambda: offline).ensure(DEMO, _unheard)
        assert index.asked == []
    assert again.lock == first.lock


def test_a_wheel_folder_of_the_workspace_gives_torch_for_the_processor(root, nobody, tmp_path, wheels):
    add_wheel(wheels, "torch", "1.4.0", needs="nvidia-everything")
    folder = tmp_path / "cpu"
    add_wheel(folder, "torch", "1.4.0+cpu")
    add_wheel(folder, "torchvision", "0.5.0+cpu", needs="torch==1.4.0")
    spec = EnvironmentSpec(
        python="3.11",
        choices=(("torch==1.4.0+cpu", "torchvision==0.5.0+cpu"), ("torch==1.4.0+cpu",), ("torch==1.4.0",)),
    )
    with serving(Index(wheels)) as index:
        settings = PackageSettings(index_url=index.address, find_links=(str(folder),))
        built = UvEnvironments(root, nobody, lambda: settings).ensure(spec, _unheard)
    assert LockFile.parse(built.lock).versions == ("torch==1.4.0+cpu", "torchvision==0.5.0+cpu")


def test_no_command_line_shows_a_password(root, nobody, wheels, monkeypatch):
    add_wheel(wheels, "demo", "1.0")
    commands: list[str] = []
    start = subprocess.Popen

    def noted(command, *args, **options):
        commands.append(str(command))
        return start(command, *args, **options)

    monkeypatch.setattr(subprocess, "Popen", noted)
    with serving(Index(wheels, login="me:s3cret")) as index:
        UvEnvironments(root, {**nobody, "PIP_INDEX_URL": index.address_with_login}).ensure(DEMO, _unheard)
    assert any("compile" in command for command in commands)
    assert not any("s3cret" in command for command in commands)


def test_the_key_tells_configurations_of_uv_apart(nobody, tmp_path):
    file = tmp_path / ".config/uv/uv.toml"
    file.parent.mkdir(parents=True)
    mine = {**nobody, "HOME": str(tmp_path)}
    file.write_text('[[index]]\nurl = "https://me:s3cret@one.example/simple"\n')
    one = PackageSources(mine).key
    file.write_text('[[index]]\nurl = "https://me:other@one.example/simple"\n')
    assert PackageSources(mine).key == one != ""
    file.write_text('[[index]]\nurl = "https://two.example/simple"\n')
    assert PackageSources(mine).key not in ("", one)
    assert PackageSources({**mine, "UV_NO_CONFIG": "1"}).key == ""
    ours = PackageSettings(index_url="https://ours.example/simple")
    assert PackageSources(mine, ours).key == PackageSources(nobody, ours).key
