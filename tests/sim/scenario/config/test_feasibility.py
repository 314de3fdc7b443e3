"""Scenarios that their world cannot fulfil are refused before the run; and the property functions of a simulation."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from staging import Tally, staged
from tiny_roles import Ring

import recorder.commands.main
import replayer.commands.main
from recorder.scenarios import run_with_scenario
from replayer.playback.make_simulation import Factory
from replayer.timeline.verify import verify_tape
from sim import ConfigError
from sim.kernel.plain_data import encode_plain
from sim.scenario.config.keys import key_of
from sim.scenario.config.scenario import Property, read_scenario_config
from sim.scenario.middleware.monitors import Look, Monitors
from sim.scenario.scenario_file import load_scenario

from oracle.command_lines import TINY, assert_one_line, run

GOOD = (
    TINY
    + """
[scenario]
steps = 6
[[scenario.adversaries]]
id = "thief"
kind = "withholding"
budget = { total = 1 }
trigger = { at_tick = 2 }
[[scenario.properties]]
name = "early"
kind = "always"
when = "tick < 99"
"""
)
ON_TAPE = "expected text, true or false, a number of 64 bits, a list or a table, got"
TOML = [
    ("steps = 6", "extensions = { a = 2020-01-01 }", f"scenario.extensions.a: {ON_TAPE} 2020-01-01"),
    ("steps = 6", "extensions = { a = [1, { b = 07:30:00 }] }", f"scenario.extensions.a[1].b: {ON_TAPE} 07:30:00"),
    ("steps = 6", f"extensions = {{ a = {1 << 80} }}", f"scenario.extensions.a: {ON_TAPE} {1 << 80}"),
    (
        "steps = 6",
        f"extensions = {{ a = 0x{'f' * 5000} }}",
        f"scenario.extensions.a: {ON_TAPE} a value too large to show",
    ),
    ("steps = 6", "extensions = 3", "scenario.extensions: expected a table, got 3"),
    ("steps = 6", "idle = 2020-01-01T00:00:00Z", f"scenario.idle: {ON_TAPE} 2020-01-01 00:00:00+00:00"),
    ("steps = 6", f"idle = {-(1 << 80)}", f"scenario.idle: {ON_TAPE} {-(1 << 80)}"),
    (
        "steps = 6",
        "steps = 2020-01-01",
        "scenario.steps: expected an integer from 1 to 1099511627775, got 2020",
    ),
    ("steps = 6", f"steps = 0x{'f' * 5000}", "got a value too large to show"),
    ("steps = 6", f"steps = {'9' * 5000}", "bad.toml is not valid TOML: "),
    ("steps = 6", f"idle = {'[' * 5000}", "bad.toml is not valid TOML: "),
    ("steps = 6", 'inputs = "by_role"', 'scenario.inputs: expected "list", since this world takes a list, got'),
    ("steps = 6", 'inputs = "one"', 'scenario.inputs: expected "list", since this world takes a list, got "one"'),
    (
        "at_tick = 2",
        "immediate = false",
        "scenario.adversaries[0].trigger.immediate: a trigger that is not immediate needs one of at_tick, after_step",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "received", role = "snail" }',
        "scenario.adversaries[0].trigger.on_event.role: the world receives what roles send: leave this key out, got 'snail'",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "halted" }',
        "scenario.adversaries[0].trigger.on_event.kind: expected sent or received, since the world emits no events; got 'halted'",
    ),
    (
        'id = "thief"',
        'id = "thief"\nlabels = ["split", "stear"]',
        "scenario.adversaries[0].labels[1]: no message has the label 'stear'; labels: plant, release, wind, ",
    ),
    (
        'kind = "always"\nwhen = "tick < 99"',
        'kind = "send_recv_liveness"\nbound = 3\nsession = 77',
        "scenario.properties[0].session: expected 0, the only session, got 77",
    ),
]


@pytest.mark.parametrize(("old", "new", "text"), TOML)
def test_a_mistake_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, text: str
) -> None:
    """A mistake gets one line, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert GOOD.count(old) == 1
    Path("bad.toml").write_text(GOOD.replace(old, new))
    assert run(recorder.commands.main.main, "run bad.toml") == 2
    assert_one_line(capsys.readouterr(), text)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def refused(plain: dict[str, Any], world: Any = None) -> str:
    """The error of a scenario around a world; empty if it is accepted."""
    try:
        staged(plain, world)
    except ConfigError as error:
        return str(error)
    return ""


