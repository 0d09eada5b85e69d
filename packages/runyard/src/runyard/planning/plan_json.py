"""A launch plan as JSON and back: how a plan reaches its node."""

from collections.abc import Mapping
from typing import Any

from runyard.errors import Json
from runyard.model.files import FileEntry
from runyard.model.images import ContainerWish, ImageSpec, VolumeWish
from runyard.model.plan import CondaSpec, DataItem, EnvironmentSpec, LaunchPlan, NodePlan, PortWish, ProcessSpec
from runyard.model.runs import AttemptId, RunId
from runyard.planning.passwords import replace_addresses


def plan_to_json(plan: LaunchPlan) -> Json:
    return {
        **vars(plan),
        "environment": environment_to_json(plan.environment),
        "container": {**vars(plan.container), "volumes": [dict(vars(volume)) for volume in plan.container.volumes]},
        "nodes": [_node_to_json(node) for node in plan.nodes],
        "code": [_entry(entry) for entry in plan.code],
        "data": [dict(vars(item)) for item in plan.data],
        "env": dict(plan.env),
    }


def plan_from_json(body: Json) -> LaunchPlan:
    """Fields that this version does not know are ignored: the service may be newer than the node."""
    known = _known(LaunchPlan, body)
    known["attempt_id"], known["run_id"] = AttemptId(body["attempt_id"]), RunId(body["run_id"])
    known["environment"] = environment_from_json(body["environment"])
    known["container"] = _container(body.get("container") or {})
    known["nodes"] = tuple(_node(node) for node in body["nodes"])
    known["code"] = tuple(FileEntry(*entry) for entry in body["code"])
    known["data"] = tuple(DataItem(**_known(DataItem, item)) for item in body["data"])
    return LaunchPlan(**known)


def environment_to_json(spec: EnvironmentSpec) -> Json:
    return {
        **vars(spec),
        "conda": dict(vars(spec.conda)) if spec.conda else None,
        "image": {**vars(spec.image), "context": [_entry(entry) for entry in spec.image.context]}
        if spec.image
        else None,
    }


def environment_from_json(body: Json) -> EnvironmentSpec:
    """Fields that this version does not know are left out."""
    known = _known(EnvironmentSpec, body)
    conda, image = body.get("conda"), body.get("image")
    known["conda"] = CondaSpec(**_known(CondaSpec, conda)) if conda else None
    known["image"] = _image(image) if image else None
    return EnvironmentSpec(**known)


def with_addresses(spec: EnvironmentSpec, addresses: Mapping[str, str]) -> EnvironmentSpec:
    """The spec with the addresses, which have passwords, in place of what stands for them."""
    if not addresses:
        return spec
    return environment_from_json(replace_addresses(environment_to_json(spec), addresses))


def _image(body: Json) -> ImageSpec:
    known = _known(ImageSpec, body)
    known["context"] = tuple(FileEntry(*entry) for entry in body.get("context", ()))
    return ImageSpec(**known)


def _container(body: Json) -> ContainerWish:
    known = _known(ContainerWish, body)
    known["volumes"] = tuple(VolumeWish(**_known(VolumeWish, volume)) for volume in body.get("volumes", ()))
    return ContainerWish(**known)


def _entry(entry: FileEntry) -> list[object]:
    return [entry.path, entry.sha256, entry.size, entry.mode]


def _node_to_json(node: NodePlan) -> Json:
    return {
        **vars(node),
        "processes": [dict(vars(process)) for process in node.processes],
        "ports": [dict(vars(wish)) for wish in node.ports],
        "env": dict(node.env),
    }


def _node(body: Json) -> NodePlan:
    known = _known(NodePlan, body)
    known["processes"] = tuple(ProcessSpec(**_known(ProcessSpec, process)) for process in body["processes"])
    known["ports"] = tuple(PortWish(**_known(PortWish, wish)) for wish in body.get("ports", ()))
    return NodePlan(**known)


def _known(record: type[Any], body: Json) -> Json:
    fields = record.__dataclass_fields__
    return {name: _frozen(value) for name, value in body.items() if name in fields}


def _frozen(value: object) -> object:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
