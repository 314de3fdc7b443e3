"""Run several simulations as the sites of one nested run, and report each of them next to the outer trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from recorder.session.recorder import Recorder
from sim.kernel.hooks import ReportsProgress, hook
from sim.kernel.simulation import inner_of
from sim.scenario.nested import STEPPED, NestedContract, NestedSimulation

OBSERVED_ONLY = "observed_only"


@attrs.frozen
class SiteResult:
    """The result of one site.

    Attributes:
        rounds: the inner steps that it made.
        final_hash: of its own state, hexadecimal.
        ended: the reason why it is over, a short name and a sentence; None if it is not.
        event_counts: its events by kind.
        progress: of a world with protocols; None for any other.
    """

    rounds: int
    final_hash: str
    ended: tuple[str, str] | None
    event_counts: Mapping[str, int]
    progress: Mapping[str, Any] | None


@attrs.frozen
class NestedResult:
    """The result of a nested run.

    Attributes:
        contract: of the run.
        steps: the outer steps that were made.
        trace: for each outer step the sites that advanced, with the rounds that each made.
        sites: the results by name, in the order of the sites.
    """

    contract: NestedContract
    steps: int
    trace: tuple[Mapping[str, int], ...]
    sites: Mapping[str, SiteResult]

    @property
    def manifest(self) -> dict[str, Any]:
        """The run as plain data. What it states was observed; no bound of a scheduler is claimed for a nested run."""
        return {
            "classification": OBSERVED_ONLY,
            **attrs.asdict(self.contract),
            "steps": self.steps,
            "sites": {name: attrs.asdict(site) for name, site in self.sites.items()},
        }


def run_nested(
    sites: Mapping[str, Any],
    contract: NestedContract | None = None,
    *,
    steps: int,
    inputs: Callable[[int], Any] = lambda _: None,
    tape: Path | None = None,
) -> NestedResult:
    """Run the sites for a number of outer steps, or until all of them are over.

    sites, contract: see NestedSimulation. inputs: returns the inputs of the outer step to a tick. tape: a new tape, which
    a factory that makes the NestedSimulation replays.
    Raises as NestedSimulation and Recorder do, ValueError for no steps, and any exception of a site.
    """
    if steps < 1:
        raise ValueError(f"steps={steps!r}: expected at least 1")
    nested = NestedSimulation(sites, contract)
    counts: dict[str, Counter[str]] = {name: Counter() for name in nested.sites}
    trace: list[Mapping[str, int]] = []
    with ExitStack() as stack:
        step = nested.step if tape is None else stack.enter_context(Recorder(tape, nested)).step
        while len(trace) < steps and nested.ended() is None:
            step(inputs(len(trace) + 1))
            advanced: dict[str, int] = {}
            for event in nested.events():
                if event["kind"] == STEPPED and "round" not in event:
                    advanced[event["site"]] = event["rounds"]
                else:
                    counts[event["site"]][event["kind"]] += 1
            trace.append(advanced)
    results = {name: _result_of(nested, name, counts[name]) for name in nested.sites}
    return NestedResult(nested.contract, len(trace), tuple(trace), results)


def _result_of(nested: NestedSimulation, name: str, counts: Mapping[str, int]) -> SiteResult:
    site = nested.sites[name]
    reports = hook(inner_of(site), ReportsProgress)
    return SiteResult(
        nested.rounds[name],
        f"{site.state.hash():016x}",
        nested.ended_of(name),
        dict(sorted(counts.items())),
        reports.progress() if reports is not None else None,
    )
