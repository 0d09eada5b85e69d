import sys

from azureml._service import webservice_errors
from azureml._assets import parse_time, time_text
from azureml.core._model_references import model_ids, models_of
from azureml.core._inference_config import check_code, send_with_code
from azureml.data._tabular_format import LINES
from azureml.data.tabular_dataset import TabularDataset
from azureml.exceptions import UserErrorException, WebserviceException
from runyard_sdk.errors import NotFound
from runyard_sdk.submitter import submitter_facts

MIN_PROFILE_CPU = 0.1
MAX_PROFILE_CPU = 3.5
MIN_PROFILE_MEMORY = 0.1
MAX_PROFILE_MEMORY = 15.0

_MOST_ROWS = 10000
_WAIT_SECONDS = 1.0
_LATENCIES = {"average_latency_in_ms": "average", "latency_percentile_50_in_ms": "p50",
              "latency_percentile_90_in_ms": "p90", "latency_percentile_95_in_ms": "p95",
              "latency_percentile_99_in_ms": "p99", "latency_percentile_999_in_ms": "p99_9"}
_RESULTS = {"recommended_cpu": "recommended_cpu", "recommended_memory": "recommended_memory_in_gb",
            "max_utilized_cpu": "peak_cpu", "measured_queries_per_second": "queries_per_second",
            "success_queries": "succeeded", "success_rate": "success_rate", "total_queries": "requests"}


def start_profile(workspace, name, models, inference_config, input_dataset, cpu, memory_in_gb, description):
    """Start profiling a model; returns at once."""
    _check_amount("cpu", cpu, MIN_PROFILE_CPU, MAX_PROFILE_CPU)
    _check_amount("memory_in_gb", memory_in_gb, MIN_PROFILE_MEMORY, MAX_PROFILE_MEMORY)
    if inference_config is not None:
        check_code(inference_config)
    dataset_id, rows = _requests_of(workspace, input_dataset)
    body = {"name": name, "models": model_ids(models_of(workspace, models)), "inference": None, "cpu": cpu,
            "memory_in_gb": memory_in_gb, "description": description, "dataset_id": dataset_id, "rows": rows,
            "submitter": submitter_facts()}
    with webservice_errors():
        send_with_code(workspace._client, inference_config, body, lambda whole: workspace._client.post(
            workspace._path("profiles"), whole))
    return ModelProfile(workspace, name)


class _ModelEvaluationResultBase(object):
    """Base of measurements that the service makes of a model."""

    def __init__(self, workspace, name):
        self._take(workspace, _record_of(workspace, name))

    def wait_for_completion(self, show_output=False):
        """Wait until done. Raises WebserviceException with the cause if it failed."""
        show = _show if show_output else (lambda text: None)
        show("Running")
        while self.state not in ("Succeeded", "Failed"):
            show(".")
            with webservice_errors():
                self._take(self.workspace, self.workspace._client.get(
                    self._path + "/wait", version=self._record["version"], timeout=_WAIT_SECONDS))
        show("\n%s\n%s\n" % (self.state, self._table()))
        if self.state == "Failed":
            raise WebserviceException("Profiling %r failed. %s" % (self.name, _cause(self.error)))

    @property
    def _path(self):
        return self.workspace._path("profiles", self.name)


class ModelProfile(_ModelEvaluationResultBase):
    """Latency, memory and CPU of a model over a sample of requests. Names are those of v1; see get_details()."""

    def get_details(self):
        """Measured values as a mapping, without unknown ones."""
        names = sorted(_LATENCIES) + sorted(_RESULTS) + ["max_utilized_memory", "requested_cpu",
                                                         "requested_memory_in_gb", "name", "state", "error"]
        found = {_camel(name): getattr(self, name) for name in names}
        return {key: value for key, value in found.items() if value is not None}

    def get_results(self):
        """Recommended CPU and memory, in the form of the oldest SDK."""
        self.wait_for_completion()
        return {"cpu": self.recommended_cpu, "memoryInGB": self.recommended_memory}

    def update_creation_state(self):
        self._take(self.workspace, _record_of(self.workspace, self.name))

    def wait_for_profiling(self, show_output=False):
        self.wait_for_completion(show_output)

    def serialize(self):
        return dict(self.get_details(), id=self.id, createdTime=time_text(self.created_time),
                    description=self.description, modelIds=list(self.model_ids), inputDatasetId=self.input_dataset_id)

    def __repr__(self):
        return "ModelProfile(workspace=%r, name=%r, state=%s)" % (self.workspace.name, self.name, self.state)

    def _take(self, workspace, record):
        results = record.get("results") or {}
        latency = results.get("latency_ms") or {}
        self.workspace, self._record = workspace, record
        self.name, self.id, self.state = record["name"], record["name"], record["state"]
        self.created_time, self.description = parse_time(record["created_at"]), record.get("description")
        self.model_ids, self.input_dataset_id = list(record["models"]), record.get("dataset_id")
        self.requested_cpu, self.requested_memory_in_gb = record.get("cpu"), record.get("memory_in_gb")
        self.requested_queries_per_second, self.create_operation_id, self.error_logs_url = None, None, None
        self.environment, self.error = None, record.get("error")
        for name, key in _LATENCIES.items():
            setattr(self, name, latency.get(key))
        for name, key in _RESULTS.items():
            setattr(self, name, results.get(key))
        peak = results.get("peak_memory_bytes")
        self.max_utilized_memory = round(peak / float(1 << 30), 3) if peak else None

    def _table(self):
        rows = [(name, "%.3f" % value if isinstance(value, float) else value)
                for name, value in sorted(self.get_details().items()) if name not in ("name", "state", "error")]
        width = max([len(name) for name, _ in rows] + [0])
        return "\n".join("%-*s  %s" % (width, name, value) for name, value in rows)


def _show(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def _record_of(workspace, name):
    try:
        with webservice_errors():
            return workspace._client.get(workspace._path("profiles", name))
    except NotFound:
        raise WebserviceException("ModelProfileNotFound: There is no profile %r in workspace %r." % (
            name, workspace.name), status_code=404)


def _requests_of(workspace, input_dataset):
    """Id of the dataset, and its rows where the service cannot read them as lines of its files.

    A text, which the oldest SDK accepts, is a single request.
    """
    if isinstance(input_dataset, str):
        return None, [input_dataset]
    if not isinstance(input_dataset, TabularDataset):
        raise UserErrorException("input_dataset must be a TabularDataset with one request body a row, got %r." % (
            input_dataset,))
    saved = input_dataset._saved(workspace)
    if _is_lines_alone(saved):
        return saved.id, None
    frame = saved.take(_MOST_ROWS).to_pandas_dataframe()
    return saved.id, [str(value) for value in frame[frame.columns[0]]]


def _is_lines_alone(dataset):
    form = dataset._format
    return form["kind"] == "delimited" and form["separator"] == LINES and form["header"] == "NO_HEADERS" and \
        not dataset._steps


def _check_amount(name, value, least, most):
    if value is not None and (isinstance(value, (bool, str)) or not least <= value <= most):
        raise UserErrorException("%s must be from %s to %s, got %r." % (name, least, most, value))


def _cause(error):
    error = error or {}
    return "\n".join(error[key] for key in ("problem", "hint", "traceback", "logs") if error.get(key))


def _camel(name):
    first, _, rest = name.partition("_")
    return first + "".join(part.capitalize() for part in rest.split("_") if part)
