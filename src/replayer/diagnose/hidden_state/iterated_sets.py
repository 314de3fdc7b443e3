"""Find the sets whose order a period of a live run uses although no restore brings it back."""

from __future__ import annotations

import attrs

from recorder.processes.isolated_fork import NotIsolatedError, Send, ensure_can_isolate, run_isolated
from recorder.trial.set_order import find_set_orders
from recorder.trial.trajectory import Trajectory
from replayer.diagnose.hidden_state.periods import Period
from replayer.diagnose.hidden_state.report import FRESH, USED, Suspect, SyncFinding
from sim.kernel.simulation import Simulation, restore

SEARCH_S = 20.0
SET_ORDER = "order of a set"  # As a comparison with a restored copy names it.


def with_iterated_sets(findings: list[SyncFinding], simulation: Simulation, period: Period) -> list[SyncFinding]:
    """The findings of a period; if a restore diverged and no cause is proved, with the sets that a step iterates over."""
    suspected = [suspect for one in findings for suspect in one.suspects]
    if not any(one.way in (FRESH, USED) for one in findings) or any(suspect.proved for suspect in suspected):
        return findings
    if suspected and not any(suspect.kind == SET_ORDER for suspect in suspected):
        return findings
    proved = iterated_sets(simulation, period)
    return [
        attrs.evolve(one, suspects=[*proved, *one.suspects]) if proved and one.way in (FRESH, USED) else one
        for one in findings
    ]


def iterated_sets(simulation: Simulation, period: Period) -> list[Suspect]:
    """The sets whose order changes the period, each shown by a run with that set in another order. In a copy."""
    run = Trajectory(0, period.inputs, [period.start.hash(), *period.hashes], [], {0: period.start})

    def search(send: Send) -> None:
        restore(simulation, period.start)
        send(
            [
                Suspect(one.name, "order of the set", one.why, proved=True)
                for one in find_set_orders(simulation, run, 0).used
            ]
        )

    try:
        ensure_can_isolate()
        messages = run_isolated(search, SEARCH_S).messages
    except (NotIsolatedError, OSError):
        return []
    return messages[0] if messages else []
