"""Making runs that no config is submitted for: the process that asks for one is its script."""

from azureml.core._submission import send
from runyard_sdk.ids import uuid4
from runyard_sdk.interactive import claim


def interactive_body(run_id=None, **facts):
    """What to send for a run that is Running at once. It has no type, as in v1."""
    body = {"run_id": run_id or uuid4(), "type": "", "definition": {}, "tags": {}, "properties": {},
            "display_name": None, "parent_id": None, "interactive": True}
    body.update(facts)
    return body


def send_claimed(experiment, body, folder=None):
    """Send a run and claim it for this process; its record and the claim (None with a service elsewhere).

    Claimed first: a process that is killed between the two leaves no run that goes on for ever.
    """
    claimed = claim(experiment._client, body["run_id"])
    try:
        return send(experiment, body, folder), claimed
    except BaseException:
        if claimed is not None:
            claimed.release()
        raise
