"""Which image a definition chose."""

import pytest

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.planning.image import (
    LARGEST_DOCKERFILE_BYTES,
    image_of,
    registries_of,
    registry_address,
    registry_of,
)

LOGIN = {"address": "registry.example", "username": "ada", "password": "s3cret"}


def planned(section, target="cluster", python=None, **definition):
    environment = {"docker": section, "python": python or {}}
    return plan_environment(
        RunDefinition.parse({"environment": environment, "target": target, **definition}), gpu_present=False
    )


@pytest.mark.parametrize(
    ("base", "address", "reference", "registry"),
    [
        ("ubuntu", None, "ubuntu", "docker.io"),
        ("microsoft/cntk:2.5.1-cpu", "", "microsoft/cntk:2.5.1-cpu", "docker.io"),
        ("team/image:tag", "https://registry.example:5/", "registry.example:5/team/image:tag", "registry.example:5"),
        ("registry.example/image", "registry.example", "registry.example/image", "registry.example"),
        ("localhost:5000/a/b@sha256:" + "0" * 64, None, "localhost:5000/a/b@sha256:" + "0" * 64, "localhost:5000"),
        ("a/b", "https://index.docker.io/v1/", "a/b", "docker.io"),
    ],
)
def test_an_image_is_asked_for_at_its_registry(base, address, reference, registry):
    image = image_of(
        EnvironmentDefinition.parse({"docker": {"baseImage": base, "baseImageRegistry": {"address": address}}})
    )
    assert (image.base, image.registry) == (reference, registry)


@pytest.mark.parametrize(
    "docker",
    [
        {},
        {"baseImage": None},
        {"baseImage": "mcr.microsoft.com/azureml/base:intelmpi2018.3-ubuntu16.04"},
        {"baseImage": "azureml/base:0.2.1", "baseImageRegistry": {"address": "mcr.microsoft.com"}},
        {"baseDockerfile": " \n"},
    ],
)
def test_an_image_of_the_originals_own_is_no_choice(docker):
    assert image_of(EnvironmentDefinition.parse({"docker": docker})) is None


@pytest.mark.parametrize(
    "base",
    ["Ubuntu:Latest", "a b", "a\nb", "$(reboot)", "a;b", "-rm", "../../etc", "http://", "a" * 600, "a:", "a@b", "x\0y"],
)
def test_what_is_no_name_of_an_image_is_refused_by_name(base):
    with pytest.raises(InvalidArgument, match="base_image"):
        planned({"baseImage": base})


@pytest.mark.parametrize("address", ["a b", "$(x)", "host/path", "a\nb", "-host", "host:port", "user@host"])
def test_what_is_no_address_of_a_registry_is_refused(address):
    with pytest.raises(InvalidArgument, match="address"):
        registry_address(address)


@pytest.mark.parametrize(
    ("definition", "is_image"),
    [
        ({"target": "local"}, False),
        ({"target": "cluster"}, True),
        ({"target": "amlcompute"}, True),
        ({"target": "local", "docker": {"useDocker": True}}, True),
        ({"target": "local", "runyard": {"build": {"force": False}}}, True),
    ],
)
def test_an_image_is_used_on_clusters_and_where_docker_is_asked_for(definition, is_image):
    assert (planned({"baseImage": "ubuntu"}, **definition).image is not None) is is_image


def test_docker_that_is_enabled_is_docker_asked_for():
    assert planned({"baseImage": "ubuntu", "enabled": True}, target="local").image is not None


def test_no_password_is_in_a_plan():
    assert "s3cret" not in repr(planned({"baseImage": "ubuntu", "baseImageRegistry": LOGIN}))


def test_an_image_with_dependencies_of_its_own_is_used_as_it_is():
    spec = planned({"baseImage": "ubuntu"}, python={"userManagedDependencies": True, "interpreterPath": "python"})
    assert (spec.user_managed, spec.requirements, spec.image.interpreter) == (True, (), "python")


def test_what_a_dockerfile_installs_is_told_apart_by_where_it_comes_from_and_follows_its_lock():
    definition = {
        "environment": {"docker": {"baseDockerfile": "FROM a"}, "python": {"userManagedDependencies": True}},
        "target": "cluster",
        "runyard": {"locked": {"run": "r", "lock": "# base: sha256:1\n"}},
    }
    spec = plan_environment(RunDefinition.parse(definition), gpu_present=False, sources="ours")
    assert (spec.sources, spec.locked) == ("ours", "# base: sha256:1\n")
    definition["environment"]["docker"] = {"baseImage": "a"}
    assert plan_environment(RunDefinition.parse(definition), gpu_present=False, sources="ours").sources == ""


def test_an_image_gets_the_packages_that_the_environment_lists():
    dependencies = ["python=3.6.2", {"pip": ["numpy==1.16.6"]}]
    spec = planned({"baseDockerfile": "FROM ubuntu"}, python={"condaDependencies": {"dependencies": dependencies}})
    assert (spec.python, spec.requirements, spec.image.dockerfile) == ("3.6.2", ("numpy==1.16.6",), "FROM ubuntu")


@pytest.mark.parametrize(
    ("reference", "registry"),
    [
        ("debian", "docker.io"),
        ("microsoft/mmlspark:0.12", "docker.io"),
        ("index.docker.io/library/debian", "docker.io"),
        ("registry.example:5000/a/b", "registry.example:5000"),
        ("Registry.Example/a", "registry.example"),
        ("localhost/a@sha256:00ff", "localhost"),
    ],
)
def test_a_reference_names_its_registry_in_one_way(reference, registry):
    assert registry_of(reference) == registry


def test_all_registries_that_a_dockerfile_names_are_known():
    image = image_of(
        EnvironmentDefinition.parse(
            {"docker": {"baseDockerfile": "from --platform=$P one.example/a AS b\nFROM two.example:1/c\nFROM b"}}
        )
    )
    assert registries_of(image) == {"one.example", "two.example:1", "docker.io"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FROM a\0", "NUL"),
        ("./Dockerfile", "no FROM"),
        ("FROM a\n" + "#" * LARGEST_DOCKERFILE_BYTES, "at most"),
    ],
)
def test_what_is_no_dockerfile_is_refused(text, said):
    with pytest.raises(InvalidArgument, match=said):
        planned({"baseDockerfile": text})


@pytest.mark.parametrize("path", ["../secrets", "/etc/passwd", "a/../../b", "a\0b"])
def test_a_build_context_stays_within_itself(path):
    context = {"dockerfile": "FROM a", "files": [[path, "ab" * 32, 1, 0o644]]}
    with pytest.raises(InvalidArgument, match="build context"):
        planned({"buildContext": context})


def test_a_git_address_as_build_context_is_refused_with_what_to_do():
    with pytest.raises(InvalidArgument, match="from_local_directory"):
        planned({"buildContext": {"locationType": "git", "location": "https://host/repository"}})


@pytest.mark.parametrize("docker", ["text", 7, ["list"]])
def test_a_docker_section_that_is_none_is_named(docker):
    with pytest.raises(InvalidArgument, match="docker must be an object"):
        planned(docker)


def test_a_platform_is_told_to_the_engine():
    image = image_of(
        EnvironmentDefinition.parse(
            {"docker": {"baseImage": "a", "platform": {"os": "Linux", "architecture": "aarch64"}}}
        )
    )
    assert image.platform == "linux/arm64"
