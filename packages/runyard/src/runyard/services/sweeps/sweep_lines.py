"""What the log of a sweep says of its children. Each line begins with the child's id and a verb, by which a sweep that
is carried on finds what was said."""

import json

from runyard.model.runs import RunRecord, RunStatus
from runyard.model.sweeps import Trial
from runyard.services.sweeps.causes import cause_text
from runyard.services.sweeps.standing import BestSoFar, Standing


def sampled_line(trial: Trial) -> str:
    values = json.dumps(dict(trial.values), ensure_ascii=False, default=str)
    whence = "" if trial.resumed_from is None else f", which are those of {trial.resumed_from}"
    return f"{trial.child_id} sampled: {values}{whence}"


def scheduled_line(trial: Trial) -> str:
    return f"{trial.child_id} scheduled."


def best_line(best: BestSoFar, metric: str) -> str:
    return f"{best.run_id} leads: the best {metric} so far is {best.value!r}."


def ended_line(child: RunRecord, trial: Trial, standing: Standing) -> str:
    score, intervals, rank = (told(trial.number) for told in (standing.score, standing.intervals, standing.rank))
    scored = f"best {score!r} of {intervals}" if intervals else "it never logged the primary metric"
    if rank:
        scored += f", logged by rank {rank} and never by rank 0"
    is_late = trial.stop is not None and child.status is not RunStatus.CANCELED
    late = " before its stop reached it" if is_late else ""
    cause = f" {cause_of(child)}" if child.status is RunStatus.FAILED else ""
    return f"{child.id} ended: {child.status}{late}, {scored}.{cause}"


def unjudged_text(metric: str, rank: int) -> str:
    return (
        f"No policy judged the run before its end: {metric!r} was logged by rank {rank} and never by rank 0, whose "
        "numbers alone count while it goes on. Log it on rank 0."
    )


def no_number_text(metric: str, shown: str = "") -> str:
    """How it begins where nothing is shown."""
    begin = f"The primary metric {metric!r} was logged as something else than a number"
    return f"{begin}, {shown:.200}: that is no interval. Log an int or a float." if shown else begin


def cause_of(child: RunRecord) -> str:
    """The code and the first words of its error."""
    error = (child.error or {}).get("error") or {}
    return f"{error.get('code') or 'Error'}: {cause_text(error.get('message')) or 'it does not say why'}"
