"""CPUs, GPUs and memory by vm_size, as in Azure's catalogue. The operator's table adds or replaces sizes."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.core.errors import InvalidArgument

TABLE_VARIABLE = "RUNYARD_VM_SIZES"


@dataclass(frozen=True)
class NodeResources:
    cpu: float
    gpu: float = 0
    memory_gb: float = 0


_ROWS = """
STANDARD_A1_V2 1 0 2
STANDARD_A2_V2 2 0 4
STANDARD_A4_V2 4 0 8
STANDARD_A8_V2 8 0 16
STANDARD_D1_V2 1 0 3.5
STANDARD_D2_V2 2 0 7
STANDARD_D3_V2 4 0 14
STANDARD_D4_V2 8 0 28
STANDARD_D5_V2 16 0 56
STANDARD_D11_V2 2 0 14
STANDARD_D12_V2 4 0 28
STANDARD_D13_V2 8 0 56
STANDARD_D14_V2 16 0 112
STANDARD_DS1_V2 1 0 3.5
STANDARD_DS2_V2 2 0 7
STANDARD_DS3_V2 4 0 14
STANDARD_DS4_V2 8 0 28
STANDARD_DS5_V2 16 0 56
STANDARD_DS11_V2 2 0 14
STANDARD_DS12_V2 4 0 28
STANDARD_DS13_V2 8 0 56
STANDARD_DS14_V2 16 0 112
STANDARD_DS15_V2 20 0 140
STANDARD_D2_V3 2 0 8
STANDARD_D4_V3 4 0 16
STANDARD_D8_V3 8 0 32
STANDARD_D16_V3 16 0 64
STANDARD_D32_V3 32 0 128
STANDARD_D64_V3 64 0 256
STANDARD_D2S_V3 2 0 8
STANDARD_D4S_V3 4 0 16
STANDARD_D8S_V3 8 0 32
STANDARD_D16S_V3 16 0 64
STANDARD_D32S_V3 32 0 128
STANDARD_D64S_V3 64 0 256
STANDARD_E2S_V3 2 0 16
STANDARD_E4S_V3 4 0 32
STANDARD_E8S_V3 8 0 64
STANDARD_E16S_V3 16 0 128
STANDARD_E32S_V3 32 0 256
STANDARD_E64S_V3 64 0 432
STANDARD_F1S 1 0 2
STANDARD_F2S 2 0 4
STANDARD_F4S 4 0 8
STANDARD_F8S 8 0 16
STANDARD_F16S 16 0 32
STANDARD_F2S_V2 2 0 4
STANDARD_F4S_V2 4 0 8
STANDARD_F8S_V2 8 0 16
STANDARD_F16S_V2 16 0 32
STANDARD_F32S_V2 32 0 64
STANDARD_F64S_V2 64 0 128
STANDARD_F72S_V2 72 0 144
STANDARD_NC6 6 1 56
STANDARD_NC12 12 2 112
STANDARD_NC24 24 4 224
STANDARD_NC24R 24 4 224
STANDARD_NC6S_V2 6 1 112
STANDARD_NC12S_V2 12 2 224
STANDARD_NC24S_V2 24 4 448
STANDARD_NC24RS_V2 24 4 448
STANDARD_NC6S_V3 6 1 112
STANDARD_NC12S_V3 12 2 224
STANDARD_NC24S_V3 24 4 448
STANDARD_NC24RS_V3 24 4 448
STANDARD_NC4AS_T4_V3 4 1 28
STANDARD_NC8AS_T4_V3 8 1 56
STANDARD_NC16AS_T4_V3 16 1 110
STANDARD_NC64AS_T4_V3 64 4 440
STANDARD_NC24ADS_A100_V4 24 1 220
STANDARD_NC48ADS_A100_V4 48 2 440
STANDARD_NC96ADS_A100_V4 96 4 880
STANDARD_ND6S 6 1 112
STANDARD_ND12S 12 2 224
STANDARD_ND24S 24 4 448
STANDARD_ND24RS 24 4 448
STANDARD_ND40RS_V2 40 8 672
STANDARD_ND96ASR_V4 96 8 900
STANDARD_NV6 6 1 56
STANDARD_NV12 12 2 112
STANDARD_NV24 24 4 224
STANDARD_NV12S_V3 12 1 112
STANDARD_NV24S_V3 24 2 224
STANDARD_NV48S_V3 48 4 448
"""
BUILT_IN: Mapping[str, NodeResources] = {
    name: NodeResources(*map(float, numbers)) for name, *numbers in map(str.split, _ROWS.strip().splitlines())
}


def node_resources(vm_size: str, table: Mapping[str, NodeResources] = BUILT_IN) -> NodeResources:
    """Resources of a node of that size, in upper or lower case. InvalidArgument with similar names if it is unknown."""
    asked = vm_size.strip().upper()
    found = table.get(asked) or table.get(f"STANDARD_{asked}")
    if found is not None:
        return found
    near = ", ".join(difflib.get_close_matches(asked, table, n=3, cutoff=0.7)) or "STANDARD_D2_V2, STANDARD_NC6"
    raise InvalidArgument(
        f"vm_size {vm_size[:80]!r} is not in the table of sizes; known are for example {near}.",
        hint=f"Choose one of them, or have the operator add it to the file that {TABLE_VARIABLE} names.",
    )


def edited_table(body: Mapping[str, Any]) -> dict[str, NodeResources]:
    """Built-in sizes, with those of the operator's file added or replaced. An entry is `{"cpu": 4, "gpu": 0,
    "memory_gb": 16}`, of which `cpu` is required. InvalidArgument with the entry that is wrong."""
    if not isinstance(body, Mapping):
        raise InvalidArgument(f"{TABLE_VARIABLE}: the file must hold a table of sizes by name, got {body!r:.80}.")
    return {**BUILT_IN, **{str(name).strip().upper(): _checked(str(name), entry) for name, entry in body.items()}}


def _checked(name: str, entry: Any) -> NodeResources:
    if not isinstance(entry, Mapping) or not set(entry) <= {"cpu", "gpu", "memory_gb"} or "cpu" not in entry:
        raise InvalidArgument(
            f"{TABLE_VARIABLE}: {name!r} must have cpu, and may have gpu and memory_gb; got {entry!r:.120}."
        )
    for key, value in entry.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InvalidArgument(f"{TABLE_VARIABLE}: {key} of {name!r} must be a number of at least 0, got {value!r}.")
    return NodeResources(**{key: float(value) for key, value in entry.items()})
