"""Events of a world with kinds of the scenario: distinguished in the run, in its result and on the tape."""

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


class Emitter:
    """A world that emits the same events in each step."""

    emitted: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.state = State(Schema(Field("n", "i8")))

    def step(self, _: Any) -> None:
        self.state["n"][()] += 1

    def events(self) -> list[Any]:
        return list(self.emitted) if int(self.state["n"]) else []


def emitter(*events: Any) -> type[Emitter]:
    """A class of worlds that emit these events in each step."""
    return type("Emitter", (Emitter,), {"emitted": events})


def result_of(world: type[Emitter], tape: Path | None = None) -> ScenarioResult:
    """The result of five ticks with the scenario."""
    return run_with_scenario(world(), SCENARIO, inputs=lambda *_: {"a": 1, "b": 2}, steps=6, tape=tape)


EMITTED: list[tuple[Event, ...]] = [
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


@pytest.mark.parametrize("emitted", EMITTED, ids=lambda emitted: "-".join(event["kind"] for event in emitted))
@pytest.mark.share(0.22)
def test_neither_counts_as_the_other(tmp_path: Path, emitted: tuple[Event, ...]) -> None:
    """The scenario's own events are those around a silent world; the world's events are in ``events``."""
    silent, result = result_of(emitter()), result_of(emitter(*emitted), tmp_path / "a.tape")
    assert result.error is None
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
        assert getattr(result, name) == getattr(silent, name), name
    names = {kind: f"world.{kind}" for kind in OWN_KINDS | MESSAGE_KINDS}
    own = [{**event, "kind": names.get(event["kind"], event["kind"])} for event in emitted]
    kinds = {event["kind"] for event in own}
    worlds_events = [
        {k: v for k, v in event.items() if k != "tick"} for event in result.events if event["kind"] in kinds
    ]
    assert worlds_events == own * 5
    assert [event for event in result.events if event["kind"] not in kinds] == list(silent.events)

    with Tape(tmp_path / "a.tape") as tape:
        again = scenario_result(tape, emitter(*emitted))
        assert (again.events, again.violations, again.trace) == (result.events, result.violations, result.trace)
        assert list(rebuild_events(tape, emitter(*emitted), stored=False)) == list(tape.events())
        assert verify_tape(tape.path, emitter(*emitted)).ok
        assert compare_tapes(tape, tape).verdict == "exact_raw_match"


def test_reserved_kinds_trigger_nothing() -> None:
    """In a world without messages, its own event "received" triggers nothing; its other events do."""
    for kind, triggers in (("received", False), ("opened", True)):
        late = {"id": "x", "kind": "withholding", "budget": {"total": 1}, "trigger": {"on_event": {"kind": kind}}}
        simulation = staged({"roles": ["a", "b"], "adversaries": [late]}, emitter({"kind": kind, "role": "a"})())
        for _ in range(3):
            simulation.step(None)
        assert (simulation._adversaries.plain["strikers"][0][0] > 0) == triggers


def test_an_invalid_event() -> None:
    """It ends the run with an error."""
    for wrong in ({"role": "a"}, {"kind": 3}, "sent"):
        assert 'expected a table with a text under "kind", got ' in str(result_of(emitter(wrong)).error)


def test_results_of_older_tapes() -> None:
    """They may hold a world's events with reserved kinds: an event without the required keys counts as the world's."""
    events: list[tuple[int, Event]] = [
        (1, {"kind": "violation", "property": "p", "details": "d"}),
        *((1, {"kind": kind}) for kind in ("violation", "sample", "consumed", "diagnostic", "reconfigured")),
    ]
    result = fold_events(events, name="", scenario_hash="", regime="", seed=0, steps=None, final_tick=1, final_hash="")
    assert [violation.name for violation in result.violations] == ["p"]
    assert [event["kind"] for event in result.events] == [event["kind"] for _, event in events[1:]]
    assert (result.budget_history, result.diagnostics, result.reconfigurations, result.trace.samples) == (
        (),
        (),
        (),
        (),
    )


def test_a_tape_without_scenario_keeps_the_kinds(tmp_path: Path) -> None:
    """Without a scenario, nothing is renamed."""
    with Recorder(tmp_path / "b.tape", emitter({"kind": "violation"})()) as tape:
        tape.step(None)
    with Tape(tmp_path / "b.tape") as opened:
        assert list(opened.events()) == [(1, {"kind": "violation"})]
