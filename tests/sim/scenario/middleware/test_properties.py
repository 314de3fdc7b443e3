"""Properties: each kind at its bound and one beyond it; each reported once; open windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from staging import happened, staged
from tiny_roles import Ring

from sim.kernel.messages import Event
from sim.scenario.config.scenario import read_scenario_config
from sim.scenario.middleware.monitors import Look, Monitors, distance_to_equilibrium

ONE = 1 << 32


def look(
    tick: int,
    *,
    figures: Mapping[str, Any] | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    events: Sequence[Event] = (),
    buffered: Mapping[int, int] | None = None,
    depths: Mapping[int, int] | None = None,
) -> Look:
    """A Look with empty defaults."""
    return Look(tick, figures or {}, samples or {}, events, buffered or {}, depths or {}, None)


def reports(keys: dict[str, Any], looks: Sequence[Look]) -> list[tuple[int, str]]:
    """Tick and details of each report of a property called p."""
    monitors = Monitors(read_scenario_config({"properties": [{"name": "p", **keys}]}).properties, {})
    reported = []
    for seen in looks:
        events: list[Event] = []
        monitors.end_round(seen, events)
        for event in events:
            assert (event["kind"], event["property"], set(event)) == ("violation", "p", {"kind", "property", "details"})
            reported.append((seen.tick, event["details"]))
    return reported


def test_faults_are_reported_once() -> None:
    """The first fault is reported, further ones are not."""
    fault = {"kind": "faulted", "role": "b", "reason": "no number"}
    looks = [look(1, events=[{"kind": "sent", "role": "b"}]), look(2, events=[fault]), look(3, events=[fault])]

    assert reports({"kind": "no_faults"}, looks) == [(2, "b faulted: no number")]
    assert reports({"kind": "no_faults"}, looks[:1]) == []
    assert reports({"kind": "no_faults"}, [look(1, events=[{"kind": "faulted"}])]) == [
        (1, "a role faulted: no reason given")
    ]


@pytest.mark.parametrize(
    ("values", "details"),
    [
        ([ONE], None),
        ([ONE // 2, ONE // 2], None),
        ([ONE // 2, ONE // 2 + 43], None),  # 43 / 2**32 is the first above 1e-8: rounded up.
        ([ONE // 2, ONE // 2 - 43], None),
        ([ONE // 2, ONE // 2 + 44], "the figures of a add up to 1.00000001, not to 1"),
        ([ONE // 2, ONE // 2 - 44], "the figures of a add up to 0.99999999, not to 1"),
        ([ONE + 1, -1], "a has a negative figure, -2.32830644e-10"),
        ([0, 0], "the figures of a add up to 0, not to 1"),
        ([], None),
    ],
)
def test_simplex(values: list[int], details: str | None) -> None:
    """Figures of a role are not negative and add up to 1."""
    reported = reports({"kind": "simplex"}, [look(1, samples={"z": [ONE], "a": values})])

    assert reported == ([] if details is None else [(1, details)])


def sent(*sessions: int) -> list[Event]:
    """A message sent in each of these sessions."""
    return [{"kind": "sent", "role": "a", "session": session} for session in sessions]


def received(*sessions: int) -> list[Event]:
    """A message received in each of these sessions."""
    return [{"kind": "received", "role": "b", "session": session} for session in sessions]


@pytest.mark.parametrize(
    ("session", "rounds", "report"),
    [
        # Sent in round 1, bound 2: it must be received by round 3.
        (None, [sent(0), [], received(0)], None),
        (None, [sent(0), [], [], received(0)], (3, "1 messages were sent 2 ticks ago or before, 0 were received")),
        (None, [sent(0) + received(0), []], None),
        (None, [sent(0, 0), received(0), []], (3, "2 messages were sent 2 ticks ago or before, 1 were received")),
        (None, [sent(0), sent(0), received(0), []], (4, "2 messages were sent 2 ticks ago or before, 1 were received")),
        (None, [sent(0), sent(0), received(0), received(0)], None),
        # All sessions, or one session; an event without a session is in session 0.
        (None, [sent(1), received(0), []], None),
        (1, [sent(1), received(0), []], (3, "1 messages were sent 2 ticks ago or before, 0 were received")),
        (0, [sent(1), [], []], None),
        (0, [[{"kind": "sent"}], [], []], (3, "1 messages were sent 2 ticks ago or before, 0 were received")),
    ],
)
def test_messages_are_received_within_the_bound(
    session: int | None, rounds: list[list[Event]], report: tuple[int, str] | None
) -> None:
    """Messages are counted by session; a receipt in the last round of the bound is in time."""
    keys = {"kind": "send_recv_liveness", "bound": 2} | ({} if session is None else {"session": session})
    looks = [look(tick, events=events) for tick, events in enumerate(rounds, start=1)]

    assert reports(keys, [*looks, look(99)] if report else looks) == ([] if report is None else [report])


def test_no_session_goes_back() -> None:
    """Depths may stay or fall, sessions may come and go; the report of a growing depth has both numbers."""
    looks = [
        look(t, depths=d) for t, d in enumerate([{0: 3}, {0: 3, 1: 9}, {0: 2, 1: 9}, {1: 8}, {0: 5, 1: 9}], start=1)
    ]

    assert reports({"kind": "type_monotonicity"}, looks) == [(5, "session 1 went back: 8 steps were left of it, now 9")]
    assert reports({"kind": "type_monotonicity", "session": 0}, looks) == []
    assert reports({"kind": "type_monotonicity", "session": 1}, looks[:4]) == []


def test_buffers_are_bounded() -> None:
    """The bound is allowed, one more is not; for one session or for all."""
    looks = [look(1, buffered={0: 2, 1: 2}), look(2, buffered={0: 0, 1: 3})]
    details = "session 1 has 3 messages in its buffers, 2 are allowed"

    assert reports({"kind": "buffer_bound", "max": 2}, looks) == [(2, details)]
    assert reports({"kind": "buffer_bound", "max": 3}, looks) == []
    assert reports({"kind": "buffer_bound", "max": 2, "session": 0}, looks) == []
    assert reports({"kind": "buffer_bound", "max": 2, "session": 1}, looks) == [(2, details)]
    assert reports({"kind": "buffer_bound", "max": 0}, looks[:1])[0][0] == 1


LIVENESS = {"kind": "liveness", "precondition": "asked > 0", "goal": "answers >= 1", "bound": 2}
OVERDUE = "answers >= 1 did not hold within 2 ticks of asked > 0"


@pytest.mark.parametrize(
    ("asked", "answers", "report"),
    [
        ([0, 1, 0, 0, 0], [0, 0, 0, 1, 0], None),  # Asked in round 2, answered in 4, the last one.
        ([0, 1, 0, 0, 0], [0, 0, 0, 0, 1], 4),
        ([0, 1, 0, 0, 0], [0, 1, 0, 0, 0], None),  # At once.
        ([0, 1, 1, 1, 0], [0, 0, 0, 0, 0], 4),  # The first request counts.
        ([1, 0, 1, 0, 0], [0, 1, 0, 0, 0], 5),  # Answered, and asked again.
        ([1, 0, 0, 1, 0], [0, 1, 0, 0, 0], None),  # The window is open when the run ends.
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], None),
        ([1, 1, 1, 1, 1], [0, 0, 0, 0, 0], 3),  # Once only.
    ],
)
def test_liveness(asked: list[int], answers: list[int], report: int | None) -> None:
    """The goal must hold at most bound ticks after the precondition."""
    looks = [
        look(tick, figures={"asked": asked_now, "answers": answers_now})
        for tick, (asked_now, answers_now) in enumerate(zip(asked, answers, strict=True), start=1)
    ]

    assert reports(LIVENESS, looks) == ([] if report is None else [(report, OVERDUE)])


@pytest.mark.parametrize(
    ("when", "value", "holds"),
    [
        ("x < 3", 2, True),
        ("x < 3", 3, False),
        ("x <= 3", 3, True),
        ("x <= 3", 3.5, False),
        ("x > -1.5", -1, True),
        ("x > -1.5", -1.5, False),
        ("x >= 3", 3, True),
        ("x >= 3", 2, False),
        ("x == 3", 3.0, True),
        ("x == 3", 4, False),
        ("x != 3", 4, True),
        ("x<3", 2, True),
        ("x <= 3", float("nan"), False),
        ("x != 3", float("nan"), False),
    ],
)
def test_always(when: str, value: float, *, holds: bool) -> None:
    """Each comparison at its bound; NaN fulfils none."""
    reported = reports({"kind": "always", "when": when}, [look(1, figures={"x": value})])

    shown = when.replace("x<3", "x < 3")
    assert reported == ([] if holds else [(1, f"{shown} does not hold: it is {value}")])


def test_the_distance_to_equilibrium() -> None:
    """The largest Euclidean distance of a role from the uniform distribution: (1, 0) is √½ from (½, ½)."""
    assert distance_to_equilibrium({"a": [ONE, 0], "b": [ONE // 2, ONE // 2], "c": []}) == 0.5**0.5
    assert distance_to_equilibrium({"a": [ONE]}) == 0
    assert distance_to_equilibrium({}) == 0
    assert distance_to_equilibrium({"a": [3 * ONE // 4, ONE // 4]}) == pytest.approx(0.125**0.5, rel=1e-15)


# --- in a run


class Figures(Ring):
    """A ring with figures and depths, which counts buffered messages by session."""

    def telemetry(self) -> dict[str, int]:
        return {"total of b": int(self.state["total"][1])}

    def depths(self) -> dict[int, int]:
        return {0: abs(4 - int(self.state["count"][0]))}

    def buffered_by_session(self) -> dict[int, int]:
        return {3: self.buffered_count()}


def violations(properties: list[dict[str, Any]], ticks: int, **more: Any) -> list[str]:
    """The violations that the properties of a run report."""
    world = Figures("ab", quiet="b")
    lines, _ = happened({"properties": [{"name": keys["kind"], **keys} for keys in properties], **more}, ticks, world)
    return [line for line in lines if " violation " in line]


def test_properties_of_a_run() -> None:
    """b has received 1 + 2 + 3 + 4 = 10 in tick 4; the steps left grow in tick 5; no message is ever in flight."""
    reported = violations(
        [
            {"kind": "always", "when": "total of b < 10"},
            {"kind": "type_monotonicity"},
            {"kind": "always", "when": "tick != 2", "name": "ticks"},
            {"kind": "liveness", "precondition": "tick >= 1", "goal": "total of b == 99", "bound": 3},
            {"kind": "buffer_bound", "max": 0, "session": 3},
            {"kind": "always", "when": "in_flight == 0", "name": "flight"},
        ],
        6,
    )

    assert reported == [
        "2 violation property=ticks details=tick != 2 does not hold: it is 2",
        "4 violation property=always details=total of b < 10 does not hold: it is 10",
        "4 violation property=liveness details=total of b == 99 did not hold within 3 ticks of tick >= 1",
        "5 violation property=type_monotonicity details=session 0 went back: 0 steps were left of it, now 1",
    ]


def test_figures_of_messages() -> None:
    """With a latency of 2 ticks, two messages are in flight after tick 2, three never; while b is stopped, they wait."""
    crash = {"id": "x", "kind": "crash", "role": "b", "budget": {"total": 1}}
    reported = violations(
        [
            {"kind": "always", "when": "in_flight < 2"},
            {"kind": "always", "when": "in_flight < 3", "name": "three"},
            {"kind": "buffer_bound", "max": 1, "session": 3},
            {"kind": "always", "when": "buffered <= 1", "name": "buffered"},
            {"kind": "buffer_bound", "max": 0, "session": 0, "name": "other"},
            {"kind": "send_recv_liveness", "bound": 3},
        ],
        6,
        network={"latency_ms": 2},
        adversaries=[crash],
    )

    assert reported == [
        "2 violation property=always details=in_flight < 2 does not hold: it is 2",
        "4 violation property=buffer_bound details=session 3 has 2 messages in its buffers, 1 are allowed",
        "4 violation property=buffered details=buffered <= 1 does not hold: it is 2",
        "4 violation property=send_recv_liveness details=1 messages were sent 3 ticks ago or before, 0 were received",
    ]


def test_a_function_sees_the_figures() -> None:
    """It gets the figures of each round, and is called until it reports a problem."""
    asked = []

    def too_much(seen: Look) -> str | None:
        asked.append(seen.tick)
        return f"it is {seen.figures['total of b']}" if seen.figures["total of b"] > 3 else None

    plain = {"properties": [{"name": "too_much", "kind": "function"}]}
    simulation = staged(plain, Figures("ab", quiet="b"), {"too_much": too_much})
    reported = []
    for _ in range(5):
        simulation.step(None)
        reported += [event for event in simulation.events() if event["kind"] == "violation"]

    assert reported == [{"kind": "violation", "property": "too_much", "details": "it is 6"}]
    assert asked == [1, 2, 3]


def test_a_function_that_is_missing() -> None:
    """The error names it when the scenario is put around the world."""
    with pytest.raises(LookupError, match="the function of property p is missing: give the simulation the member"):
        staged({"properties": [{"name": "p", "kind": "function"}]})


def test_samples_of_numpy_numbers_do_not_overflow() -> None:
    """A large number squared exceeds 64 bits by far; the distance is computed with Python's integers."""

    class Wide(Ring):
        """Returns its figures as NumPy numbers."""

        def sample(self, role: str) -> Any:  # noqa: ARG002 - all the same
            return np.array([1 << 62, 0])

    plain = {"properties": [{"name": "p", "kind": "always", "when": "distance_to_equilibrium > 700000000"}]}
    lines, simulation = happened(plain, 1, Wide("ab"))

    assert not [line for line in lines if "violation" in line]  # The distance of (2**30, 0) is about 2**30 × √½.
    assert {type(v) for e in simulation.events() if e["kind"] == "sample" for v in e["values"]} == {int}
