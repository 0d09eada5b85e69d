"""Models named by a deployment: Model objects, ids (name:version) and names."""
from azureml.exceptions import UserErrorException, WebserviceException

_WITHOUT_A_SCORER = (None, "", "Custom")


def models_of(workspace, models):
    """Return the Model objects. Raises WebserviceException for anything that is neither a model nor an id."""
    from azureml.core.model import Model
    if models is None:
        return []
    if not isinstance(models, (list, tuple)):
        raise WebserviceException("models must be a list, such as [model], got %s." % type(models).__name__)
    found = []
    for one in models:
        if isinstance(one, str):
            one = Model(workspace, id=one) if ":" in one else Model(workspace, name=one)
        if not isinstance(one, Model):
            raise WebserviceException("models takes Model objects and ids such as 'name:1', got %r. Register a local "
                                      "file or folder with Model.register first." % (one,))
        found.append(one)
    return found


def model_ids(models):
    return [model.id for model in models]


def no_code_model(models):
    """Return the one model that can be deployed without a scoring script. Raises UserErrorException naming what is
    missing."""
    if len(models) != 1:
        raise UserErrorException("Without inference_config exactly one model is deployed, by its framework; models "
                                 "has %d. Give an InferenceConfig with a scoring script to serve several." % (
                                     len(models),))
    if models[0].model_framework in _WITHOUT_A_SCORER:
        raise UserErrorException(
            "The model %s has %s, so it needs a scoring script: give inference_config=InferenceConfig(...). Or "
            "register it with model_framework=Model.Framework.TENSORFLOW, SCIKITLEARN, ONNX or PYTORCH." % (
                models[0].id, "model_framework 'Custom'" if models[0].model_framework else "no model_framework"))
    return models[0]
