"""Lock files of environments: the text that the same environment is built from again."""

import platform
import re
from dataclasses import dataclass, replace

HEADER = re.compile(r"# (?P<name>[a-z]+): (?P<value>.*)")
OLD_HEADER = re.compile(r"# python (?P<minor>\d+\.\d+)")
VERSION = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*(?:==\s*(?P<version>[^\s;\\]+)|@\s)")
HASH = re.compile(r"--hash=\S+")
REQUIREMENT = (
    r"[A-Za-z0-9][\w.-]*+(?:\[[\w.,\s-]*+\])?\s*+(?:==\s*+[\w.!+-]++|@\s*+[a-z+]++:[^\s;'\"`$\\]++)(?:\s*+;[^#\\]*+)?"
)
HASHES = r"(?:--hash=[a-z0-9]++:[0-9a-f]++)?"
OF_CONDA = r"@EXPLICIT|[a-z]+://[^\s'\"`$\\]+#[0-9a-f]{32,64}"
PLAIN = re.compile(rf"(?:(?:{REQUIREMENT})?\s*+{HASHES}\s*+\\?+|{OF_CONDA})\s*+")
COMPILED = "compiled"


@dataclass(frozen=True)
class LockFile:
    packages: str
    """Requirements with exact versions and file hashes, as uv writes them."""
    python: str = ""
    """The full version; only the minor in locks of old versions, "" in locks of other machines."""
    implementation: str = "cpython"
    platform: str = ""
    base: str = ""
    """Digest of its base image."""
    compiled: tuple[str, ...] = ()
    """Exact requirements that were compiled against the others."""

    @classmethod
    def parse(cls, text: str) -> "LockFile":
        """Parse a lock of any version; unknown header lines are ignored."""
        found, compiled = dict[str, str](), list[str]()
        for line in text.splitlines():
            header, old = HEADER.fullmatch(line), OLD_HEADER.fullmatch(line)
            if header and header["name"] == COMPILED:
                compiled.append(header["value"])
            elif header:
                found[header["name"]] = header["value"]
            elif old:
                found["python"] = old["minor"]
        packages = "".join(f"{line}\n" for line in text.splitlines() if line.strip() and not line.startswith("#"))
        known = {name: found[name] for name in ("python", "implementation", "platform", "base") if name in found}
        return cls(packages, compiled=tuple(compiled), **known)

    def text(self) -> str:
        fields = {name: getattr(self, name) for name in ("python", "implementation", "platform", "base")}
        header = [f"# {name}: {value}" for name, value in fields.items() if value]
        header += [f"# {COMPILED}: {requirement}" for requirement in self.compiled]
        return "".join(f"{line}\n" for line in header) + self.packages

    @property
    def python_minor(self) -> str:
        return ".".join(self.python.split(".")[:2])

    @property
    def versions(self) -> tuple[str, ...]:
        """NAME==VERSION of each package, compiled ones last; the whole line for a package from a URL."""
        lines = (line.rstrip(" \\") for line in self.packages.splitlines() if VERSION.match(line))
        return (*(HASH.sub("", line).rstrip() for line in lines), *self.compiled)

    @property
    def foreign_lines(self) -> tuple[str, ...]:
        """Lines that neither uv nor conda writes: options, and packages that are not pinned."""
        return tuple(line for line in self.packages.splitlines() if not PLAIN.fullmatch(line))

    def is_for(self, python: str) -> bool:
        """Whether it is for this minor version and this platform; a lock without a platform is for any."""
        same = self.platform.split()[:2] in ([], this_platform().split()[:2])
        return same and self.python_minor == ".".join(python.split(".")[:2])

    def is_like(self, other: "LockFile") -> bool:
        """Whether both have the same packages and Python minor version; their platforms may differ."""
        return _content(self) == _content(other)

    def for_this_machine(self, python: str) -> "LockFile":
        """The same packages, for this machine's platform and that Python."""
        return replace(self, python=python, implementation="cpython", platform=this_platform())


def _content(lock: LockFile) -> tuple[object, ...]:
    return lock.packages, lock.compiled, lock.base, lock.python_minor, lock.implementation


def this_platform() -> str:
    libc = " ".join(filter(None, platform.libc_ver()))
    return f"{platform.system().lower()} {platform.machine()} {libc}".rstrip()
