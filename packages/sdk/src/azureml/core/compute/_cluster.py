"""Clusters, and the status that get_status() returns, with the camelCase keys of its serialize()."""

import time

from azureml.core.compute.compute import ComputeTarget
from azureml.exceptions import ComputeTargetException

_POLL_SECONDS = 0.5
_ENDED = ("Completed", "Failed", "Canceled")


class ScaleSettings(object):
    def __init__(self, minimum_node_count, maximum_node_count, idle_seconds_before_scaledown):
        self.minimum_node_count = minimum_node_count
        self.maximum_node_count = maximum_node_count
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown

    def serialize(self):
        idle = self.idle_seconds_before_scaledown
        return {"minNodeCount": self.minimum_node_count, "maxNodeCount": self.maximum_node_count,
                "nodeIdleTimeBeforeScaleDown": None if idle is None else "PT%dS" % idle}

    @staticmethod
    def deserialize(object_dict):
        idle = object_dict.get("nodeIdleTimeBeforeScaleDown")
        return ScaleSettings(object_dict.get("minNodeCount"), object_dict.get("maxNodeCount"),
                             int(idle[2:-1]) if idle else None)

    def __repr__(self):
        return "ScaleSettings(%r)" % self.serialize()


class AmlComputeNodeStateCounts(object):
    def __init__(self, idle_node_count, leaving_node_count, preempted_node_count, preparing_node_count,
                 running_node_count, unusable_node_count):
        self.idle_node_count = idle_node_count
        self.leaving_node_count = leaving_node_count
        self.preempted_node_count = preempted_node_count
        self.preparing_node_count = preparing_node_count
        self.running_node_count = running_node_count
        self.unusable_node_count = unusable_node_count

    def serialize(self):
        return {"preparingNodeCount": self.preparing_node_count, "runningNodeCount": self.running_node_count,
                "idleNodeCount": self.idle_node_count, "unusableNodeCount": self.unusable_node_count,
                "leavingNodeCount": self.leaving_node_count, "preemptedNodeCount": self.preempted_node_count}

    @staticmethod
    def deserialize(object_dict):
        return AmlComputeNodeStateCounts(*(object_dict.get(kind + "NodeCount", 0) for kind in (
            "idle", "leaving", "preempted", "preparing", "running", "unusable")))

    def __repr__(self):
        return "AmlComputeNodeStateCounts(%r)" % self.serialize()


class AmlComputeStatus(object):
    """State of a cluster at one moment."""

    def __init__(self, allocation_state, allocation_state_transition_time, creation_time, current_node_count, errors,
                 modified_time, node_state_counts, provisioning_state, provisioning_state_transition_time,
                 scale_settings, target_node_count, vm_priority, vm_size):
        self.allocation_state = allocation_state
        self.allocation_state_transition_time = allocation_state_transition_time
        self.creation_time = creation_time
        self.current_node_count = current_node_count
        self.errors = errors
        self.modified_time = modified_time
        self.node_state_counts = node_state_counts
        self.provisioning_state = provisioning_state
        self.provisioning_state_transition_time = provisioning_state_transition_time
        self.scale_settings = scale_settings
        self.target_node_count = target_node_count
        self.vm_priority = vm_priority
        self.vm_size = vm_size

    def serialize(self):
        return {"currentNodeCount": self.current_node_count, "targetNodeCount": self.target_node_count,
                "nodeStateCounts": self.node_state_counts.serialize() if self.node_state_counts else None,
                "allocationState": self.allocation_state,
                "allocationStateTransitionTime": self.allocation_state_transition_time, "errors": self.errors,
                "creationTime": self.creation_time, "modifiedTime": self.modified_time,
                "provisioningState": self.provisioning_state,
                "provisioningStateTransitionTime": self.provisioning_state_transition_time,
                "scaleSettings": self.scale_settings.serialize() if self.scale_settings else None,
                "vmPriority": self.vm_priority, "vmSize": self.vm_size}

    @staticmethod
    def deserialize(object_dict):
        counts, scale = object_dict.get("nodeStateCounts"), object_dict.get("scaleSettings")
        return AmlComputeStatus(
            object_dict.get("allocationState"), object_dict.get("allocationStateTransitionTime"),
            object_dict.get("creationTime"), object_dict.get("currentNodeCount"), object_dict.get("errors"),
            object_dict.get("modifiedTime"), AmlComputeNodeStateCounts.deserialize(counts) if counts else None,
            object_dict.get("provisioningState"), object_dict.get("provisioningStateTransitionTime"),
            ScaleSettings.deserialize(scale) if scale else None, object_dict.get("targetNodeCount"),
            object_dict.get("vmPriority"), object_dict.get("vmSize"))

    def __repr__(self):
        return "AmlComputeStatus(%r)" % self.serialize()

    @staticmethod
    def _of(compute, seen):
        counts = seen["counts"]
        return AmlComputeStatus(
            seen["allocation_state"], seen.get("allocation_changed_at"), compute.created_on, seen["current"],
            seen.get("errors") or None, compute.modified_on,
            AmlComputeNodeStateCounts(counts["idle"], counts["leaving"], counts["preempted"], counts["preparing"],
                                      counts["running"], counts["unusable"]),
            compute.provisioning_state, compute.created_on, compute.scale_settings, seen["target"],
            compute.vm_priority, compute.vm_size)


