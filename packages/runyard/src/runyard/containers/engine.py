from functools import cached_property

from runyard.containers.containers import Containers
from runyard.containers.images import Images
from runyard.containers.records import EngineFacts, engine_facts
from runyard.containers.transport import Certificates, Transport


class Engine:
    """Client of a docker or podman engine, by the Docker API. Creating it sends no request."""

    def __init__(self, address: str, certificates: Certificates | None = None) -> None:
        self.address = address
        self._transport = Transport(address, certificates)
        self.images = Images(self._transport, self.facts)
        self.containers = Containers(self._transport, self.facts)

    def facts(self) -> EngineFacts:
        """Name and version of the engine; requested once."""
        return self._facts

    def answers(self) -> None:
        """Raise EnvironmentFailed if the engine does not answer."""
        self._transport.get("/version")

    @cached_property
    def _facts(self) -> EngineFacts:
        return engine_facts(self._transport.get("/version"), self._transport.get("/info"))
