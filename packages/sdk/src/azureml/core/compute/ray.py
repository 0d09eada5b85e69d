"""Ray clusters as compute targets, which Runyard adds to SDK v1."""
import re

from azureml.core.compute._cluster import Cluster, check_scale
from azureml.core.compute.compute import put_target
from azureml.core.compute.compute import ComputeTarget, ComputeTargetAttachConfiguration
from azureml.exceptions import ComputeTargetException

_ADDRESS = r"^(ray://)?[A-Za-z0-9_.\-\[\]:]+:\d{1,5}\Z"
_MOST_NODES = 64


class RayCompute(Cluster):
    """A Ray cluster that runs are submitted to. Each node of a run gets the resources named when it was attached.

    Attach one with `ComputeTarget.attach(workspace, name, RayCompute.attach_configuration(address))`. Detaching does
    not change the Ray cluster.
    """

    _compute_type = "Ray"

    @staticmethod
    def attach_configuration(address, cpu=None, gpu=None, memory_gb=None, min_nodes=0, max_nodes=_MOST_NODES,
                             idle_seconds_before_scaledown=1800, resources=None, tags=None, description=None):
        """Address of a Ray cluster, and the resources that one node of a run takes.

        `address` is HOST:PORT of the Ray head. `cpu`, `gpu` and `memory_gb`, or a `resources` mapping with these keys,
        are per node; the default is one CPU, no GPU, no memory limit. `min_nodes` nodes are requested from Ray's
        autoscaler while the target is attached; a run gets `max_nodes` at most.
        """
        return RayAttachConfiguration(address, cpu, gpu, memory_gb, min_nodes, max_nodes,
                                      idle_seconds_before_scaledown, resources, tags, description)

    def detach(self):
        """Remove the target and its autoscaler request. The Ray cluster continues."""
        super(RayCompute, self).delete()

    def delete(self):
        raise ComputeTargetException("%r was attached, not created, so it cannot be deleted; call detach()." % (
            self.name,))

    def serialize(self):
        written = super(RayCompute, self).serialize()
        written["properties"].update(status=self.status.serialize() if self.status else None, properties={
            "address": self.address, "resources": self.resources, "scaleSettings": self.scale_settings.serialize()})
        return written

    @classmethod
    def _attach(cls, workspace, name, configuration):
        return put_target(cls, workspace, name, configuration._body(workspace), configuration.tags)

    def _take(self, workspace, asset):
        super(RayCompute, self)._take(workspace, asset)
        self.is_attached = True
        self.address = asset["body"].get("address")
        self.resources = dict(asset["body"].get("resources") or {})


class RayAttachConfiguration(ComputeTargetAttachConfiguration):
    """Settings of an attached Ray cluster. Raises ComputeTargetException for contradictions."""

    _compute_class = RayCompute

    def __init__(self, address, cpu=None, gpu=None, memory_gb=None, min_nodes=0, max_nodes=_MOST_NODES,
                 idle_seconds_before_scaledown=1800, resources=None, tags=None, description=None):
        super(RayAttachConfiguration, self).__init__("Ray")
        self.address = address
        self.resources = _resources(resources, {"cpu": cpu, "gpu": gpu, "memory_gb": memory_gb})
        self.min_nodes, self.max_nodes = min_nodes, max_nodes
        self.idle_seconds_before_scaledown = idle_seconds_before_scaledown
        self.tags, self.description = tags, description
        self.validate_configuration()

    def validate_configuration(self):
        if not isinstance(self.address, str) or not re.match(_ADDRESS, self.address):
            raise ComputeTargetException("address must be HOST:PORT of the Ray head, for example '10.0.0.5:6379', "
                                         "got %r." % (self.address,))
        check_scale(self.min_nodes, self.max_nodes)
        if self.max_nodes < 1:
            raise ComputeTargetException("max_nodes must be at least 1, got %d." % self.max_nodes)
        for name, value in self.resources.items():
            _check_amount(name, value)

    def _body(self, workspace):
        return {"type": "Ray", "engine": "ray", "address": self.address, "resources": self.resources,
                "min_nodes": self.min_nodes, "max_nodes": self.max_nodes, "is_attached": True,
                "idle_seconds_before_scaledown": self.idle_seconds_before_scaledown,
                "description": self.description, "location": workspace.location, "provisioning_state": "Succeeded"}


def _resources(given, named):
    """Merge `resources` and the separate arguments into one mapping."""
    if given is not None and not isinstance(given, dict):
        raise ComputeTargetException("resources must be a mapping such as {'cpu': 4, 'gpu': 1}, got %r." % (given,))
    unknown = sorted(str(name) for name in set(given or {}) - set(named))
    if unknown:
        raise ComputeTargetException("resources may name cpu, gpu and memory_gb, got %s." % ", ".join(unknown))
    both = [name for name in named if named[name] is not None and (given or {}).get(name) is not None]
    if both:
        raise ComputeTargetException("%s is given twice: leave it out of resources." % both[0])
    merged = dict(given or {}, **{name: value for name, value in named.items() if value is not None})
    return {name: value for name, value in merged.items() if value is not None}


def _check_amount(name, value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0
    if not is_number or value < 0 or (value == 0 and name != "gpu"):
        raise ComputeTargetException("%s must be a number above 0 for each node, got %r." % (name, value))
    if name == "gpu" and value != int(value):
        raise ComputeTargetException("gpu must be a whole number for each node, got %r." % (value,))


ComputeTarget._types["Ray"] = RayCompute
