"""The result of a run, computed from its events: those of a live run, or those on a tape.

Everything is a fold over one stream of (tick, event). The result of a tape therefore equals the result of the live run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from sim.kernel.messages import Event
from sim.scenario.event_kinds import ABSENT, BUDGET_KINDS, EFFECT_KINDS, ENVIRONMENT_KINDS, has_required_keys
from sim.scenario.middleware.monitors import Q32_ONE, SIMPLEX_TOLERANCE, distance_to_equilibrium
from sim.scenario.results.run_profile import eligibility

TickEvent = tuple[int, Event]

PRODUCTIVE_KINDS = frozenset({"sent", "received", "offered", "chose"})
DRIFT_SHARE_MAX = 0.15  # Of energy, for check_trace.


@attrs.frozen
class Sample:
    """The figures of a role at a step.

    Attributes:
        step: 0 is before the first round.
        values: Q32.32 as integers.
        is_fallback: True for a step that the run did not reach; the values are the last ones.
    """

    step: int
    role: str
    values: tuple[int, ...]
    is_fallback: bool = False


@attrs.frozen
class Trace:
    """The samples of a run: one of each role at step 0, and one after each round.

    A run that ended early has one fallback sample of each role at its last step.
    """

    samples: tuple[Sample, ...]

    def at_step(self, step: int) -> dict[str, tuple[int, ...]]:
        """The figures of each role at a step; empty if the step was not sampled."""
        return {sample.role: sample.values for sample in self.samples if sample.step == step}

    @property
    def last_step(self) -> int:
        """The step of the last real sample; -1 if there is none."""
        return max((sample.step for sample in self.samples if not sample.is_fallback), default=-1)


@attrs.frozen
class Violation:
    """A property that was violated: its name, the first tick, and the problem."""

    name: str
    tick: int
    details: str

    @classmethod
    def of(cls, tick: int, event: Event) -> Violation:
        """Build a Violation from its event, of kind violation."""
        return cls(event["property"], tick, event["details"])


@attrs.frozen(kw_only=True)
class ScenarioResult:
    """The result of a run.

    Attributes:
        name: of the scenario.
        scenario_hash: hexadecimal; see identity.scenario_hash.
        regime: canonical_exact, threaded_exact or threaded_envelope_bounded.
        seed: of the scenario.
        final_tick, final_hash: of the last state; the hash is hexadecimal.
        trace: the samples.
        violations: of properties, by tick.
        events: those of the world itself, with "tick".
        effects: the events of effects on messages and roles, with "tick".
        schedule: the start of each adversary: [tick, id].
        budget_history: the events activated, consumed and exhausted.
        diagnostics: the events of assumptions in doubt.
        reconfigurations: the events of reconfigurations.
        environment: the events of bodies and medium.
        event_counts: by kind.
        progress: of a world with protocols; None for any other world.
        scheduler: the scheduler with its bounds, see run_profile.py; None for a world without one.
        presence: with absent = "left_out", for each role the number of rounds in which it was absent, idle (present, and
            sent nothing) or active; empty otherwise.
        checks: of the trace, see check_trace.
        violated_before: properties that an earlier run had violated, if this run resumed it; the earlier result holds
            the details.
        checkpoints: those that were written, newest last.
        checkpoint_error: the last error while writing a checkpoint; None if there was none.
        error: the error that ended the run early; None if there was none.
    """

    name: str
    scenario_hash: str
    regime: str
    seed: int
    final_tick: int
    final_hash: str
    trace: Trace
    violations: tuple[Violation, ...]
    events: tuple[Event, ...]
    effects: tuple[Event, ...]
    schedule: tuple[tuple[int, str], ...]
    budget_history: tuple[Event, ...]
    diagnostics: tuple[Event, ...]
    reconfigurations: tuple[Event, ...]
    environment: tuple[Event, ...]
    event_counts: Mapping[str, int]
    progress: Mapping[str, Any] | None = None
    scheduler: Mapping[str, Any] | None = None
    presence: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    checks: Mapping[str, Any] = attrs.field(factory=dict)
    violated_before: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    checkpoint_error: str | None = None
    error: str | None = None

    @property
    def eligibility(self) -> dict[str, list[Any]]:
        """The conditions of an exact and bounded run: for each True or False, and the witness; see run_profile.py."""
        return eligibility(self.regime, self.event_counts, self.progress, self.error)

    @property
    def traces(self) -> dict[str, Trace]:
        """The trace of each choreography of a machine with several, by name; empty for any other world."""
        names = (self.progress or {}).get("choreographies", {})
        return {
            name: Trace(tuple(sample for sample in self.trace.samples if sample.role.startswith(f"{name}.")))
            for name in names
        }

    @property
    def reconfiguration_summary(self) -> dict[str, int]:
        """How many reconfigurations were made, how many of them cost nothing, and the transition budget that was used.

        ``transition`` counts those with a cost, and ``transition_budget`` is the sum of the costs, in ticks.
        """
        costs = [event["cost"] for event in self.reconfigurations if type(event.get("cost")) is int]
        paid = [cost for cost in costs if cost > 0]
        counts = {"applied": len(costs), "pure": len(costs) - len(paid), "transition": len(paid)}
        return {**counts, "transition_budget": sum(paid)}

    @property
    def is_exact(self) -> bool:
        """Return True if every run of the scenario must give the same events in the same order."""
        return self.regime != "threaded_envelope_bounded"


def fold_events(
    events: Iterable[TickEvent],
    *,
    name: str,
    scenario_hash: str,
    regime: str,
    seed: int,
    steps: int | None,
    final_tick: int,
    final_hash: str,
    present_roles: Sequence[str] | None = None,
    **more: Any,
) -> ScenarioResult:
    """Compute the result of a run from all its events, in order. steps: the samples requested; None means all taken.

    present_roles: the roles of a scenario that tells absent ones from idle ones; None for any other.
    """
    parts: dict[str, list[Any]] = {key: [] for key in ("samples", "violations", "events", "effects", "budget")}
    parts |= {key: [] for key in ("diagnostics", "reconfigurations", "environment")}
    counts: Counter[str] = Counter()
    presence = Presence()
    for tick, event in events:
        kind = event["kind"]
        counts[kind] += 1
        presence.add(tick, kind, event.get("role"))
        if not has_required_keys(event):
            parts["events"].append({"tick": tick, **event})
        elif kind == "sample":
            parts["samples"].append(Sample(event["step"], event["role"], tuple(event["values"])))
        elif kind == "violation":
            parts["violations"].append(Violation.of(tick, event))
        else:
            parts[_part_of(kind)].append({"tick": tick, **event})
    schedule = tuple((event["tick"], event["by"]) for event in parts["budget"] if event["kind"] == "activated")
    trace = Trace(tuple(_with_fallback(parts["samples"], steps)))
    return ScenarioResult(
        name=name,
        scenario_hash=scenario_hash,
        regime=regime,
        seed=seed,
        final_tick=final_tick,
        final_hash=final_hash,
        trace=trace,
        violations=tuple(parts["violations"]),
        events=tuple(parts["events"]),
        effects=tuple(parts["effects"]),
        schedule=schedule,
        budget_history=tuple(parts["budget"]),
        diagnostics=tuple(parts["diagnostics"]),
        reconfigurations=tuple(parts["reconfigurations"]),
        environment=tuple(parts["environment"]),
        event_counts=dict(sorted(counts.items())),
        presence=presence.by_role(present_roles) if present_roles is not None else {},
        checks=check_trace(trace),
        **more,
    )


class Presence:
    """Counts the rounds in which roles were absent, idle or active; there are no absent ones unless a scenario tells."""

    def __init__(self) -> None:
        self._absent: Counter[str] = Counter()
        self._active: dict[str, set[int]] = {}
        self._rounds: set[int] = set()

    def add(self, tick: int, kind: str, role: Any) -> None:
        """Count an event."""
        if kind == "sample" and tick:
            self._rounds.add(tick)
        elif kind == ABSENT and isinstance(role, str):
            self._absent[role] += 1
        elif kind in ("sent", "suppressed") and isinstance(role, str):
            self._active.setdefault(role, set()).add(tick)

    def by_role(self, roles: Iterable[str]) -> dict[str, dict[str, int]]:
        """The counts of these roles, which may be idle in every round, and of each that was ever absent or active."""
        counts = {}
        for role in sorted({*roles, *self._absent, *self._active}):
            absent, active = self._absent[role], len(self._active.get(role, ()))
            counts[role] = {"absent": absent, "idle": len(self._rounds) - absent - active, "active": active}
        return counts


def _part_of(kind: str) -> str:
    if kind in BUDGET_KINDS:
        return "budget"
    if kind in EFFECT_KINDS:
        return "effects"
    if kind in ENVIRONMENT_KINDS:
        return "environment"
    return {"diagnostic": "diagnostics", "reconfigured": "reconfigurations"}.get(kind, "events")


def _with_fallback(samples: Sequence[Sample], steps: int | None) -> list[Sample]:
    last = max((sample.step for sample in samples), default=-1)
    if steps is None or last < 0 or last >= steps - 1:
        return list(samples)
    final = [sample for sample in samples if sample.step == last]
    return [*samples, *(attrs.evolve(sample, step=steps - 1, is_fallback=True) for sample in final)]


def check_trace(trace: Trace) -> dict[str, Any]:
    """Checks of an entire trace; None for a check that does not apply.

    conserved: the sum of all figures is equal at every step. simplex: each role's figures are a distribution.
    converges: the last distance from the uniform distribution is less than the first. energy_drift: the largest change
    of the sum of squares of all figures, as a share of its first value; a hamiltonian should stay below DRIFT_SHARE_MAX.
    """
    by_step: dict[int, dict[str, tuple[int, ...]]] = {}
    for sample in trace.samples:
        if sample.values and not sample.is_fallback:
            by_step.setdefault(sample.step, {})[sample.role] = sample.values
    if not by_step:
        return {"conserved": None, "simplex": None, "converges": None, "energy_drift": None}
    steps = sorted(by_step)
    sums = {sum(map(sum, by_step[step].values())) for step in steps}
    simplex = all(_is_distribution(values) for step in steps for values in by_step[step].values())
    distances = [distance_to_equilibrium(by_step[step]) for step in (steps[0], steps[-1])]
    return {
        "conserved": len(sums) == 1,
        "simplex": simplex,
        "converges": distances[1] < distances[0] if simplex else None,
        "energy_drift": None if simplex else _energy_drift([by_step[step] for step in steps]),
    }


def _is_distribution(values: Sequence[int]) -> bool:
    return min(values) >= 0 and abs(sum(values) - Q32_ONE) <= SIMPLEX_TOLERANCE


def _energy_drift(steps: Sequence[Mapping[str, Sequence[int]]]) -> float | None:
    energies = [sum(value * value for values in step.values() for value in values) for step in steps]
    if not energies[0]:
        return None
    return max(abs(energy - energies[0]) for energy in energies) / energies[0]
