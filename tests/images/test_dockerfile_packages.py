"""What the steps of a Dockerfile install comes from where the workspace says, and leaves no trace of that."""

from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause, PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.environments.package_sources import BuildSettings
from tests.environments.index_server import Index, serving
from tests.environments.wheelhouse import add_wheel
from tests.images.building import ImageHome
from tests.servers.certificates import make_certificate

pytestmark = pytest.mark.images
# As pip does it, which the image lacks: the first link of a project's page, taken from the index that pip reads of.
INSTALL = r"""
RUN python3 -c "import os, re, io, zipfile, urllib.request as web, urllib.parse as parse; \
    page = os.environ['PIP_INDEX_URL'].rstrip('/') + '/demo/'; \
    link = re.search('href=.([^#]*?)[#\x22]', web.urlopen(page).read().decode())[1]; \
    wheel = io.BytesIO(web.urlopen(parse.urljoin(page, link)).read()); \
    zipfile.ZipFile(wheel).extractall('/usr/lib/python3/dist-packages')"
"""


def spec_of(base: str, step: str) -> EnvironmentSpec:
    image = ImageSpec(dockerfile=f"FROM {base} AS first\nFROM first\n{step}\n", interpreter="python3")
    return EnvironmentSpec(user_managed=True, image=image)


def settled(home: ImageHome, **settings: object) -> ImageHome:
    home.provisions = BuildSettings(replace(PackageSettings(), **settings))
    return home


@pytest.fixture(autouse=True)
def demo(wheels: Path, image_home: ImageHome) -> None:
    add_wheel(wheels, "demo", "1.0")


@pytest.mark.parametrize("has_certificate", [False, True])
def test_a_step_installs_from_the_workspaces_index_with_its_password_and_certificates(
    image_home: ImageHome, debian_python: str, wheels: Path, tmp_path: Path, has_certificate: bool
) -> None:
    certificate = make_certificate(tmp_path / "tls") if has_certificate else None
    with serving(Index(wheels, login="me:s3cret"), certificate) as index:
        settled(
            image_home,
            index_url=index.address_with_login,
            ca_bundle=certificate.authority.read_text() if certificate else "",
        )
        built = image_home.ensure(spec_of(debian_python, INSTALL))
    assert image_home.python(built, "import demo; print(demo.version)") == ["1.0"]
    facts = image_home.engine.images.find(built.image)
    seen = "\n".join([*image_home.said, *image_home.engine.images.history(built.image), str(facts)])
    assert "s3cret" not in seen
    assert not any("PIP" in name or "UV" in name for name in facts.variables)


def test_a_step_sees_an_open_index_and_the_wheel_folders(
    image_home: ImageHome, debian_python: str, wheels: Path
) -> None:
    settled(image_home, index_url="http://index.example/simple", find_links=(str(wheels),))
    asks = 'RUN echo "index=$PIP_INDEX_URL $UV_DEFAULT_INDEX" && python3 -c "import os, urllib.request as web; '
    asks += "print(web.urlopen(os.environ['PIP_FIND_LINKS']).read().decode())\""
    image_home.ensure(spec_of(debian_python, asks))
    assert image_home.has_said("index=http://index.example/simple http://index.example/simple")
    assert image_home.has_said("demo-1.0-py3-none-any.whl")


def test_the_same_step_is_taken_from_the_engines_cache(image_home: ImageHome, debian_python: str, wheels: Path) -> None:
    settled(image_home, find_links=(str(wheels),))
    spec = spec_of(debian_python, "RUN echo $PIP_FIND_LINKS && date > /made")
    first = image_home.lines(image_home.ensure(spec), "cat", "/made")
    again = image_home.ensure(replace(spec, image=replace(spec.image, interpreter="/usr/bin/python3")))
    assert image_home.lines(again, "cat", "/made") == first


def test_offline_a_step_has_no_network(image_home: ImageHome, debian_python: str) -> None:
    settled(image_home, offline=True)
    image_home.ensure(spec_of(debian_python, "RUN echo cards: $(ls /sys/class/net)."))
    assert image_home.has_said("cards: lo.")
    assert image_home.has_said("no network")
    fetch = "RUN python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9))\""
    with pytest.raises(EnvironmentFailed) as failed:
        image_home.ensure(spec_of(debian_python, fetch))
    assert failed.value.facts["cause"] == FailureCause.DOCKERFILE_FAILED


def test_a_password_in_a_dockerfile_is_not_in_the_log(image_home: ImageHome, debian_python: str) -> None:
    image_home.ensure(spec_of(debian_python, "RUN echo https://TOKEN@index.example/simple"))
    assert image_home.has_said("https://****@index.example/simple")
    assert not image_home.has_said("TOKEN")
