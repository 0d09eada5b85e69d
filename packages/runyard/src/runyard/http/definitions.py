from runyard.errors import Json
from runyard.http.fields import mapping, names, text


def deployment_definition(body: Json) -> Json:
    """What workers are made of, each field of its type; those that are not there are left out."""
    given: Json = {
        name: mapping(body, name) for name in ("config", "inference", "submitter") if body.get(name) is not None
    }
    if body.get("models") is not None:
        given["models"] = names(body, "models")
    if body.get("image_id") is not None:
        given["image_id"] = text(body, "image_id")
    return given
