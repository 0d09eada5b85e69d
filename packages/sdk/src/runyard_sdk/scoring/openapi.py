"""Document of GET /swagger.json: Swagger 2.0, or OpenAPI 3 on request."""

_ONLY_IN_3 = ("oneOf", "anyOf", "not", "nullable")
_HEALTH_PATH = "/"


def document(name, scoring_path, schema=None, methods=("POST",), keys=False, version=2):
    """Document of a web service. `schema`: {"input", "output", "sample_input", "sample_output"}, each if known."""
    schema = schema or {}
    operations = {method.lower(): _scoring(method, version) for method in methods if method in ("GET", "POST")}
    paths = {_HEALTH_PATH: {"get": _health(version)}, scoring_path: operations}
    if keys:
        for operation in operations.values():
            operation["security"] = [{"Bearer": []}]
            operation["responses"]["401"] = _response("The key or token is missing or wrong.", "ErrorResponse", version)
    definitions = {
        "ServiceInput": _definition(schema, "input", version),
        "ServiceOutput": _definition(schema, "output", version),
        "ErrorResponse": {"type": "object", "properties": {"message": {"type": "string"}}},
    }
    return _whole(name, paths, definitions, _security(version) if keys else {}, version)


def _whole(name, paths, definitions, security, version):
    info = {"title": name, "description": "API specification for the web service %s." % name, "version": "1.0"}
    if version == 2:
        return {"swagger": "2.0", "info": info, "schemes": ["http"], "consumes": ["application/json"],
                "produces": ["application/json"], "securityDefinitions": security, "paths": paths,
                "definitions": definitions}
    return {"openapi": "3.0.3", "info": info, "paths": paths,
            "components": {"schemas": definitions, "securitySchemes": security}}


def _security(version):
    if version == 2:
        return {"Bearer": {"type": "apiKey", "name": "Authorization", "in": "header",
                           "description": "Bearer and a key of the web service, such as: Bearer abc123"}}
    return {"Bearer": {"type": "http", "scheme": "bearer"}}


def _health(version):
    content = {"description": "Healthy: the web service answers."}
    if version == 2:
        content["schema"] = {"type": "string"}
    else:
        content["content"] = {"text/plain": {"schema": {"type": "string"}}}
    operation = {"operationId": "ServiceHealthCheck", "description": "Whether the web service answers.",
                 "responses": {"200": content}}
    if version == 2:
        operation["produces"] = ["text/plain"]
    return operation


def _scoring(method, version):
    operation = {
        "operationId": "RunMLService" + ("" if method == "POST" else "By" + method.capitalize()),
        "description": "Have the web service score the input.",
        "responses": {
            "200": _response("What run() returned, or the model's prediction.", "ServiceOutput", version),
            "default": _response("Why there is no answer.", "ErrorResponse", version),
        },
    }
    if method == "POST" and version == 2:
        operation["parameters"] = [{"name": "serviceInputPayload", "in": "body", "required": True,
                                    "description": "The input.", "schema": _reference("ServiceInput", version)}]
    elif method == "POST":
        operation["requestBody"] = {"required": True, "content": {
            "application/json": {"schema": _reference("ServiceInput", version)}}}
    return operation


def _response(words, name, version):
    if version == 2:
        return {"description": words, "schema": _reference(name, version)}
    return {"description": words, "content": {"application/json": {"schema": _reference(name, version)}}}


def _reference(name, version):
    return {"$ref": ("#/definitions/" if version == 2 else "#/components/schemas/") + name}


def _definition(schema, side, version):
    known = schema.get(side) or {}
    described = dict(_in_version_2(known) if version == 2 else known)
    if not described and version == 2:
        described["type"] = "object"
    if schema.get("sample_" + side) is not None:
        described["example"] = schema["sample_" + side]
    return described


def _in_version_2(schema):
    """Copy of the schema without keys that Swagger 2.0 lacks."""
    if isinstance(schema, dict):
        return {key: _in_version_2(value) for key, value in schema.items() if key not in _ONLY_IN_3}
    return [_in_version_2(value) for value in schema] if isinstance(schema, list) else schema
