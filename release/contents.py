"""Files that must be in a wheel, and files that must not."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

from runyard.core.version import VERSION

REPOSITORY = Path(__file__).resolve().parents[1]
SUFFIXES_LEFT_OUT = {".md", ".pyc", ".so"}


@dataclass(frozen=True)
class Package:
    """A package of ours, as a folder and as the files that are built from it."""

    folder: Path
    name: str
    roots: tuple[str, ...]
    """The packages that are imported: the only folders of the wheel beside its `.dist-info`."""

    @property
    def info(self) -> str:
        return f"{self.name}-{VERSION}.dist-info"

    def wheel(self, out: Path) -> Path:
        return out / f"{self.name}-{VERSION}-py3-none-any.whl"

    def sdist(self, out: Path) -> Path:
        return out / f"{self.name}-{VERSION}.tar.gz"

    def sources(self) -> set[str]:
        """Files that the wheel must hold: all below `src`, data files and migrations too, but no READMEs of folders."""
        source = self.folder / "src"
        return {
            file.relative_to(source).as_posix()
            for root in self.roots
            for file in (source / root).rglob("*")
            if file.is_file() and file.suffix not in SUFFIXES_LEFT_OUT
        }


SDK = Package(REPOSITORY / "packages" / "sdk", "runyard_sdk", ("azureml", "runyard_sdk"))
RUNYARD = Package(REPOSITORY / "packages" / "runyard", "runyard", ("runyard",))
PACKAGES = (SDK, RUNYARD)


def faults_of(package: Package, out: Path) -> Iterator[str]:
    """List what is wrong with the built files of a package, as sentences."""
    if not package.sdist(out).is_file():
        yield f"{package.sdist(out).name} was not built."
    wheel = package.wheel(out)
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        about = BytesParser().parsebytes(opened.read(f"{package.info}/METADATA"))
    for name in sorted(package.sources() - names):
        yield f"{wheel.name} lacks {name}."
    allowed = {*package.roots, package.info}
    for name in sorted(name for name in names if name.partition("/")[0] not in allowed or "/tests/" in name):
        yield f"{wheel.name} should not have {name}."
    if f"{package.info}/licenses/LICENSE" not in names:
        yield f"{wheel.name} has no licence."
    if about["Version"] != VERSION:
        yield f"{wheel.name} says that it is version {about['Version']}, not {VERSION}."
    if about["Description-Content-Type"] != "text/markdown" or len(about.get_payload()) < 100:
        yield f"{wheel.name} has no description."
