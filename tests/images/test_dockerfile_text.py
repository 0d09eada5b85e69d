import pytest

from runyard.environments.containers.build_context import declare_arguments

DOCKERFILES = {
    "FROM a\nRUN b\n": "FROM a\nARG X\nARG Y\nRUN b\n",
    "FROM a": "FROM a\nARG X\nARG Y\n",
    "ARG T=1\n# FROM x\nfrom a:$T AS s\nRUN b\n\nFROM s\n": (
        "ARG T=1\n# FROM x\nfrom a:$T AS s\nARG X\nARG Y\nRUN b\n\nFROM s\nARG X\nARG Y\n"
    ),
    "FROM \\\n  # why\n  a \\\n  AS s\nRUN echo \\\nFROM b\n": (
        "FROM \\\n  # why\n  a \\\n  AS s\nARG X\nARG Y\nRUN echo \\\nFROM b\n"
    ),
    "# escape=`\nFROM a\\\nRUN dir `\nFROM b\n": "# escape=`\nFROM a\\\nARG X\nARG Y\nRUN dir `\nFROM b\n",
    "FROM a\r\nRUN b\r\n": "FROM a\nARG X\nARG Y\nRUN b\r\n",
}


@pytest.mark.parametrize("text", DOCKERFILES)
def test_every_stage_declares_the_arguments(text):
    assert declare_arguments(text, {"Y", "X"}) == DOCKERFILES[text]


def test_without_arguments_a_dockerfile_is_built_as_it_is():
    assert declare_arguments("FROM a \\\n\n\nRUN b", ()) == "FROM a \\\n\n\nRUN b"


def test_what_a_broken_build_leaves_has_the_labels() -> None:
    text = declare_arguments("FROM a\nRUN b\n", ["X"], {"made.by": 'a "$HOME" \\ of ours'})
    assert text == 'FROM a\nLABEL "made.by"="a \\"\\$HOME\\" \\\\ of ours"\nARG X\nRUN b\n'
