"""Web service records: reading and changing them."""

from azureml._assets import as_texts, has_all
from azureml._service import webservice_errors
from azureml.core._inference_config import check_code, send_with_code
from azureml.core._model_references import model_ids, models_of
from azureml.exceptions import WebserviceException
from runyard_sdk.errors import NotFound
from runyard_sdk.submitter import submitter_facts


def find_record(workspace, name):
    """Return the record, or None."""
    try:
        with webservice_errors():
            return workspace._client.get(workspace._path("services", name))
    except NotFound:
        return None


def get_record(workspace, name):
    """Return the record. Raises WebserviceException, with the known names, if there is none."""
    record = find_record(workspace, name)
    if record is None:
        known = sorted(repr(one["name"]) for one in _all(workspace))
        raise WebserviceException("WebserviceNotFound: There is no web service %r in workspace %r. Known: %s." % (
            name, workspace.name, ", ".join(known) or "none"), status_code=404)
    return record


def list_records(workspace, compute_type=None, image_name=None, image_id=None, model_name=None, model_id=None,
                 tags=None, properties=None):
    """Records that match all filters, by name."""
    kind = {"AKSENDPOINT": "AKS"}.get((compute_type or "").upper(), compute_type)
    found = _all(workspace, type=kind, model=model_id or model_name, image=image_id)
    return [record for record in found
            if has_all(record.get("tags") or {}, tags) and has_all(record.get("properties") or {}, properties)
            and (image_name is None or (record.get("image_id") or "").rpartition(":")[0] == image_name)]


def type_of(record):
    """v1 type name: an AKS web service with versions is an endpoint."""
    return "AKSENDPOINT" if record["type"] == "AKS" and record.get("versions") else record["type"]


def has_ended(record):
    """Whether the newest deployment or update has finished."""
    return record["wanted_revision"] in (record["revision"], record["failed_revision"])


def has_failed(record):
    return record["revision"] != record["wanted_revision"] == record["failed_revision"]


def error_of(record):
    """Error in v1's form, or None."""
    error = record.get("error")
    if not error:
        return None
    details = [{"code": key, "message": error[key]} for key in ("hint", "traceback", "logs") if error.get(key)]
    return {"code": "DeploymentFailed" if has_failed(record) else "ServiceTrouble", "statusCode": 400,
            "message": error["problem"], "step": error.get("step"), "details": details}


def _all(workspace, **filters):
    with webservice_errors():
        return workspace._client.get(workspace._path("services"), **filters)["services"]


def change(service, code=None, path=None, **changes):
    """PATCH the arguments that are not None and refresh the service's attributes. No request fails while workers are
    replaced. `path` names a version, where not the whole service changes."""
    given = {name: value for name, value in changes.items() if value is not None}
    if code is None and not given:
        raise WebserviceException("There is nothing to update: give at least one argument.")
    send_change(service, service._client.patch, path or service._path, code, given)


def send_change(service, send, path, code, given):
    """Send the changes and their code to the path; refresh the service's attributes."""
    if code is not None:
        check_code(code)
    with webservice_errors():
        record = send_with_code(service._client, code, dict(given, submitter=submitter_facts()),
                                lambda whole: send(path, whole))
    service._take(service.workspace, record)


def changes_of(service, image=None, models=None, inference_config=None, tags=None, properties=None, description=None,
               settings=None):
    """Arguments of `change` from those of v1's update(). Tags replace all existing ones."""
    found = {"code": inference_config, "description": description,
             "models": model_ids(models_of(service.workspace, models)) if models is not None else None,
             "tags": _replacing(service.tags, tags) if tags is not None else None,
             "properties": as_texts(properties) if properties is not None else None,
             "config": {name: value for name, value in (settings or {}).items() if value is not None} or None}
    if image is not None:
        if models is not None or inference_config is not None:
            raise WebserviceException("image brings its own models and script, so it excludes models and "
                                      "inference_config.")
        found.update(image_id=image.id, models=image._stored_models, inference=image._stored_inference)
    return found


def _replacing(present, tags):
    return dict({key: None for key in present}, **as_texts(tags))
