"""What an environment was made of, as text that the same one is made from again."""

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
class Lock:
    packages: str
    """Requirements with exact versions and the hashes of their files, in the form that uv writes and reads."""
    python: str = ""
    """The full version; a minor only in locks of before, "" in those of other machines."""
    implementation: str = "cpython"
    platform: str = ""
    base: str = ""
    """The digest of the image it lies in."""
    compiled: tuple[str, ...] = ()
    """Requirements that were compiled against the others, with their versions."""

    @classmethod
    def parse(cls, text: str) -> "Lock":
        """Whatever its age; lines that say nothing to us are left out."""
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
        told = {name: getattr(self, name) for name in ("python", "implementation", "platform", "base")}
        header = [f"# {name}: {value}" for name, value in told.items() if value]
        header += [f"# {COMPILED}: {requirement}" for requirement in self.compiled]
        return "".join(f"{line}\n" for line in header) + self.packages

    @property
    def python_minor(self) -> str:
        return ".".join(self.python.split(".")[:2])

    @property
    def versions(self) -> tuple[str, ...]:
        """NAME==VERSION of each package, the compiled ones last; of one from an address, its whole line."""
        lines = (line.rstrip(" \\") for line in self.packages.splitlines() if VERSION.match(line))
        return (*(HASH.sub("", line).rstrip() for line in lines), *self.compiled)

    @property
    def foreign_lines(self) -> tuple[str, ...]:
        """What neither uv nor conda has written: an option, or something that is not pinned."""
        return tuple(line for line in self.packages.splitlines() if not PLAIN.fullmatch(line))

    def is_for(self, python: str) -> bool:
        """Whether it was made for this minor, on a machine of this kind or of one that it does not tell."""
        same = self.platform.split()[:2] in ([], this_platform().split()[:2])
        return same and self.python_minor == ".".join(python.split(".")[:2])

    def is_like(self, other: "Lock") -> bool:
        """Whether both make the same packages for the same minor of Python, be it on machines that differ."""
        return _made_of(self) == _made_of(other)

    def made_here(self, python: str) -> "Lock":
        """The same packages, on this machine and for that Python."""
        return replace(self, python=python, implementation="cpython", platform=this_platform())


def _made_of(lock: Lock) -> tuple[object, ...]:
    return lock.packages, lock.compiled, lock.base, lock.python_minor, lock.implementation


def this_platform() -> str:
    libc = " ".join(filter(None, platform.libc_ver()))
    return f"{platform.system().lower()} {platform.machine()} {libc}".rstrip()
