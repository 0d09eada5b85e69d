"""What AmlCompute.get_status() returns, with the camelCase keys of its serialize()."""


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
    """The state of a cluster at one moment."""

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
