"""absent = "left_out": a role that takes no part is told from one that sends nothing, and from one whose message is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from staging import Tally, given_to, staged
from tiny_roles import Ring

from recorder.scenarios import run_with_scenario
from replayer.tape.tape import Tape
from replayer.timeline.scenario_results import scenario_result
from replayer.timeline.verify import verify_tape
from sim.kernel.registry import ConfigError

ROLES = {"roles": ["p", "q", "r"], "inputs": "by_role", "idle": 0}
LEFT_OUT = ROLES | {"absent": "left_out"}
THIEF = {"id": "x", "kind": "withholding", "senders": ["q"], "budget": {"total": 99}}


class Players(Tally):
    """A world with three players."""

    roles = ("p", "q", "r")


def test_absent_roles_are_told_apart_from_idle_ones() -> None:
    """p acts, q is idle, r is absent; then q's message is withheld; by default all three look alike."""
    inputs = [{"p": 5, "q": 0}, {"p": 5, "q": 7}, {"r": 1}, {}, None]
    plain = LEFT_OUT | {"adversaries": [THIEF]}

    assert given_to(plain, inputs) == [{"p": 5, "q": 0}, {"p": 5, "q": 0}, {"r": 1}, {}, {}]
    assert given_to(ROLES | {"adversaries": [THIEF]}, inputs) == [
        {"p": 5, "q": 0, "r": 0}, {"p": 5, "q": 0, "r": 0}, {"p": 0, "q": 0, "r": 1}, *[{"p": 0, "q": 0, "r": 0}] * 2,
    ]  # fmt: skip


def test_each_round_names_the_absent_roles() -> None:
    """An idle role sends no message; one whose message is withheld has sent it."""
    simulation = staged(LEFT_OUT | {"adversaries": [THIEF]}, Tally())
    seen = []
    for inputs in ({"p": 5, "q": 0}, {"q": 7}):
        simulation.step(inputs)
        kinds = ("absent", "sent", "withheld")
        seen.append([(event["kind"], event["role"]) for event in simulation.events() if event["kind"] in kinds])

    assert seen == [
        [("absent", "r"), ("sent", "p")],
        [("absent", "p"), ("absent", "r"), ("sent", "q"), ("withheld", "q")],
    ]


def test_a_late_message_arrives_without_its_role() -> None:
    """The role is absent by then, and has an entry all the same."""
    late = {"adversaries": [{"id": "x", "kind": "timing_disturbance", "ticks": 1, "budget": {"total": 1}}]}
    assert given_to(LEFT_OUT | late, [{"p": 5}, {"q": 3}]) == [{"p": 0}, {"p": 5, "q": 3}]


def test_the_result_counts_the_rounds_of_each_role(tmp_path: Path) -> None:
    """So does that of the tape, which verifies."""
    rounds: list[dict[str, Any]] = [{"p": 5, "q": 0}, {"p": 5, "q": 7}, {"p": 1, "q": 0}, {"p": 0}]
    path = tmp_path / "run.tape"

    result = run_with_scenario(
        Players(), LEFT_OUT | {"name": "left"}, inputs=lambda tick, _: rounds[tick - 1], steps=5, tape=path
    )

    assert result.presence == {
        "p": {"absent": 0, "idle": 1, "active": 3},
        "q": {"absent": 1, "idle": 2, "active": 1},
        "r": {"absent": 4, "idle": 0, "active": 0},
    }
    assert verify_tape(path, Players).ok
    with Tape(path) as tape:
        assert scenario_result(tape, Players).presence == result.presence
    plain = run_with_scenario(Players(), ROLES | {"name": "all"}, inputs=lambda tick, _: rounds[tick - 1], steps=5)
    assert plain.presence == {}


def test_a_role_that_is_idle_in_every_round_is_counted() -> None:
    """It never sends anything, and was missing."""
    result = run_with_scenario(Players(), LEFT_OUT | {"name": "left"}, inputs=lambda *_: {"p": 5, "q": 0}, steps=4)

    assert result.presence == {
        "p": {"absent": 0, "idle": 0, "active": 3},
        "q": {"absent": 0, "idle": 3, "active": 0},
        "r": {"absent": 3, "idle": 0, "active": 0},
    }


@pytest.mark.parametrize(
    ("plain", "world", "problem"),
    [
        ({"absent": "left_out"}, Tally(), 'expected inputs = "by_role" with "left_out", got "one"'),
        (LEFT_OUT | {"inputs": "list"}, Tally(), 'expected inputs = "by_role" with "left_out", got "list"'),
        ({"absent": "left_out"}, Ring("abc"), 'expected "idle", since the roles send messages of their own'),
        (ROLES | {"absent": "gone"}, Tally(), "gone"),
    ],
)
def test_what_can_never_act_is_refused(plain: dict[str, Any], world: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        staged(plain, world)
    assert "absent" in str(caught.value)
