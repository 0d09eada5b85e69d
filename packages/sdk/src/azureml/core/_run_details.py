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


class DatasetOfRun(dict):
    """A dataset that a run read or wrote: {"id"}, and otherwise the dataset itself, fetched when it is first used."""

    def __init__(self, workspace, dataset_id):
        super().__init__(id=dataset_id)
        self._workspace, self._found = workspace, None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._found is None:
            from azureml.core.dataset import Dataset

            self._found = Dataset.get_by_id(self._workspace, self["id"])
        return getattr(self._found, name)


def details_of(record, log_addresses, workspace):
    """`log_addresses` is `{log path: address}`; datasets are looked up in `workspace`."""
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
    details["inputDatasets"] = [_input(workspace, read) for read in record.get("inputs") or []]
    details["outputDatasets"] = [_output(workspace, written) for written in record.get("outputs") or []]
    if definition:
        details["runDefinition"] = {key: value for key, value in definition.items() if key != "runyard"}
    details["logFiles"] = log_addresses
    details["submittedBy"] = ((definition.get("runyard") or {}).get("submitter") or {}).get("user", "")
    return details


def log_addresses(service_address, run_path, names):
    return {name: "{}/api/v1{}/files/{}".format(service_address, run_path, quoted_path(name)) for name in names}


def _input(workspace, read):
    """A dataset that the script looked up itself is a reference; the others have the name of an input."""
    if read["mode"] == "Reference":
        details = {"type": "Reference"}
    else:
        details = {"type": "RunInput", "inputName": read["input_name"], "mechanism": read["mode"]}
    return {"dataset": DatasetOfRun(workspace, read["dataset_id"]), "consumptionDetails": details}


def _output(workspace, written):
    dataset_id = written["dataset_id"]
    return {"identifier": {"savedId": dataset_id}, "outputType": "RunOutput",
            "outputDetails": {"outputName": written["output_name"]}, "dataset": DatasetOfRun(workspace, dataset_id)}
