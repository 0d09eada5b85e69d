"""What the docker arguments of a definition ask of its containers."""

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import ContainerRequest, VolumeRequest
from runyard.environments.planning.container_request import check_host_access, container_request

G = 1 << 30


def wish(*arguments, **docker):
    return container_request(RunDefinition.parse({"environment": {"docker": {"arguments": list(arguments), **docker}}}))


@pytest.mark.parametrize(
    ("given", "size"),
    [("2g", 2 * G), ("2G", 2 * G), ("512m", G // 2), ("1.5gb", 3 * G // 2), ("64KiB", 65536), (1024, 1024), ("7", 7)],
)
def test_the_size_of_shared_memory_is_taken_in_every_form(given, size):
    assert wish(shmSize=given).shm_bytes == size


@pytest.mark.parametrize("given", ["", "0", "-1g", "2x", "$(x)", "2g\n3", True, "9" * 30, "2000t", [1]])
def test_a_size_that_is_none_is_refused_by_name(given):
    if given == "":
        assert wish(shmSize=given).shm_bytes is None
        return
    with pytest.raises(InvalidArgument, match="shm_size"):
        wish(shmSize=given)


def test_the_runs_own_section_wins_where_docker_is_asked_for_there():
    environment = {"docker": {"shmSize": "1g", "arguments": ["--cpus=1"]}}
    own = {"useDocker": True, "shmSize": "2g", "arguments": ["--cpus", "2"]}
    found = container_request(RunDefinition.parse({"environment": environment, "docker": own}))
    assert (found.shm_bytes, found.cpus) == (2 * G, 2.0)
    assert (
        container_request(
            RunDefinition.parse({"environment": environment, "docker": {**own, "useDocker": False}})
        ).shm_bytes
        == G
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--shm-size", "2g"], ContainerRequest(shm_bytes=2 * G)),
        (["--shm-size=2g"], ContainerRequest(shm_bytes=2 * G)),
        (["--shm-size 2g"], ContainerRequest(shm_bytes=2 * G)),
        (["-m", "4g", "--cpus", "1.5"], ContainerRequest(memory_bytes=4 * G, cpus=1.5)),
        (["--ipc=host"], ContainerRequest(ipc="host")),
        (["--net=host", "--rm", "-it"], ContainerRequest(network="host")),
        (["--gpus", "all"], ContainerRequest(wants_gpus=True)),
        (["--gpus", "2"], ContainerRequest(wants_gpus=True)),
        (["--gpus", '"device=0,1"'], ContainerRequest(wants_gpus=True)),
        (["--gpus=0"], ContainerRequest()),
        (["--runtime=nvidia"], ContainerRequest(wants_gpus=True)),
        (["-v", "/data:/mnt:ro"], ContainerRequest(volumes=(VolumeRequest("/data", "/mnt", True),))),
        (["-v/data:/mnt"], ContainerRequest(volumes=(VolumeRequest("/data", "/mnt"),))),
        (
            ["--mount", "type=bind,source=/a,target=/b,readonly"],
            ContainerRequest(volumes=(VolumeRequest("/a", "/b", True),)),
        ),
        (["-e", "A=b c", "-e 'D=e f'"], ContainerRequest(variables=(("A", "b c"), ("D", "e f")))),
        (["--ulimit", "memlock=-1"], ContainerRequest(ulimits=(("memlock", -1, -1),))),
        (["--ulimit=nofile=1:2"], ContainerRequest(ulimits=(("nofile", 1, 2),))),
        (["--user", "1000:1000", "-h", "trainer"], ContainerRequest(user="1000:1000", hostname="trainer")),
        (["--privileged"], ContainerRequest(is_privileged=True)),
        (["--cap-add", "sys_ptrace"], ContainerRequest(added_capabilities=("SYS_PTRACE",))),
        (["--cap-drop=ALL"], ContainerRequest(dropped_capabilities=("ALL",))),
        (["--device=/dev/fuse"], ContainerRequest(devices=("/dev/fuse",))),
        (["--add-host", "db:10.0.0.1"], ContainerRequest(hosts=(("db", "10.0.0.1"),))),
        (["--security-opt", "seccomp=unconfined"], ContainerRequest(security=("seccomp=unconfined",))),
        (["--sysctl", "a.b=1"], ContainerRequest(sysctls=(("a.b", "1"),))),
        (
            ["--sysctl", "net.a=1", "--network=bridge"],
            ContainerRequest(sysctls=(("net.a", "1"),), network="bridge"),
        ),
    ],
)
def test_arguments_are_read_as_docker_reads_them(arguments, expected):
    assert wish(*arguments) == expected


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("--pid=host", "--pid"),
        ("--env-file=/etc/shadow", "--env-file"),
        ("--volumes-from=other", "--volumes-from"),
        ("--cgroup-parent=/", "--cgroup-parent"),
        ("--userns=host", "--userns"),
        ("-p", "-p"),
        ("ubuntu", "ubuntu"),
        ("$(reboot)", "reboot"),
        ("--entrypoint=/bin/sh", "--entrypoint"),
        ("--rm\n--pid=host", "--pid"),
    ],
)
def test_an_argument_that_is_not_known_is_named(argument, named):
    with pytest.raises(InvalidArgument, match=named):
        wish(argument)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-v"],
        ["-v", "name:/data"],
        ["-v", "/data"],
        ["-v", "/data:/"],
        ["-v", "/data/../etc:/x"],
        ["-v", "/a:/b:shared"],
        ["--mount", "type=volume,source=a,target=/b"],
        ["-e", "HOME"],
        ["-e", "A\nB=1"],
        ["-e", "A B=1"],
        ["-e", "=1"],
        ["--gpus", "some"],
        ["--gpus", "device=/dev/sda"],
        ["--memory", "1m"],
        ["--sysctl", "net.core.somaxconn=1"],
        ["--sysctl", "net.core.somaxconn=1", "--network=host"],
        ["--network", "container:other"],
        ["--ipc", "container:other"],
        ["--runtime", "evil"],
        ["--device", "/etc/passwd"],
        ["--security-opt", "seccomp=/tmp/profile.json"],
        ["--ulimit", "nofile"],
        ["--cpus", "0"],
        ["--user", "a b"],
        ["-e 'A=b"],
        ["--hostname", "a\nb"],
        ["a\0b"],
        [7],
        ["--rm"] * 2000,
    ],
)
def test_a_value_that_no_container_could_have_is_refused(arguments):
    with pytest.raises(InvalidArgument, match=r"docker\.arguments"):
        wish(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-v", "/:/host"],
        ["--mount", "type=bind,source=/,target=/host"],
        ["--privileged"],
        ["--device=/dev/sda"],
        ["--ipc=host"],
        ["--cap-add=SYS_ADMIN"],
        ["--security-opt=apparmor=unconfined"],
    ],
)
def test_what_reaches_for_the_machine_needs_the_operators_word(arguments):
    definition = {"environment": {"docker": {"arguments": arguments}}}
    check_host_access(RunDefinition.parse(definition), is_allowed=True)
    with pytest.raises(InvalidArgument, match="RUNYARD_CONTAINER_HOST_ACCESS"):
        check_host_access(RunDefinition.parse(definition), is_allowed=False)


def test_what_stays_in_the_container_needs_nobodys_word():
    arguments = ["--shm-size=1g", "--net=host", "--gpus=all", "-e", "A=b", "--cap-drop=ALL", "--privileged=false"]
    check_host_access(RunDefinition.parse({"docker": {"arguments": arguments}}), is_allowed=False)
