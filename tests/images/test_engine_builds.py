"""Dockerfiles, built by both engines from a context that holds what was given and nothing else."""

import os
import re
import socket
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.environments.containers.build_context import build_context, declare_arguments
from runyard.environments.containers.containers import ContainerSpec
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.output import LAST_LINES
from runyard.environments.containers.records import ImageFacts
from runyard.environments.programs import MOST_OUTPUT_BYTES

pytestmark = pytest.mark.images
PRINTED = 10**9 if os.environ.get("RUNYARD_FAULTS") == "full" else 2 * 10**7
NAME = "tests/built:1"


def built(
    engine: ContainerEngine, dockerfile: str, *files: tuple[str, Path, int], say: list[str] | None = None
) -> ImageFacts:
    context = build_context(dockerfile, files)
    return engine.images.build(context, (say if say is not None else []).append, name=NAME, labels={"tests": "built"})


def test_a_dockerfile_copies_from_its_context_and_the_second_build_takes_the_layers(
    engine: ContainerEngine, base: str, tmp_path: Path
) -> None:
    (tmp_path / "words").write_text("of the context\n")
    text = f"FROM {base}\nCOPY folder/words /words\nRUN echo step && cat /words\nENV FROM_FILE=yes\n"
    lines: list[str] = []
    made = built(engine, text, ("folder/words", tmp_path / "words", 0o644), say=lines)
    assert "of the context" in lines
    assert made.labels["tests"] == "built"
    assert made.variables["FROM_FILE"] == "yes"
    again: list[str] = []
    assert built(engine, text, ("folder/words", tmp_path / "words", 0o644), say=again).layers == made.layers
    assert any(re.search("using cache", line, re.I) for line in again)
    assert "of the context" not in again
    engine.images.remove(NAME, is_forced=True)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("RUN echo why >&2; exit 7", r"7"),
        ("ADD ../../../etc/passwd /stolen", r"etc/passwd"),
        ("COPY /etc/hostname /stolen", r"etc/hostname"),
        ("FETCH something", r"(?i)unknown instruction"),
    ],
)
def test_a_step_that_fails_is_quoted(engine: ContainerEngine, base: str, step: str, said: str) -> None:
    with pytest.raises(EnvironmentFailed) as failed:
        built(engine, f"FROM {base}\n{step}\n")
    assert failed.value.facts["cause"] == FailureCause.DOCKERFILE_FAILED
    assert re.search(said, failed.value.facts["said"])
    assert engine.images.find(NAME) is None


def test_a_build_that_prints_without_end_leaves_a_log_that_can_be_read(engine: ContainerEngine, base: str) -> None:
    lines: list[str] = []
    built(engine, f"FROM {base}\nRUN yes $(printf %0100d 0) | head -c {PRINTED}; echo; echo the end\n", say=lines)
    assert sum(len(line) + 1 for line in lines) < MOST_OUTPUT_BYTES + LAST_LINES * 4096
    assert "the end" in lines
    assert any(re.fullmatch(r"\[\d+ lines are left out here\]", line) for line in lines)
    engine.images.remove(NAME, is_forced=True)


def test_a_line_without_end_is_cut(engine: ContainerEngine, base: str) -> None:
    lines: list[str] = []
    script = "head -c 100000 /dev/zero | tr '\\0' x; echo"
    engine.containers.run(ContainerSpec(base, ("sh", "-c", script)), lines.append)
    assert max(map(len, lines)) == 4096
    assert sum(map(len, lines)) == 100000


def test_offline_a_base_must_be_here(engine: ContainerEngine, base: str) -> None:
    context = build_context(f"FROM {base} AS first\nFROM nowhere.invalid/image:1\nCOPY --from=first /etc/hostname /x\n")
    with pytest.raises(EnvironmentFailed, match=r"nowhere\.invalid/image:1") as failed:
        engine.images.build(context, print, name=NAME, is_offline=True)
    assert failed.value.facts["cause"] == FailureCause.OFFLINE


def test_build_arguments_reach_the_steps_that_declare_them(engine: ContainerEngine, base: str) -> None:
    lines: list[str] = []
    context = build_context(f"FROM {base}\nARG PIP_INDEX_URL\nRUN echo index=$PIP_INDEX_URL\n")
    engine.images.build(
        context, lines.append, name=NAME, build_args={"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "OTHER": "unused"}
    )
    assert "index=http://127.0.0.1:9/simple" in lines
    engine.images.remove(NAME, is_forced=True)


def test_arguments_that_are_put_in_reach_every_stage_and_no_image(engine: ContainerEngine, base: str) -> None:
    lines: list[str] = []
    text = f"FROM {base} AS first\nRUN echo first=$PIP_INDEX_URL\nFROM first\nRUN echo second=$PIP_INDEX_URL\n"
    arguments = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    made = engine.images.build(
        build_context(declare_arguments(text, arguments)), lines.append, name=NAME, build_args=arguments
    )
    assert {"first=http://127.0.0.1:9/simple", "second=http://127.0.0.1:9/simple"} <= set(lines)
    assert "PIP_INDEX_URL" not in made.variables
    engine.images.remove(NAME, is_forced=True)


def test_a_build_without_a_network_has_none(engine: ContainerEngine, base: str) -> None:
    lines: list[str] = []
    context = build_context(f"FROM {base}\nRUN echo cards: $(cat /proc/net/dev | grep -c :)\n")
    engine.images.build(context, lines.append, name=NAME, network="none")
    assert "cards: 1" in lines
    engine.images.remove(NAME, is_forced=True)


def test_a_build_reaches_this_machines_loopback_address(engine: ContainerEngine, base: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as here:
        port = here.getsockname()[1]
        step = f"RUN bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached'"
        lines: list[str] = []
        engine.images.build(build_context(f"FROM {base}\n{step}\n"), lines.append, name=NAME)
    assert "reached" in lines
    engine.images.remove(NAME, is_forced=True)
