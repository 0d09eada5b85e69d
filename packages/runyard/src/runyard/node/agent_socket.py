from pathlib import Path

from runyard.errors import EngineError, Json
from runyard.node.line_socket import ask_socket

AGENT_SOCKET, AGENT_LOCK = "agent.sock", "agent.lock"
ANOTHER_AGENT = 3
"""Exit code of an agent whose home already has one."""


def ask_agent(home: Path, request: Json, *, timeout_seconds: float = 10.0) -> Json:
    """Send a request to the agent of this home. Raises OSError when none answers, EngineError when it refuses."""
    answer = ask_socket(home, AGENT_SOCKET, request, timeout_seconds=timeout_seconds)
    if "error" in answer:
        raise EngineError(f"The node agent refused {request['op']!r}: {answer['error']}")
    return answer
