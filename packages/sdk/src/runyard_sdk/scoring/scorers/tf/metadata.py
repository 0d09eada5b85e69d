"""What GET tells of a model, in TensorFlow Serving's words, and the schema for its OpenAPI document."""
from runyard_sdk.scoring.scorers import json_schemas
from runyard_sdk.scoring.scorers.tf.signatures import DEFAULT

METADATA_TYPE = "type.googleapis.com/tensorflow.serving.SignatureDefMap"


def status(model):
    return {"model_version_status": [{
        "version": str(model.version), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]}


def metadata(model, signatures):
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": str(model.version)},
        "metadata": {"signature_def": {
            "@type": METADATA_TYPE,
            "signature_def": {name: {
                "inputs": {alias: _tensor(one) for alias, one in signature.inputs.items()},
                "outputs": {alias: _tensor(one) for alias, one in signature.outputs.items()},
                "method_name": signature.method,
            } for name, signature in signatures.items()},
        }},
    }


def schema(signatures):
    """Of the row format and the signature that answers when none is named."""
    name = DEFAULT if DEFAULT in signatures else next(iter(signatures))
    signature = signatures[name]
    inputs = {alias: one for alias, one in signature.inputs.items() if alias not in signature.optional}
    # An object for each row, unless there is nothing to tell apart.
    row = _row(inputs) if len(inputs) > 1 else _values(next(iter(inputs.values()))) if inputs else {}
    result = _row(signature.outputs) if len(signature.outputs) > 1 else _values(next(iter(signature.outputs.values())))
    facts = {
        "input": {"type": "object", "properties": {
            "signature_name": {"type": "string", "enum": list(signatures), "default": name},
            "instances": {"type": "array", "items": row}, "inputs": {}}},
        "output": {"type": "object", "properties": {
            "predictions": {"type": "array", "items": result}, "outputs": {}}},
    }
    samples = {alias: _sample(one) for alias, one in inputs.items()}
    if samples and None not in samples.values():
        facts["sample_input"] = {"instances": [samples if len(samples) > 1 else next(iter(samples.values()))]}
    return facts


def _tensor(tensor):
    sizes = tensor.shape or []
    return {
        "dtype": "DT_" + tensor.dtype.name.upper().replace("FLOAT32", "FLOAT").replace("FLOAT64", "DOUBLE"),
        "tensor_shape": {"dim": [{"size": str(-1 if size is None else size), "name": ""} for size in sizes],
                         "unknown_rank": tensor.shape is None},
        "name": tensor.name,
    }


def _row(tensors):
    return {"type": "object", "properties": {alias: _values(one) for alias, one in tensors.items()}}


def _values(tensor):
    """The JSON of one row of it."""
    return json_schemas.nested(_json_type(tensor), (tensor.shape or [])[1:])


def _sample(tensor):
    return json_schemas.sample(_json_type(tensor), (tensor.shape or [])[1:])


def _json_type(tensor):
    if tensor.is_text:
        return "string"
    if tensor.dtype.name == "bool":
        return "boolean"
    return "integer" if tensor.dtype.is_integer else "number"
