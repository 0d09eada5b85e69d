"""Web services as the service tells of them."""
from azureml._filters import has_all
from azureml._service import webservice_errors
from azureml.exceptions import WebserviceException
from runyard_sdk.errors import NotFound


def find_record(workspace, name):
    """The record, or None."""
    try:
        with webservice_errors():
            return workspace._client.get(workspace._path("services", name))
    except NotFound:
        return None


def get_record(workspace, name):
    """The record; WebserviceException names those that there are."""
    record = find_record(workspace, name)
    if record is None:
        known = sorted(repr(one["name"]) for one in _all(workspace))
        raise WebserviceException("WebserviceNotFound: There is no web service %r in workspace %r. Known: %s." % (
            name, workspace.name, ", ".join(known) or "none"), status_code=404)
    return record


def list_records(workspace, compute_type=None, image_name=None, image_id=None, model_name=None, model_id=None,
                 tags=None, properties=None):
    """Records that all the given filters let through, by name."""
    kind = {"AKSENDPOINT": "AKS"}.get((compute_type or "").upper(), compute_type)
    found = _all(workspace, type=kind, model=model_id or model_name, image=image_id)
    return [record for record in found
            if has_all(record.get("tags") or {}, tags) and has_all(record.get("properties") or {}, properties)
            and (image_name is None or (record.get("image_id") or "").rpartition(":")[0] == image_name)]


def type_of(record):
    """Its type by v1's names: an AKS web service with versions is an endpoint."""
    return "AKSENDPOINT" if record["type"] == "AKS" and record.get("versions") else record["type"]


def has_ended(record):
    """Whether nothing of the newest deployment or update is left to wait for."""
    return record["wanted_revision"] in (record["revision"], record["failed_revision"])


def has_failed(record):
    return record["revision"] != record["wanted_revision"] == record["failed_revision"]


def error_of(record):
    """The error in the form that v1 gives it, or None."""
    error = record.get("error")
    if not error:
        return None
    details = [{"code": key, "message": error[key]} for key in ("hint", "traceback", "logs") if error.get(key)]
    return {"code": "DeploymentFailed" if has_failed(record) else "ServiceTrouble", "statusCode": 400,
            "message": error["problem"], "step": error.get("step"), "details": details}


def _all(workspace, **filters):
    with webservice_errors():
        return workspace._client.get(workspace._path("services"), **filters)["services"]
