"""Changing a web service that is there."""
from azureml._filters import as_texts
from azureml._service import webservice_errors
from azureml.core._model_references import model_ids, models_of
from azureml.core._scoring_code import check_code, send_with_code
from azureml.exceptions import WebserviceException
from runyard_sdk.submitter import submitter_facts


def change(service, code=None, path=None, **changes):
    """PATCH what is not None; the service's attributes are as it answers. Workers change without a failed request.
    `path` is that of a version, where it is not the service as a whole that changes."""
    given = {name: value for name, value in changes.items() if value is not None}
    if code is None and not given:
        raise WebserviceException("There is nothing to update: give at least one argument.")
    send_change(service, service._client.patch, path or service._path, code, given)


def send_change(service, send, path, code, given):
    """Send what is given, with its code, to the path; the service's attributes are as it answers."""
    if code is not None:
        check_code(code)
    with webservice_errors():
        record = send_with_code(service._client, code, dict(given, submitter=submitter_facts()),
                                lambda whole: send(path, whole))
    service._take(service.workspace, record)


def changes_of(service, image=None, models=None, inference_config=None, tags=None, properties=None, description=None,
               settings=None):
    """The arguments of `change` for those of v1's update(). Tags take the place of all that were there."""
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