def swarm() -> Any:
    """A choreography that ships with the world."""
    loaded = load_scenario("two-phase-vote")
    return loaded.world.make(loaded.config)


def withholding(**more: Any) -> dict[str, Any]:
    """A scenario with one adversary."""
    return {"adversaries": [{"id": "x", "kind": "withholding", "budget": {"total": 1}, **more}]}


def test_existing_labels_sessions_and_events_are_accepted() -> None:
    """Unknown ones are refused; a world that does not declare them is not checked."""
    world = swarm()
    assert world.labels
    for label in world.labels:
        assert refused(withholding(labels=[label]), swarm()) == ""
    error = refused(withholding(labels=["nonsense"]), swarm())
    labels = ", ".join(world.labels)
    assert error == f"adversaries[0].labels[0]: no message has the label 'nonsense'; labels: {labels}"
    bound = {"name": "p", "kind": "buffer_bound", "max": 1, "session": world.sessions}
    assert refused({"properties": [bound | {"session": world.sessions - 1}]}, swarm()) == ""
    assert "properties[0].session: " in refused({"properties": [bound]}, swarm())
    assert refused(withholding(labels=["nonsense"])) == ""
    assert refused({"properties": [bound | {"session": 77}]}, Ring()) == ""

    pattern = {"kind": "received", "role": "world"}
    assert refused({"roles": ["p"]} | withholding(trigger={"on_event": pattern}), Tally()) == ""
    assert refused(withholding(trigger={"on_event": pattern})).endswith(
        "on_event.role: world is not a role; roles: a, b"
    )
    assert "the world emits no events" in refused(withholding(trigger={"on_event": {"kind": "opened"}}), Tally())
    of_b = {"roles": ["a"]} | withholding(trigger={"on_event": {"kind": "sent", "role": "b"}})
    assert refused(of_b) == ""  # The ring emits events for messages of b, even if the scenario has no role b.


def test_labels_of_a_choreography_cover_its_messages() -> None:
    """Every label in the events of a shipped scenario is among the declared labels."""
    for name in ("two-phase-vote", "ring-election"):
        try:
            loaded = load_scenario(name)
        except FileNotFoundError:
            continue
        world, seen = loaded.world.make(loaded.config), set()
        for _ in range(50):
            world.step(None)
            seen |= {event["label"] for event in world.events() if "label" in event}
        assert seen
        assert seen <= set(world.labels)


def test_names_with_equal_keys_of_random_draws() -> None:
    """Two such names are refused within one kind of part that makes random draws, and nowhere else."""
    assert key_of("plumless") == key_of("buckeroo")
    parts = [{"id": name, "kind": "withholding", "budget": {"total": 1}} for name in ("plumless", "x", "buckeroo")]
    with pytest.raises(
        ConfigError, match=r"adversaries\[2\].id: buckeroo and plumless would make the same random draws"
    ):
        read_scenario_config({"adversaries": parts})
    changes = [{"id": p["id"], "kind": "federation", "groups": []} for p in parts]
    with pytest.raises(ConfigError, match=r"reconfigurations\[2\].id: "):
        read_scenario_config({"reconfigurations": changes})
    assert read_scenario_config({"adversaries": parts[:2], "reconfigurations": changes[1:]})
    same = [{"name": p["id"], "kind": "no_faults"} for p in parts]
    assert read_scenario_config({"properties": same})


@pytest.mark.seldom(0.18)
def test_plain_data_of_a_program() -> None:
    """Plain data that a tape can hold is accepted, even if TOML cannot hold it; anything else is refused."""
    assert read_scenario_config({"extensions": {"a": [1, 2.5, None, b"x", (1 << 64) - 1]}, "idle": {"b": True}})
    deep: list[Any] = []
    for _ in range(1200):
        deep = [deep]
    for wrong in (deep, date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), {1, 2}, 1 << 64, object()):
        with pytest.raises(ConfigError, match=r"^extensions.a\[0\][\[0\]]*: "):
            read_scenario_config({"extensions": {"a": [wrong]}})


# --- the property functions of a simulation


def check_far(look: Look) -> str | None:
    """Report every tick after 6."""
    return "too far" if look.tick > 6 else None


class TallyWithProperties(Tally):
    properties = {"far": check_far, 3: "nothing"}  # noqa: RUF012 - as a user would write it.


FAR: dict[str, Any] = {"name": "far", "properties": [{"name": "far", "kind": "function"}]}


