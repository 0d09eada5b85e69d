import os
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Event

from runyard.core.records.environments import PackageSettings
from runyard.core.records.launch_plan import CondaSpec, EnvironmentSpec
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.uv_environments import UvEnvironments
from tests.environments.conda_tool.channel import MINOR, CondaChannel
from tests.environments.conda_tool.installing import install_micromamba
from tests.environments.conda_tool.served import served

SPEC = EnvironmentSpec(python=MINOR, conda=CondaSpec(packages=("demo",), channels=("conda-forge",)))


def _with_gate(tools: Path, gate: str) -> None:
    """Put a door before the tool, which is passed at the named pipes GATE.entered and GATE.leave while they exist."""
    real = install_micromamba(tools / "real")
    door = tools / "micromamba"
    door.write_text(
        f'#!/bin/sh\nif [ -p "{gate}.entered" ]; then echo > "{gate}.entered"; cat "{gate}.leave"; fi\n'
        f'exec "{real}" "$@"\n'
    )
    door.chmod(0o755)
    os.mkfifo(f"{gate}.entered")
    os.mkfifo(f"{gate}.leave")


def _environments(root: Path, variables: Mapping[str, str], address: str) -> UvEnvironments:
    settings = PackageSettings(conda_channels={"conda-forge": f"http://reader:s3cret@{address}/ours"})
    return UvEnvironments(root, variables, lambda: settings)


def _ensure(root: Path, variables: Mapping[str, str], address: str) -> None:
    _environments(root, variables, address).ensure(SPEC, lambda line: None)


def _holding(text: str, folder: Path) -> list[str]:
    found = subprocess.run(["grep", "-rlI", "--devices=skip", text, str(folder)], capture_output=True, text=True)
    return found.stdout.splitlines()


def test_a_killed_builder_leaves_no_password_and_nothing_that_passes_for_whole(root, variables, tmp_path):
    channel = CondaChannel(tmp_path / "channels/ours")
    channel.add_python()
    channel.add_module("demo", "1.0")
    _with_gate(tmp_path / "tools", str(tmp_path / "gate"))
    variables["PATH"] = f"{tmp_path / 'tools'}:{variables['PATH']}"
    with served(tmp_path / "channels", "reader:s3cret") as address:
        builder = get_context("fork").Process(target=_ensure, args=(root, variables, address))
        builder.start()
        assert builder.pid
        (tmp_path / "gate.entered").read_bytes()  # returns once the tool has started
        os.kill(builder.pid, signal.SIGKILL)
        builder.join()
        assert _holding("s3cret", tmp_path) == []
        environments = _environments(root, variables, address)
        assert environments.find(SPEC) is None

        waits, said = Event(), list[str]()

        def say(line: str) -> None:
            said.append(line)
            waits.set()

        with ThreadPoolExecutor(1) as pool:
            # The tool that the dead builder had started goes on; only its end lets the next one in.
            next_build = pool.submit(environments.ensure, SPEC, say)
            assert waits.wait(timeout=30)
            assert said == ["Another run is building this environment; waiting."]
            os.unlink(tmp_path / "gate.entered")
            (tmp_path / "gate.leave").write_bytes(b"")
            built = next_build.result(timeout=60)
    assert built.key == environment_key(SPEC)
    assert EnvironmentFolder(root, built.key).ready.exists()
    assert subprocess.check_output([built.python, "-c", "import demo; print(demo.version)"]) == b"1.0\n"
    assert _holding("s3cret", tmp_path) == []
