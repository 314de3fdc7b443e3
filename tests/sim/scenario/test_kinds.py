"""Events of a world whose kinds are the scenario's own: kept apart, in the run, in its result and on the tape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from staging import staged

from recorder.scenarios import run_with_scenario
from recorder.session.recorder import Recorder
from replayer.playback.rebuild_events import rebuild_events
from replayer.tape.tape import Tape
from replayer.timeline.scenario_results import compare_tapes, scenario_result
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State
from sim.kernel.messages import Event
from sim.scenario.event_kinds import MESSAGE_KINDS, OWN_KINDS
from sim.scenario.results.result import ScenarioResult, fold_events

SCENARIO: dict[str, Any] = {
    "name": "told",
    "roles": ["a", "b"],
    "adversaries": [{"id": "w", "kind": "withholding", "senders": ["a"], "budget": {"total": 2}}],
    "properties": [
        {"name": "p", "kind": "no_faults"},
        {"name": "few", "kind": "always", "when": "tick < 3"},
        {"name": "late", "kind": "send_recv_liveness", "bound": 9},
    ],
}


class Teller:
    """Says in each step whatever it was told to."""

    told: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.state = State(Schema(Field("n", "i8")))

    def step(self, _: Any) -> None:
        self.state["n"][()] += 1

    def events(self) -> list[Any]:
        return list(self.told) if int(self.state["n"]) else []


def teller(*told: Any) -> type[Teller]:
    """A class of worlds that tell this."""
    return type("Teller", (Teller,), {"told": told})


def ran(world: type[Teller], tape: Path | None = None) -> ScenarioResult:
    """What five ticks with the scenario come to."""
    return run_with_scenario(world(), SCENARIO, inputs=lambda *_: {"a": 1, "b": 2}, steps=6, tape=tape)


TOLD: list[tuple[Event, ...]] = [
    *(({"kind": kind},) for kind in sorted(OWN_KINDS | MESSAGE_KINDS)),
    ({"kind": "violation", "property": "p", "details": "mine"},),
    ({"kind": "consumed", "by": "w", "consumed": 99, "remaining": -1, "detail": "mine"},),
    ({"kind": "sample", "step": 1, "role": "a", "values": [7]},),
    ({"kind": "repeated", "message": 1, "copies": 3}, {"kind": "received", "message": 0}),
    (
        {"kind": "opened", "role": 3},
        {"kind": "opened"},
        {"kind": "opened", "role": None},
        {"kind": "closed", "role": "a"},
    ),
    ({"kind": "chat", "message": [1, 2], "session": {"of": 1}},),
]


@pytest.mark.parametrize("told", TOLD, ids=lambda told: "-".join(event["kind"] for event in told))
def test_neither_counts_as_the_other(tmp_path: Path, told: tuple[Event, ...]) -> None:
    """All that the scenario itself says is as around a silent world; what the world says is among the events."""
    silent, found = ran(teller()), ran(teller(*told), tmp_path / "a.tape")
    assert found.error is None
    for name in (
        "violations",
        "effects",
        "budget_history",
        "diagnostics",
        "environment",
        "schedule",
        "trace",
        "checks",
    ):
        assert getattr(found, name) == getattr(silent, name), name
    names = {kind: f"world.{kind}" for kind in OWN_KINDS | MESSAGE_KINDS}
    own = [{**event, "kind": names.get(event["kind"], event["kind"])} for event in told]
    kinds = {event["kind"] for event in own}
    mine = [{k: v for k, v in event.items() if k != "tick"} for event in found.events if event["kind"] in kinds]
    assert mine == own * 5
    assert [event for event in found.events if event["kind"] not in kinds] == list(silent.events)

    with Tape(tmp_path / "a.tape") as tape:
        again = scenario_result(tape, teller(*told))
        assert (again.events, again.violations, again.trace) == (found.events, found.violations, found.trace)
        assert list(rebuild_events(tape, teller(*told), stored=False)) == list(tape.events())
        assert verify_tape(tape.path, teller(*told)).ok
        assert compare_tapes(tape, tape).verdict == "exact_raw_match"


def test_it_triggers_nothing() -> None:
    """A world without messages cannot say that something was sent or received; what else it tells is heard."""
    for kind, heard in (("received", False), ("opened", True)):
        late = {"id": "x", "kind": "withholding", "budget": {"total": 1}, "trigger": {"on_event": {"kind": kind}}}
        simulation = staged({"roles": ["a", "b"], "adversaries": [late]}, teller({"kind": kind, "role": "a"})())
        for _ in range(3):
            simulation.step(None)
        assert (simulation._adversaries.plain["strikers"][0][0] > 0) == heard


def test_what_is_no_event() -> None:
    """Is said, and ends the run."""
    for wrong in ({"role": "a"}, {"kind": 3}, "sent"):
        assert 'a table with a text under "kind" was expected' in str(ran(teller(wrong)).error)


def test_results_of_tapes_from_before() -> None:
    """Such a tape may hold a world's own events under the scenario's names: what is not whole counts as the world's."""
    told: list[tuple[int, Event]] = [
        (1, {"kind": "violation", "property": "p", "details": "d"}),
        *((1, {"kind": kind}) for kind in ("violation", "sample", "consumed", "diagnostic", "reconfigured")),
    ]
    found = fold_events(told, name="", scenario_hash="", regime="", seed=0, steps=None, final_tick=1, final_hash="")
    assert [one.name for one in found.violations] == ["p"]
    assert [event["kind"] for event in found.events] == [event["kind"] for _, event in told[1:]]
    assert (found.budget_history, found.diagnostics, found.reconfigurations, found.trace.samples) == ((), (), (), ())


def test_a_tape_without_scenario_keeps_the_kinds(tmp_path: Path) -> None:
    """Nothing is renamed where there is nothing to be mistaken for."""
    with Recorder(tmp_path / "b.tape", teller({"kind": "violation"})()) as tape:
        tape.step(None)
    with Tape(tmp_path / "b.tape") as opened:
        assert list(opened.events()) == [(1, {"kind": "violation"})]