class Cluster(ComputeTarget):
    """Base of targets with several nodes: node states, scale settings, and the runs that use it."""

    def get_status(self):
        """An AmlComputeStatus; its serialize() is a plain mapping."""
        self.refresh_state()
        return self.status

    def refresh_state(self):
        super(Cluster, self).refresh_state()
        seen = self.workspace._client.get(self.workspace._path("computes", self.name, "status"))
        self.status = AmlComputeStatus._of(self, seen)

    def list_nodes(self):
        """One mapping per existing node: nodeId, its addresses and port, nodeState, runId."""
        nodes = self.workspace._client.get(self.workspace._path("computes", self.name, "nodes"))["nodes"]
        return [{"nodeId": node["name"], "port": None, "publicIpAddress": node["address"],
                 "privateIpAddress": node["address"], "nodeState": node["state"], "runId": node["run_id"]}
                for node in nodes]

    def get_active_runs(self, type=None, tags=None, properties=None, status=None):
        """Active runs of this cluster, newest first."""
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
        """Wait until min_node_count nodes (default: the cluster's minimum) exist. A timeout does not raise."""
        if is_delete_operation:
            return
        self.refresh_state()
        wanted = self.scale_settings.minimum_node_count if min_node_count is None else min_node_count
        show = print if show_output else (lambda *_: None)
        show("Creating")
        show(self.provisioning_state)
        deadline = time.time() + 60 * timeout_in_minutes
        while self.status.current_node_count < wanted and time.time() < deadline:
            time.sleep(_POLL_SECONDS)
            self.refresh_state()
        show("%s wait for completion finished" % type(self).__name__)
        show()
        if self.status.current_node_count >= wanted:
            show("Minimum number of nodes requested have been provisioned")
        else:
            show("Wait timeout has been reached\nCurrent provisioning state of %s is %r and current node count "
                 "is %r" % (type(self).__name__, self.provisioning_state.lower(), self.status.current_node_count))

    def update(self, min_nodes=None, max_nodes=None, idle_seconds_before_scaledown=None):
        """Change the scale settings; None keeps a value."""
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
    """Raise ComputeTargetException for invalid bounds."""
    if max_nodes is None:
        raise ComputeTargetException("max_nodes is missing: say how many nodes the cluster may grow to.")
    for argument, value in (("min_nodes", min_nodes), ("max_nodes", max_nodes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ComputeTargetException("%s must be a whole number of at least 0, got %r." % (argument, value))
    if max_nodes < min_nodes:
        raise ComputeTargetException("max_nodes must be at least min_nodes (%d), got %d." % (min_nodes, max_nodes))
