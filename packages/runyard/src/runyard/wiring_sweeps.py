"""Builds what stands around sweeps."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from runyard.controller.sweeps.filling import SweepSurroundings
from runyard.foundation import Foundation
from runyard.model.runs import RunId
from runyard.services.data.lineage import Lineage
from runyard.services.direct_inputs import DirectInputs
from runyard.services.sweeps.live import LiveSweeps


@dataclass(frozen=True)
class Sweeping:
    live: LiveSweeps
    around: SweepSurroundings
    inputs: DirectInputs


def build_sweeping(base: Foundation, lineage: Lineage, cancel: Callable[[RunId], None]) -> Sweeping:
    """`cancel` begins to stop a child that a policy gives up."""
    stores = base.stores
    live = LiveSweeps(base.runs, stores.metrics, stores.trials, base.logs, base.clock, cancel)
    inputs = DirectInputs(stores.assets, lineage)
    around = SweepSurroundings(
        trials=stores.trials,
        live=live,
        note_inputs=inputs.record,
        most_unmanaged=len(os.sched_getaffinity(0)),
    )
    return Sweeping(live, around, inputs)
