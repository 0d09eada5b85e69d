from dataclasses import dataclass, replace

from runyard.containers.engine import Engine
from runyard.containers.records import ImageFacts
from runyard.containers.registries import RegistryCredentials, split_tag
from runyard.environments.construction import NOT_AS_LOCKED
from runyard.environments.durable import write_beside
from runyard.environments.images.brought import BroughtNames
from runyard.environments.images.naming import Naming, notes_of
from runyard.environments.images.private_names import PrivateNames
from runyard.environments.programs import Say
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.images import ImageSpec

DIGEST = "digest"


@dataclass(frozen=True)
class GivenBase:
    """A base image that the user names, from the engine or its registry."""

    engine: Engine
    naming: Naming
    wanted: ImageSpec
    credentials: RegistryCredentials | None
    is_offline: bool
    is_fresh: bool
    """Pull the image again even if it is in the engine, since its tag may have moved."""
    key: str
    log: Say

    def obtain(self) -> ImageFacts:
        found = self._here()
        if found is not None and not (self.is_fresh and self._came_from_registry(found)):
            self.log(f"Image {self.wanted.base} is here: {found.id}.")
            return found
        if self.is_offline:
            raise EnvironmentFailed(
                f"The workspace is offline, and image {self.wanted.base!r} is not on this machine.",
                hint=f"Bring it once (`docker pull {self.wanted.base}` or `docker load`), or switch offline off.",
                cause=Cause.OFFLINE,
                said=f"no such image: {self.wanted.base}",
            )
        return self._pulled()

    def as_locked(self, found: ImageFacts, digest: str) -> ImageFacts:
        """The image with the locked digest; `found` if that is it, else the tag has moved and the digest is pulled."""
        if digest in ("", found.id, digest_of(self.naming, found)):
            return found
        self.log(f"Image {self.wanted.base} is another now than the locked one; {digest} is taken.")
        exact = replace(self, wanted=replace(self.wanted, base=f"{split_tag(self.wanted.base)[0]}@{digest}"))
        try:
            return exact.obtain()
        except EnvironmentFailed as failure:
            raise EnvironmentFailed(failure.problem, hint=NOT_AS_LOCKED, **failure.facts) from failure

    def _here(self) -> ImageFacts | None:
        if self.credentials:
            return self.engine.images.find(self._private_name)
        return self.engine.images.find(self.wanted.base)

    def _came_from_registry(self, found: ImageFacts) -> bool:
        return bool(self.credentials or found.digests)

    def _pulled(self) -> ImageFacts:
        who = f" as {self.credentials.username}" if self.credentials else ""
        self.log(f"Pulling {self.wanted.base}{who}.")
        names = BroughtNames(self.engine, self.naming)
        with names.record_pull({self.wanted.base: bool(self.credentials)}, self.key):
            pulled = self.engine.images.pull(
                self.wanted.base, self.log, credentials=self.credentials, platform=self.wanted.platform
            )
            if self.credentials:
                self.engine.images.tag(pulled.id, self._private_name)
        # The engine drops the registry's digest together with the name.
        notes = notes_of(self.naming.root, pulled.id)
        notes.mkdir(parents=True, exist_ok=True)
        write_beside(notes / DIGEST, digest_of(self.naming, pulled).encode())
        return self.engine.images.find(pulled.id) or pulled

    @property
    def _private_name(self) -> str:
        assert self.credentials
        return PrivateNames(self.naming).name_of(self.wanted, self.credentials)


def digest_of(naming: Naming, image: ImageFacts) -> str:
    """Digest in the registry, which identifies the image on other machines; its local id if it was built here."""
    if image.digests:
        return image.digests[0].partition("@")[2]
    try:
        return (notes_of(naming.root, image.id) / DIGEST).read_text(encoding="utf-8")
    except OSError:
        return image.id


def is_called(image: ImageFacts, reference: str) -> bool:
    """Whether the reference is a name of the image and not its id, which would open images of other users."""
    return _canonical_name(reference) in {_canonical_name(name) for name in (*image.names, *image.digests)}


def is_ours(reference: str) -> bool:
    """Whether it is in our own namespace of image names."""
    return reference.removeprefix("localhost/").startswith("runyard/")


def _canonical_name(reference: str) -> str:
    """Canonical image name: tag filled in, default registry removed."""
    name, tag = split_tag(reference)
    for usual in ("docker.io/", "library/", "localhost/"):
        name = name.removeprefix(usual)
    return f"{name}:{tag}"
