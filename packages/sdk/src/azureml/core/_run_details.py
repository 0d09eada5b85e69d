"""What get_details() returns, made of a run record."""

from runyard_sdk.client import quoted_path


class RunDetailsDict(dict):
    """The details as v1's dict of camelCase keys. Keys can be read as attributes too: `details.status`."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError("The details of a run have no {!r}; they have {}.".format(
                name, ", ".join(sorted(self))))


def details_of(record, log_addresses):
    """`log_addresses` is `{log path: address}`."""
    details = RunDetailsDict(runId=record["id"], target=record["target"], status=record["status"])
    for key, field in (("startTimeUtc", "started_at"), ("endTimeUtc", "ended_at")):
        if record.get(field):
            details[key] = record[field]
    details["services"] = {}
    if record.get("error"):
        details["error"] = record["error"]
    if record.get("warnings"):
        details["warnings"] = [{"source": None, "message": text} for text in record["warnings"]]
    definition = record.get("definition") or {}
    details["properties"] = dict(record.get("properties") or {})
    details["inputDatasets"] = _input_datasets(definition)
    details["outputDatasets"] = []
    if definition:
        details["runDefinition"] = {key: value for key, value in definition.items() if key != "runyard"}
    details["logFiles"] = log_addresses
    details["submittedBy"] = ((definition.get("runyard") or {}).get("submitter") or {}).get("user", "")
    return details


def log_addresses(service_address, run_path, names):
    return {name: "{}/api/v1{}/files/{}".format(service_address, run_path, quoted_path(name)) for name in names}


def _input_datasets(definition):
    found = []
    for name, item in sorted((definition.get("data") or {}).items()):
        dataset = (item.get("dataLocation") or {}).get("dataset") or {}
        found.append({"dataset": {"id": dataset.get("id")}, "consumptionDetails": {
            "type": "RunInput", "inputName": name, "mechanism": item.get("mechanism"),
            "pathOnCompute": item.get("pathOnCompute")}})
    return found
