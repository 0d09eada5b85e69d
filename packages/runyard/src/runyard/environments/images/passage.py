import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.creating import Mount
from runyard.environments.images.tools import TOOLS

WORK = f"{TOOLS}/work"
READ_BY_NAME = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "UV_CONFIG_FILE",
    "UV_CREDENTIALS_DIR",
)  # fmt: skip
LOCAL_FILE = re.compile(r"file://(?P<url>/[^\s#;]+)|^(?P<path>/[^\s#;]+)", re.M)
OF_THE_MACHINE = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class Passage:
    """Folders and files of this machine that are mounted into a build container, with their paths there.

    Paths in commands and output are translated, so that no path of this machine stays in the image.
    """

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, scratch: Path, folders: Iterable[Path], variables: Mapping[str, str], texts: Sequence[str]
    ) -> "Passage":
        """The mapping for a build: `folders` are wheel folders, `texts` are requirements that may name local files."""
        seen = [str(folder) for folder in folders]
        seen += [variables[name] for name in READ_BY_NAME if os.path.isabs(variables.get(name, ""))]
        seen += [found["url"] or found["path"] for text in texts for found in LOCAL_FILE.finditer(text)]
        others = dict.fromkeys(path for path in seen if os.path.exists(path) and not path.startswith(f"{scratch}/"))
        pairs = [(path, f"{TOOLS}/given/{number}/{os.path.basename(path)}") for number, path in enumerate(others)]
        return cls(((str(scratch), WORK), *pairs))

    @property
    def scratch(self) -> Path:
        """The private folder of the build, which the container can write to."""
        return Path(self.pairs[0][0])

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(Mount(os.path.realpath(here), there, is_read_only=there != WORK) for here, there in self.pairs)

    def inward(self, text: str) -> str:
        return _replaced(text, self.pairs)

    def outward(self, text: str) -> str:
        return _replaced(text, tuple((there, here) for here, there in self.pairs))

    def variables(self, image: Mapping[str, str], program: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """Variables for a program in the container: the image's, the program's without those about this machine, and
        `own`, which win."""
        given = {name: self.inward(value) for name, value in program.items() if name not in OF_THE_MACHINE}
        return {**image, **given, "HOME": f"{WORK}/home", "TMPDIR": f"{WORK}/tmp", **own}


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for old, new in sorted(pairs, key=lambda place: len(place[0]), reverse=True):
        text = text.replace(old, new)
    return text
