import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runyard.core.errors import InvalidArgument

Numbers = tuple[int, ...]
BOUNDED = re.compile(r"(==|<=|<) *([0-9.]+)(?:\*|\.?post\d+)?(?=\s*(?:,|;|$))")
SHAPE = re.compile(r"[0-9]{1,5}(\.[0-9]{1,5}){0,2}")


@dataclass(frozen=True)
class Recipe:
    """What one release of a framework needs to run today, from the table `frameworks.json`."""

    framework: str
    release: str
    pythons: tuple[str, ...]
    """Minor versions of Python that it runs on, best first."""
    packages: tuple[str, ...]
    """Requirements; the framework itself comes first."""
    replaced_by: frozenset[str]
    """Package names of the framework: a user's package of such a name replaces it."""
    constraints: tuple[str, ...] = ()
    mpi_packages: tuple[str, ...] = ()
    mpi_builds: tuple[str, ...] = ()
    """Packages that are compiled against MPI for it."""
    library_links: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def recipe(framework: str, version: str, *, gpu: bool, argument: str = "framework_version") -> Recipe:
    """The recipe of a framework version. Raises InvalidArgument, naming the user's `argument` and the accepted
    versions."""
    table = _framework(framework)
    release, notes = _release(framework, version, argument)
    rule = _rule(table, release)
    package = rule.get("gpu" if gpu else "cpu", table["package"])
    return Recipe(
        framework=framework,
        release=release,
        pythons=tuple(rule["python"].split(",")),
        packages=(f"{package}=={release}", *rule.get("with", ())),
        replaced_by=package_names(framework),
        constraints=tuple(rule.get("constraints", ())),
        mpi_packages=tuple(rule.get("mpi", ())),
        mpi_builds=tuple(rule.get("mpi_builds", ())),
        library_links=tuple((old, new) for old, new in rule.get("library_links", {}).items()),
        notes=notes,
    )


def recipe_of(requirement: str) -> Recipe | None:
    """The recipe of a requirement such as 'torch==1.4.0' or 'scikit-learn<0.23'; None for other requirements.

    An upper bound means the newest release below it. A framework that is no longer developed needs no version: its
    last release is meant.
    """
    found = BOUNDED.search(requirement)
    framework = _framework_of(requirement)
    if framework is None or (found is None and not _framework(framework).get("has_ended")):
        return None
    sign, version = (found[1], found[2].rstrip(".")) if found else ("==", _releases(framework)[-1].split(".post")[0])
    if sign != "==":
        bound = _padded(version)
        below = [r for r in _releases(framework) if _padded(r) < bound or (sign == "<=" and _padded(r) == bound)]
        version = below[-1].split(".post")[0] if below else ""
    try:
        return recipe(framework, version, gpu=False)
    except InvalidArgument:  # a version that the table knows nothing of
        return None


def last_recipe_on(python: str, requirement: str) -> Recipe | None:
    """The recipe of the last release for a Python that the framework no longer supports; else None.

    An index gives that release to a requirement without a version.
    """
    framework = None if "@" in requirement else _framework_of(requirement)
    if framework is None:
        return None
    minor, rules = ".".join(python.split(".")[:2]), _framework(framework)["rules"]
    if minor in rules[-1]["python"].split(","):
        return None
    suited = [
        release
        for release in _releases(framework)
        if minor in _rule(_framework(framework), release)["python"].split(",")
    ]
    return recipe(framework, suited[-1].split(".post")[0], gpu=False) if suited else None


def _framework_of(requirement: str) -> str | None:
    name = re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()
    return next((f for f, table in _table().items() if name in (table["package"], *table["aliases"])), None)


def accepted_series(framework: str) -> list[str]:
    """Minor series in the table, oldest first; newer minors of the last major version are accepted too."""
    return list(dict.fromkeys(f"{n[0]}.{n[1]}" for n in map(_numbers, _releases(framework))))


def newest_release(framework: str) -> str:
    """The newest release in the table."""
    return _releases(framework)[-1]


def package_names(framework: str) -> frozenset[str]:
    """Names of the framework's packages on PyPI."""
    table = _framework(framework)
    return frozenset({table["package"], *table["aliases"]})


def _release(framework: str, version: str, argument: str) -> tuple[str, tuple[str, ...]]:
    if not SHAPE.fullmatch(version) and version not in _releases(framework):  # 0.22.2.post1 is one
        raise _unknown(framework, version, argument)
    wanted = _numbers(version)
    releases = _releases(framework)
    same = [r for r in releases if _numbers(r)[: min(len(wanted), 2)] == wanted[:2]]
    if not same:
        return _newer_minor(framework, version, argument), ()
    if version in same:
        return version, ()
    if len(wanted) < 3:
        found, why = same[-1], "the newest release of that series"
    else:
        found = min(same, key=lambda r: abs(_padded(r)[2] - wanted[2]))
        why = "the nearest release of that series"
    if _padded(found) == _padded(version) and "post" not in found:
        return found, ()
    return found, (f"{argument}='{version}': {framework} {found} is taken, {why}.",)


def _newer_minor(framework: str, version: str, argument: str) -> str:
    """Accept a minor release that is newer than the table; the index decides whether it exists."""
    wanted, newest = _numbers(version), _numbers(_releases(framework)[-1])
    if len(wanted) < 2 or wanted[0] != newest[0] or wanted[:2] < newest[:2]:
        raise _unknown(framework, version, argument)
    return version if len(wanted) == 3 else f"{version}.*"


def _unknown(framework: str, version: str, argument: str) -> InvalidArgument:
    series = accepted_series(framework)
    major = series[-1].split(".")[0]
    return InvalidArgument(
        f"{argument}={version!r} is not a version of {framework} that can be run.",
        hint=f"Accepted: {', '.join(series)}, any release of these such as '{_releases(framework)[-1]}', "
        f"and newer minors of {major}.",
        framework=framework,
        accepted=series,
    )


def _framework(name: str) -> Mapping[str, Any]:
    table = _table()
    if name not in table:
        raise InvalidArgument(f"Unknown framework {name!r}.", hint=f"Known: {', '.join(table)}.")
    found: Mapping[str, Any] = table[name]
    return found


@cache
def _table() -> Mapping[str, Any]:
    text = Path(__file__).with_name("frameworks.json").read_text(encoding="utf-8")
    table: Mapping[str, Any] = json.loads(text)
    return table


def _releases(framework: str) -> list[str]:
    """Every release of the table, oldest first."""
    return " ".join(_framework(framework)["releases"]).split()


def _rule(table: Mapping[str, Any], release: str) -> Mapping[str, Any]:
    at = _numbers(release)[:2]
    chosen: Mapping[str, Any] = [rule for rule in table["rules"] if _numbers(rule["from"])[:2] <= at][-1]
    return chosen


def _numbers(version: str) -> Numbers:
    plain = version.split(".post")[0].removesuffix(".*")
    return tuple(int(part) for part in plain.split("."))


def _padded(version: str) -> Numbers:
    return (*_numbers(version), 0, 0)[:3]