def with_properties() -> Tally:
    """A class without functions, which are added to the instance."""
    simulation = Tally()
    simulation.properties = {"far": check_far}  # type: ignore[attr-defined]
    return simulation


def test_a_simulation_has_its_functions(tmp_path: Path) -> None:
    """They are found wherever the simulation is made; a function argument takes precedence."""
    result = run_with_scenario(TallyWithProperties(), FAR, steps=10, tape=tmp_path / "a.tape")
    assert [(violation.name, violation.tick) for violation in result.violations] == [("far", 7)]
    from_argument = run_with_scenario(Tally(), FAR, steps=10, tape=tmp_path / "b.tape", functions={"far": check_far})
    assert from_argument.violations == result.violations
    assert run_with_scenario(TallyWithProperties(), FAR, steps=10, functions={"far": lambda _: None}).violations == ()
    factories: list[Factory] = [TallyWithProperties, with_properties]
    for name in ("a.tape", "b.tape"):
        for factory in factories:
            assert verify_tape(tmp_path / name, factory).ok


def test_the_message_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message for a missing function names the fix, and the fix works."""
    monkeypatch.chdir(tmp_path)
    run_with_scenario(Tally(), FAR, steps=10, tape=Path("f.tape"), functions={"far": check_far})
    (tmp_path / "brings.py").write_text(
        "from staging import Tally\n"
        "def bare():\n    return Tally()\n"
        "def made():\n    tally = Tally()\n    tally.properties = {'far': lambda look: 'too far' if look.tick > 6 else None}\n"
        "    return tally\n"
    )
    for command in ("verify f.tape --sim brings:bare", "seek f.tape --tick 8 --sim brings:bare"):
        assert run(replayer.commands.main.main, command) == 2
        line = "the function of property far is missing: give the simulation the member properties = {'far': function}"
        assert_one_line(capsys.readouterr(), line)
    assert run(replayer.commands.main.main, "verify f.tape --sim brings:made") == 0
    assert run(replayer.commands.main.main, "seek f.tape --tick 8 --sim brings:made") == 0


# --- the memory of send_recv_liveness


def expected_late(rounds: list[tuple[int, int]], bound: int) -> tuple[int, str] | None:
    """The first round with fewer messages received than sent bound rounds ago, computed from all counts at once."""
    for tick in range(1, len(rounds) + 1):
        sent = sum(sent for sent, _ in rounds[: max(0, tick - bound)])
        received = sum(received for _, received in rounds[:tick])
        if received < sent:
            totals = [sum(sent for sent, _ in rounds[:t]) for t in range(1, tick - bound + 1)]
            first = next(total for total in totals if total > received)
            return tick, f"{first} messages were sent {bound} ticks ago or before, {received} were received"
    return None


def reports(rounds: list[tuple[int, int]], bound: int) -> tuple[list[tuple[int, str]], int]:
    """The reports of the monitor, and the largest size of its state in bytes."""
    monitors = Monitors((Property("p", "send_recv_liveness", bound=bound),), {})
    reported, bytes_max = [], 0
    for tick, (sent, received) in enumerate(rounds, 1):
        round_events = [{"kind": "sent"}] * sent + [{"kind": "received", "message": 1}] * received
        events: list[dict[str, Any]] = []
        monitors.end_round(Look(tick, {}, {}, round_events, {}, {}, None), events)
        reported += [(tick, event["details"]) for event in events]
        bytes_max = max(bytes_max, len(encode_plain(monitors.plain)))
    return reported, bytes_max


def test_liveness_against_all_counts() -> None:
    """In random rounds, the monitor reports the tick and the numbers that all counts give."""
    reported = 0
    for case in range(300):
        chance = random.Random(case)
        waiting, rounds = 0, []
        for _ in range(40):
            sent = chance.choice((0, 1, 1, 1, 2))
            waiting += sent
            received = min(waiting, chance.choice((0, 1, 1, 2, 3)))
            waiting -= received
            rounds.append((sent, received))
        bound = chance.randint(1, 8)
        late = expected_late(rounds, bound)
        assert reports(rounds, bound)[0] == ([] if late is None else [late])
        reported += late is not None
    assert 50 < reported < 290


def test_liveness_remembers_little() -> None:
    """A steady stream takes constant space, however many messages are lost and however long the bound is."""
    lossy = [(1, int(tick % 3 > 0)) for tick in range(2000)]
    assert reports(lossy, 10**6)[0] == []
    assert reports(lossy[:100], 10**6)[1] + 20 > reports(lossy, 10**6)[1] < 100
