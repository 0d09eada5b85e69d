import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import CondaSpec, EnvironmentSpec
from runyard.environments.planning.conda_packages import (
    CONDA_TO_PYPI,
    PROGRAMS_INSTEAD,
    check_channels,
    conda_version,
    is_not_on_pypi,
    is_unneeded,
    parse_conda_line,
)
from runyard.environments.planning.packages import (
    PackageRequests,
    add_conda,
    add_pip,
    mapping_note,
    normalized_name,
    with_conda,
)


def _planned(conda: list[str], pip: list[str] | None = None, channels: tuple[str, ...] = ()) -> EnvironmentSpec:
    wishes = PackageRequests()
    add_conda(wishes, conda)
    add_pip(wishes, pip or [])
    spec = EnvironmentSpec(python=wishes.python, requirements=tuple(wishes.requirements), notes=tuple(wishes.notes))
    return with_conda(spec, wishes, channels)


def test_conda_gets_the_packages_as_they_were_written_and_pip_the_rest():
    spec = _planned(["python=3.6.2", "conda-forge::lightgbm", "numpy=1.16"], ["extra==1"], ("conda-forge", "anaconda"))
    assert spec.conda == CondaSpec(
        packages=("conda-forge::lightgbm", "numpy=1.16"),
        channels=("conda-forge", "anaconda"),
        requirements=("extra==1",),
    )
    assert spec.requirements == ("lightgbm", "numpy==1.16.*", "extra==1")


@pytest.mark.parametrize("lists", [["python=3.8"], ["python=3.8", "pip", "setuptools", "wheel"], ["python", "pip>=20"]])
def test_conda_has_nothing_to_do_for_python_and_pip_alone(lists):
    assert _planned(lists, ["extra"]).conda is None


def test_what_stands_for_what_on_the_index_is_left_to_the_builder_to_say():
    assert _planned(["numpy=1.16", "python=3.6"]).notes == ()


def test_packages_without_a_twin_survive_the_plan():
    spec = _planned(["r-base=4.1", "numpy"])
    assert spec.requirements == ("numpy",)
    assert spec.conda
    assert spec.conda.packages == ("r-base=4.1", "numpy")


def test_what_is_built_against_mpi_stays_with_the_mpi_of_the_machine():
    spec = _planned(["mpi4py=3.0.3", "openmpi", "numpy"])
    assert spec.conda == CondaSpec(packages=("numpy",), requirements=("mpi4py==3.0.3",))


def test_pip_has_its_way_where_both_lists_name_a_package():
    spec = _planned(["numpy=1.16", "scipy"], ["numpy==1.17.5"])
    assert spec.conda
    assert "numpy==1.17.5" in spec.conda.requirements


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("", ""),
        ("*", ""),
        ("=*", ""),
        ("=1.2.*", "==1.2.*"),
        ("=1.8*", "==1.8.*"),
        (">=1.16.*", ">=1.16"),
        (" 1.2.1 py36_0", "==1.2.1"),
        ("=1.2=py36_0", "==1.2"),
        ("==1.2", "==1.2"),
        (" >= 1.16, <2", ">=1.16,<2"),
        ("=1.2|=1.3", "==1.3.*"),
        ("=1!2.0", "==1!2.0.*"),
        ("~=1.4", "~=1.4"),
    ],
)
def test_versions_of_conda_are_written_as_pip_does(text, version):
    assert conda_version(text) == version


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--index-url=http://evil/",
        "-c evil",
        "numpy; rm -rf /",
        "numpy\n--file=/etc/passwd",
        "numpy=1.0\0",
        "$(touch here)",
        "`id`",
        "numpy=$(id)",
        "'numpy'",
        'numpy=1"2',
        "../up",
        "/absolute/package.tar.bz2",
        "https://host/linux-64/package-1-0.tar.bz2",
        "file:///package.tar.bz2",
        "numpy[version='1']",
        "numpy>=<1",
        "numpy==",
        "../evil::numpy",
        "-c::numpy",
        "numpy" + "\u202e",
    ],
)
def test_lines_that_name_no_package_are_refused(line):
    with pytest.raises(InvalidArgument, match="conda"):
        parse_conda_line(line)


