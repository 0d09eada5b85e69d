"""Child runs, run listings, and runs claimed by the calling process."""

from azureml.core._submission import as_texts, send, submit
from azureml.exceptions import UserErrorException
from runyard_sdk.ids import uuid4
from runyard_sdk.interactive import claim

MOST_CHILDREN = 100
_PAGE = 100


class ChildRuns:
    @property
    def parent(self):
        """The parent run, or None."""
        parent_id = self._record.get("parent_id")
        if not parent_id:
            return None
        from azureml.core.run import get_run

        return get_run(self.experiment, parent_id)

    def child_run(self, name=None, run_id=None, outputs=None):
        """Start a child run whose script is this process; its status is Running. `with` completes it."""
        return self._new_child({"display_name": name, "run_id": run_id}, outputs)

    def create_children(self, count=None, tag_key=None, tag_values=None):
        """Create several children: `count` of them, or one per value of a tag. At most 100."""
        if (count is None) == (tag_values is None) or (tag_key is None) != (tag_values is None):
            raise UserErrorException("Give either count, or tag_key together with tag_values.")
        tags = [{} for _ in range(count)] if tag_values is None else [{tag_key: value} for value in tag_values]
        if len(tags) > MOST_CHILDREN:
            raise UserErrorException("At most {} children can be created at once, got {}.".format(
                MOST_CHILDREN, len(tags)))
        return [self._new_child({"tags": as_texts(given)}) for given in tags]

    def submit_child(self, config, tags=None, **kwargs):
        """Submit a config as a child of this run."""
        return submit(self.experiment, config, tags=tags, parent_id=self.id, **kwargs)

    def get_children(self, recursive=False, tags=None, properties=None, type=None, status=None, _rehydrate_runs=True):
        """Generate the children, newest first; with `recursive` their children too."""
        wanted = RunFilter(tags, properties, type, status)
        for record in run_records(self.experiment.workspace, parent=self.id):
            child = self._of_record(record)
            if wanted.matches(record):
                yield child
            if recursive:
                for below in child.get_children(True, tags, properties, type, status):
                    yield below

    def _new_child(self, facts, outputs=None):
        import os

        body = interactive_body(facts.get("run_id"), parent_id=self.id, tags=facts.get("tags") or {},
                                display_name=facts.get("display_name"))
        claim = None
        if self._ends_with_us:
            record = send(self.experiment, body)
        else:
            record, claim = send_claimed(self.experiment, body)
        child = self._of_record(record)
        child._claim, child._ends_with_us = claim, True
        if outputs:
            os.makedirs(outputs, exist_ok=True)
            child._tracked = outputs
        return child

    def _of_record(self, record):
        from azureml.core.run import run_of_record

        return run_of_record(self.experiment, record)


class RunFilter:
    """Filters of get_runs and get_children. A tag or property filter is a key, or `{key: value}`."""

    def __init__(self, tags=None, properties=None, type=None, status=None):
        self._tags, self._properties = _pairs(tags), _pairs(properties)
        self._type = type
        self._status = [status] if isinstance(status, str) else status

    def query(self):
        """The filters as query parameters."""
        return {"tag": [_filter(*pair) for pair in self._tags.items()], "type": self._type,
                "property": [_filter(*pair) for pair in self._properties.items()], "status": self._status or []}

    def matches(self, record):
        return (self._type in (None, record["type"]) and (not self._status or record["status"] in self._status)
                and _holds(record.get("tags") or {}, self._tags)
                and _holds(record.get("properties") or {}, self._properties))


def run_records(workspace, **query):
    """Generate run records, newest first, fetching page by page."""
    before = None
    while True:
        page = workspace._client.get(workspace._path("runs"), before=before, limit=_PAGE, **query)
        for record in page["runs"]:
            yield record
        before = page.get("next")
        if not before:
            return


def _pairs(wanted):
    if not wanted:
        return {}
    return {wanted: None} if isinstance(wanted, str) else dict(wanted)


def _filter(key, value):
    return key if value is None else "{}={}".format(key, value)


def _holds(present, wanted):
    return all(key in present and value in (None, present[key]) for key, value in wanted.items())


def interactive_body(run_id=None, **facts):
    """Request body of a run without a config, which is Running at once. It has no type, as in v1."""
    body = {"run_id": run_id or uuid4(), "type": "", "definition": {}, "tags": {}, "properties": {},
            "display_name": None, "parent_id": None, "interactive": True}
    body.update(facts)
    return body


def send_claimed(experiment, body, folder=None):
    """Submit a run and claim it for this process; return its record and the claim (None with a remote service).

    Claims first: a process that is killed between the two calls leaves no run that stays Running for ever.
    """
    claimed = claim(experiment._client, body["run_id"])
    try:
        return send(experiment, body, folder), claimed
    except BaseException:
        if claimed is not None:
            claimed.release()
        raise
