"""The profile of a run: how its scheduler bounds it, and which conditions of an exact and bounded run it met.

Everything here is read from the configuration, or counted in the events of the run: a witness says what was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.kernel.hooks import HasConcurrency, HasPolicy, hook
from sim.scenario.config.scenario import Execution

_FAIR_POLICIES = frozenset({"round_robin", "priority_aging", "priority_token_weighted", "progress_aware"})
_CONDITIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # What was seen if it held, and the events against it.
    "delivery": ("no message was lost", ("withheld", "lost", "split_off", "cut", "undeliverable")),
    "authenticity": ("no message was changed or repeated", ("corrupted", "repeated")),
    "availability": ("no role was stopped", ("crashed", "suppressed")),
    "assumptions": ("no assumption is in doubt", ("diagnostic",)),
    "properties": ("no property was violated", ("violation",)),
}


def scheduler_profile(execution: Execution, world: Any, progress: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The scheduler of a run as plain data; None for a world without one.

    world: the user's own object; None if it is not known. progress: of the world at the end of the run, see
    ReportsProgress; None if it reports none.

    ``policy``: of the world's scheduler. ``concurrency``: roles that advance in a round.
    ``exactness``: exact, or envelope, if equal runs agree only up to the order of independent events. ``upper_bound``: of
    the productive steps: the initial W, times the concurrency where only the envelope is certain; None if W is unknown.
    ``bound_mode`` names it. ``fairness``: by_policy, if the policy lets no role wait for ever; assumed otherwise: a cooperative role may go on
    for ever where its messages do not arrive.
    """
    with_policy, with_concurrency = hook(world, HasPolicy), hook(world, HasConcurrency)
    if with_policy is None:
        return None
    policy = with_policy.scheduler_policy
    concurrency = with_concurrency.concurrency if with_concurrency is not None else execution.scheduler_concurrency
    is_envelope = execution.regime == "threaded_envelope_bounded"
    measure = (progress or {}).get("initial_w")
    mode = "unsupported" if measure is None else "w_times_concurrency" if is_envelope else "w"
    return {
        "policy": policy,
        "backend": "threaded" if execution.backend == "threaded" else "canonical",
        "concurrency": concurrency,
        "worker_threads": execution.worker_threads,
        "exactness": "envelope" if is_envelope else "exact",
        "bound_mode": mode,
        "upper_bound": None if measure is None else measure * (concurrency if is_envelope else 1),
        "fairness": "by_policy" if policy in _FAIR_POLICIES else "assumed",
    }


def eligibility(
    regime: str, event_counts: Mapping[str, int], progress: Mapping[str, Any] | None, error: str | None
) -> dict[str, list[Any]]:
    """For each condition True or False, and the witness: what the run showed. All conditions of a run without faults hold.

    exact: a second run gives the same events in the same order. bounded: W is known, so that the run has to end.
    delivery, authenticity, availability, assumptions, properties: see the witnesses. completed: no error ended the run.
    """
    measure = (progress or {}).get("initial_w")
    known = "the world reports no protocol" if progress is None else "the protocol has an endless loop"
    found: dict[str, list[Any]] = {
        "exact": [regime != "threaded_envelope_bounded", regime],
        "bounded": [measure is not None, known if measure is None else f"W was {measure} at the start"],
    }
    for name, (held, kinds) in _CONDITIONS.items():
        seen = [f"{event_counts[kind]} {kind}" for kind in kinds if event_counts.get(kind)]
        found[name] = [not seen, ", ".join(seen) or held]
    found["completed"] = [error is None, error or "no error ended the run"]
    return found