@given(st.text())
def test_a_line_that_is_taken_is_one_word_of_a_command_and_no_option(line):
    try:
        taken = parse_conda_line(line)
    except InvalidArgument:
        return
    assert not taken.text.startswith("-")
    assert taken.text.isprintable()
    assert not set(taken.text) & set("\n\r\0'\"`$;&()[]{}\\/") or "::" in taken.text


@pytest.mark.parametrize(
    "channel", ["conda-forge", "pytorch/label/nightly", "https://host:8080/channels/ours", "file:///channels/ours"]
)
def test_channels_are_names_or_addresses(channel):
    assert check_channels([channel, f" {channel} "]) == (channel,)


@pytest.mark.parametrize(
    "channel", ["", "--offline", "-c", "a b", "a\nb", "../up", "ftp://host/x", "/absolute", "https://host/$(id)", "x\0"]
)
def test_other_channels_are_refused(channel):
    with pytest.raises(InvalidArgument, match="channel"):
        _planned(["numpy"], channels=(channel,))


@pytest.mark.parametrize(
    "line",
    [
        "numpy; $(id)",
        "numpy==1 && id",
        "numpy`id`",
        "numpy==1 --index-url http://evil",
        "numpy @ ../up",
        "/absolute.whl",
        "numpy==$HOME",
        "a\rb",
        "--index-url",
        "--extra-index-url http://one http://two",
        "-r/etc/passwd",
        "--config-settings=x",
    ],
)
def test_pip_lines_that_are_no_requirement_are_refused(line):
    with pytest.raises(InvalidArgument, match="pip"):
        add_pip(PackageRequests(), [line])


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "scikit-learn[alldeps] >=0.20, <0.23",
        "torch==1.4.0+cpu",
        "tensorflow == 1.13.*",
        "demo (>=1.0)",
        "dataclasses; python_version < '3.7'",
        'pywin32>=1; sys_platform == "win32" and python_version>="3.6"',
        "demo @ https://host/demo-1.0-py3-none-any.whl#sha256=abc",
        "git+https://host/repository.git@main#egg=demo",
        "file:///absolute/demo-1-py3-none-any.whl",
        "https://host/container/demo-1-py3-none-any.whl?sv=2019&sig=a%2Bb",
        "numpy==1.16.6 --hash=sha256:00ff",
        "demo===1.0-odd",
        "--pre",
        "-f https://host/wheels.html",
        "--extra-index-url=https://host/simple",
    ],
)
def test_pip_lines_of_every_usual_form_are_kept_as_they_are(line):
    wishes = PackageRequests()
    add_pip(wishes, [line])
    assert wishes.requirements == [line]


def test_the_table_holds_only_what_differs_or_would_be_taken_for_no_python_package():
    for conda, pypi in CONDA_TO_PYPI.items():
        assert conda == conda.lower()
        if normalized_name(conda) == normalized_name(pypi):
            assert conda.startswith("cuda"), conda


def test_a_package_is_either_mapped_or_unneeded_or_without_a_twin():
    names = [*CONDA_TO_PYPI, *PROGRAMS_INSTEAD, "numpy", "mkl", "cudatoolkit", "r-ggplot2", "libgcc-ng"]
    assert not [name for name in names if is_unneeded(name) and is_not_on_pypi(name)]
    assert [name for name in names if is_not_on_pypi(name)] == [*PROGRAMS_INSTEAD, "r-ggplot2"]


def test_alternatives_that_the_index_cannot_be_asked_for_are_said_to_be_left_out():
    note = mapping_note(parse_conda_line("numpy=1.16|=1.17"))
    assert "as 'numpy==1.17.*', the last of its alternatives" in note
    assert "alternatives" not in mapping_note(parse_conda_line("numpy=1.16"))
