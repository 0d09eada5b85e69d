from pathlib import Path

from runyard.errors import InvalidArgument
from runyard.model.plan import PortWish
from runyard.model.web_services import ServiceSpec
from runyard.node.ports import HeldPorts, stranger_on
from runyard.serving.dispatch import Dispatcher
from runyard.serving.front.endpoint import Endpoint, open_port


async def open_service_port(home: Path, spec: ServiceSpec, known_port: int, dispatcher: Dispatcher) -> Endpoint:
    """The port that the spec names, else the one that the web service had, else a free one that no outgoing connection
    of the machine will take. Raises InvalidArgument that says who has it."""
    port = spec.port or known_port or _free_port(home)
    try:
        return await open_port(spec, port, dispatcher)
    except InvalidArgument as error:
        holder = stranger_on((port,), "")
        if holder is None:
            raise
        raise InvalidArgument(f"{error.problem} {str(holder).capitalize()} has it.", hint=error.hint) from None


def _free_port(home: Path) -> int:
    held = HeldPorts(home / "ports")
    try:
        return held.choose([PortWish("web service")])["web service"]
    finally:
        held.close()
