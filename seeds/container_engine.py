"""A container engine of the pages' own, with a registry that stands for the public one: it has the images they name,
made on the spot."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runyard.testing.base_images import WITH_MPI, debian_archive
from runyard.testing.container_engine import missing_programs, running_docker, running_registry
from seeds.pages import Page

IMAGES = {"microsoft/mmlspark:0.12": WITH_MPI}
"""What each stands in for: a Debian with Open MPI. Its Python and CNTK are the platform's to bring."""


@contextmanager
def engine_for(pages: Sequence[Page]) -> Iterator[dict[str, str]]:
    """The variables that lead to the engine; none where no page names an image, or where none can be started."""
    named = [image for image in IMAGES if any(image in block.code for page in pages for block in page.blocks)]
    if not named or not _can_start():
        yield {}
        return
    with running_registry(_folder(), is_private=False) as hub, running_docker(_folder(), mirror=hub) as engine:
        for image in named:
            at_registry = f"{hub.address}/{image}"
            with debian_archive(IMAGES[image]).open("rb") as archive:
                engine.images.import_archive(archive, at_registry)
            engine.images.push(at_registry, lambda _: None, credentials=hub.credentials)
            engine.images.remove(at_registry)
        yield {"DOCKER_HOST": engine.address}


def _can_start() -> bool:
    missing = missing_programs()
    if missing:
        print(f"No container engine can be started: {', '.join(missing)} missing (make ci-setup).")
    elif os.geteuid() != 0:
        print("No container engine can be started: that needs root.")
    return not missing and os.geteuid() == 0


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="seeds-engine-"))
