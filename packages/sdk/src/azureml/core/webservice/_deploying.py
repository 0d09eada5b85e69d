"""From models, code and a configuration to a web service that is being deployed."""
from azureml._filters import as_texts
from azureml._service import webservice_errors
from azureml.core._model_references import model_ids, models_of, no_code_model
from azureml.core._scoring_code import check_code, send_with_code
from azureml.core.webservice._aci_configuration import ACI_WEBSERVICE_TYPE
from azureml.core.webservice._aks_configuration import AKS_ENDPOINT_TYPE, AKS_WEBSERVICE_TYPE
from azureml.core.webservice._configuration import WebserviceDeploymentConfiguration, check_name
from azureml.core.webservice._records import find_record
from azureml.core.webservice.webservice import LOCAL_WEBSERVICE_TYPE, Webservice
from azureml.exceptions import WebserviceException
from runyard_sdk.submitter import submitter_facts


def deploy(workspace, name, models, code, config=None, target=None, overwrite=False):
    """Deploy models with a scoring script (`code`: an InferenceConfig or an image's configuration), or, where that
    is None, one model by its framework. Returns at once."""
    check_name(name)
    kind = type_for(config, target)
    found = models_of(workspace, models)
    if code is None:
        no_code_model(found)
    else:
        check_code(code)
    return _post(workspace, kind, code, config, target, {
        "name": name, "models": model_ids(found), "overwrite": bool(overwrite), "image_id": None})


def deploy_image(workspace, name, image, config=None, target=None, overwrite=False):
    """Deploy the models and the script that an image stands for."""
    check_name(name)
    WebserviceDeploymentConfiguration.validate_image(image)
    return deploy_stored(workspace, name, image._stored_models, image._stored_inference, config, target, overwrite,
                         image.id)


def deploy_stored(workspace, name, models, inference, config, target, overwrite, image_id=None):
    """Deploy what the service holds already: ids of models, and code in the form of the wire."""
    check_name(name)
    return _post(workspace, type_for(config, target), None, config, target, {
        "name": name, "models": models, "inference": inference, "overwrite": bool(overwrite), "image_id": image_id})


def type_for(config, target):
    """ACI without anything that says otherwise; WebserviceException for things that contradict each other."""
    from azureml.core.compute import AksCompute
    if config is not None and not isinstance(config, WebserviceDeploymentConfiguration):
        raise WebserviceException("deployment_config must come from a deploy_configuration(...) call, for example "
                                  "AciWebservice.deploy_configuration(), got %r." % (config,))
    if target is not None and not isinstance(target, AksCompute):
        raise WebserviceException("deployment_target must be an AksCompute, got %r. Leave it out to deploy without a "
                                  "cluster." % (target,))
    kind = config._webservice_type if config is not None else ACI_WEBSERVICE_TYPE if target is None else None
    if target is not None and kind not in (None, AKS_WEBSERVICE_TYPE, AKS_ENDPOINT_TYPE):
        raise WebserviceException("deployment_target %r is an AKS cluster, and deployment_config is of type %s. Use "
                                  "AksWebservice.deploy_configuration(), or leave deployment_target out." % (
                                      target.name, kind))
    return kind or AKS_WEBSERVICE_TYPE


def _post(workspace, kind, code, config, target, body):
    settings = config._to_wire() if config is not None else {}
    if target is not None:
        settings["compute_target_name"] = target.name
    body.update(type=AKS_WEBSERVICE_TYPE if kind == AKS_ENDPOINT_TYPE else kind, config=settings,
                description=getattr(config, "description", None), tags=as_texts(getattr(config, "tags", None)),
                properties=as_texts(getattr(config, "properties", None)), submitter=submitter_facts())
    if kind == LOCAL_WEBSERVICE_TYPE and not body["overwrite"]:
        # v1 keeps local services apart from the workspace: deploying one again replaces it.
        present = find_record(workspace, body["name"])
        body["overwrite"] = present is not None and present["type"] == LOCAL_WEBSERVICE_TYPE
    with webservice_errors():
        record = send_with_code(workspace._client, code, body, lambda whole: workspace._client.post(
            workspace._path("services"), whole))
    for note in record["notes"]:
        print(note)
    service = Webservice._of_record(workspace, record)
    service._told_notes = record["notes"]
    return service
