import time

from azureml.core.compute._amlcompute_status import AmlComputeStatus, ScaleSettings
from azureml.core.compute.compute import ComputeTarget
from azureml.exceptions import ComputeTargetException

_POLL_SECONDS = 0.5
_ENDED = ("Completed", "Failed", "Canceled")


class Cluster(ComputeTarget):
    """What every target of several nodes has: their states, its scale settings, the runs that use it."""

    def get_status(self):
        """An AmlComputeStatus; its serialize() is a plain mapping."""
        self.refresh_state()
        return self.status

    def refresh_state(self):
        super(Cluster, self).refresh_state()
        seen = self.workspace._client.get(self.workspace._path("computes", self.name, "status"))
        self.status = AmlComputeStatus._of(self, seen)

    def list_nodes(self):
        """One mapping per node that exists now: nodeId, its addresses and port, nodeState, runId."""
        nodes = self.workspace._client.get(self.workspace._path("computes", self.name, "nodes"))["nodes"]
        return [{"nodeId": node["name"], "port": None, "publicIpAddress": node["address"],
                 "privateIpAddress": node["address"], "nodeState": node["state"], "runId": node["run_id"]}
                for node in nodes]

    def get_active_runs(self, type=None, tags=None, properties=None, status=None):
        """Runs that use this cluster and have not ended, newest first."""
        from azureml.core.experiment import Experiment
        wanted = [status] if isinstance(status, str) else status
        for name in sorted(self.workspace.experiments):
            for run in Experiment(self.workspace, name).get_runs(type=type, tags=tags, properties=properties):
                details = run.get_details()
                if details["status"] in _ENDED or details.get("target") != self.name:
                    continue
                if not wanted or details["status"] in wanted:
                    yield run

    def wait_for_completion(self, show_output=False, min_node_count=None, timeout_in_minutes=25,
                            is_delete_operation=False):
        """Wait until min_node_count nodes (by default the cluster's minimum) are there. A timeout does not raise."""
        if is_delete_operation:
            return
        self.refresh_state()
        wanted = self.scale_settings.minimum_node_count if min_node_count is None else min_node_count
        say = print if show_output else (lambda *_: None)
        say("Creating")
        say(self.provisioning_state)
        deadline = time.time() + 60 * timeout_in_minutes
        while self.status.current_node_count < wanted and time.time() < deadline:
            time.sleep(_POLL_SECONDS)
            self.refresh_state()
        say("%s wait for completion finished" % type(self).__name__)
        say()
        if self.status.current_node_count >= wanted:
            say("Minimum number of nodes requested have been provisioned")
        else:
            say("Wait timeout has been reached\nCurrent provisioning state of %s is %r and current node count "
                "is %r" % (type(self).__name__, self.provisioning_state.lower(), self.status.current_node_count))

    def update(self, min_nodes=None, max_nodes=None, idle_seconds_before_scaledown=None):
        """Change the scale settings; what is None stays."""
        from azureml._assets import patch_asset
        changes = {"min_nodes": min_nodes, "max_nodes": max_nodes,
                   "idle_seconds_before_scaledown": idle_seconds_before_scaledown}
        changes = {key: value for key, value in changes.items() if value is not None}
        current = self.scale_settings
        check_scale(changes.get("min_nodes", current.minimum_node_count),
                    changes.get("max_nodes", current.maximum_node_count))
        patch_asset(self.workspace, "computes", self.name, body=changes)
        self.refresh_state()

    def _take(self, workspace, asset):
        super(Cluster, self)._take(workspace, asset)
        body = asset["body"]
        self.vm_size = body.get("vm_size")
        self.vm_priority = body.get("vm_priority")
        self.scale_settings = ScaleSettings(
            body.get("min_nodes"), body.get("max_nodes"), body.get("idle_seconds_before_scaledown"))
        self.status = None


def check_scale(min_nodes, max_nodes):
    """Raise ComputeTargetException for bounds that no cluster can have."""
    if max_nodes is None:
        raise ComputeTargetException("max_nodes is missing: say how many nodes the cluster may grow to.")
    for argument, value in (("min_nodes", min_nodes), ("max_nodes", max_nodes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ComputeTargetException("%s must be a whole number of at least 0, got %r." % (argument, value))
    if max_nodes < min_nodes:
        raise ComputeTargetException("max_nodes must be at least min_nodes (%d), got %d." % (min_nodes, max_nodes))
