"""What can never happen, or cannot be on a tape, is refused before the run; functions that a simulation brings along."""

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
ON_TAPE = "text, true or false, a number of 64 bits, a list or a table was expected, found"
TOML = [
    ("steps = 6", "extensions = { a = 2020-01-01 }", f"scenario.extensions.a: {ON_TAPE} 2020-01-01"),
    ("steps = 6", "extensions = { a = [1, { b = 07:30:00 }] }", f"scenario.extensions.a[1].b: {ON_TAPE} 07:30:00"),
    ("steps = 6", f"extensions = {{ a = {1 << 80} }}", f"scenario.extensions.a: {ON_TAPE} {1 << 80}"),
    ("steps = 6", f"extensions = {{ a = 0x{'f' * 5000} }}", f"scenario.extensions.a: {ON_TAPE} more than can be shown"),
    ("steps = 6", "extensions = 3", "scenario.extensions: a table was expected, found 3"),
    ("steps = 6", "idle = 2020-01-01T00:00:00Z", f"scenario.idle: {ON_TAPE} 2020-01-01 00:00:00+00:00"),
    ("steps = 6", f"idle = {-(1 << 80)}", f"scenario.idle: {ON_TAPE} {-(1 << 80)}"),
    (
        "steps = 6",
        "steps = 2020-01-01",
        "scenario.steps: a whole number from 1 to 1099511627775 was expected, found 2020",
    ),
    ("steps = 6", f"steps = 0x{'f' * 5000}", "expected, found more than can be shown"),
    ("steps = 6", f"steps = {'9' * 5000}", "bad.toml is no TOML: "),
    ("steps = 6", f"idle = {'[' * 5000}", "bad.toml is no TOML: "),
    ("steps = 6", 'inputs = "by_role"', 'scenario.inputs: "list" was expected, since this world takes a list; found'),
    ("steps = 6", 'inputs = "one"', 'scenario.inputs: "list" was expected, since this world takes a list; found "one"'),
    (
        "at_tick = 2",
        "immediate = false",
        "scenario.adversaries[0].trigger.immediate: a trigger that is not immediate has one of at_tick, after_step",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "received", role = "snail" }',
        "scenario.adversaries[0].trigger.on_event.role: what roles send is received by the world: leave it out, found 'snail'",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "halted" }',
        "scenario.adversaries[0].trigger.on_event.kind: the world tells no events; sent and received are all that there is",
    ),
    (
        'id = "thief"',
        'id = "thief"\nlabels = ["split", "stear"]',
        "scenario.adversaries[0].labels[1]: no message has this label; labels: plant, release, wind, ",
    ),
    (
        'kind = "always"\nwhen = "tick < 99"',
        'kind = "send_recv_liveness"\nbound = 3\nsession = 77',
        "scenario.properties[0].session: there is one session, 0; found 77",
    ),
]


@pytest.mark.parametrize(("old", "new", "text"), TOML)
def test_a_mistake_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, text: str
) -> None:
    """And nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert GOOD.count(old) == 1
    Path("bad.toml").write_text(GOOD.replace(old, new))
    assert run(recorder.commands.main.main, "run bad.toml") == 2
    assert_one_line(capsys.readouterr(), text)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def refused(plain: dict[str, Any], world: Any = None) -> str:
    """Why the scenario is; empty if it is not."""
    try:
        staged(plain, world)
    except ConfigError as error:
        return str(error)
    return ""


def swarm() -> Any:
    """A choreography that ships."""
    loaded = load_scenario("two-phase-vote")
    return loaded.world.make(loaded.config)


def withholding(**more: Any) -> dict[str, Any]:
    """A scenario with one adversary."""
    return {"adversaries": [{"id": "x", "kind": "withholding", "budget": {"total": 1}, **more}]}


def test_what_the_world_has_is_taken() -> None:
    """Labels, sessions and events that there are; a world that says nothing about them is believed."""
    world = swarm()
    assert world.labels
    for label in world.labels:
        assert refused(withholding(labels=[label]), swarm()) == ""
    found = refused(withholding(labels=["nonsense"]), swarm())
    assert (
        found
        == f"adversaries[0].labels[0]: no message has this label; labels: {', '.join(world.labels)}; found 'nonsense'"
    )
    bound = {"name": "p", "kind": "buffer_bound", "max": 1, "session": world.sessions}
    assert refused({"properties": [bound | {"session": world.sessions - 1}]}, swarm()) == ""
    assert "properties[0].session: " in refused({"properties": [bound]}, swarm())
    assert refused(withholding(labels=["nonsense"])) == ""
    assert refused({"properties": [bound | {"session": 77}]}, Ring()) == ""

    heard = {"kind": "received", "role": "world"}
    assert refused({"roles": ["p"]} | withholding(trigger={"on_event": heard}), Tally()) == ""
    assert refused(withholding(trigger={"on_event": heard})).endswith("on_event.role: world is no role; roles: a, b")
    assert "the world tells no events" in refused(withholding(trigger={"on_event": {"kind": "opened"}}), Tally())
    other = {"roles": ["a"]} | withholding(trigger={"on_event": {"kind": "sent", "role": "b"}})
    assert refused(other) == ""  # The ring tells of what b sends, whoever looks at it.


def test_what_messages_of_a_choreography_carry_is_among_its_labels() -> None:
    """Of every scenario that ships."""
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


def test_names_with_the_same_draws() -> None:
    """Are refused where they would be of parts that draw alike, and nowhere else."""
    assert key_of("plumless") == key_of("buckeroo")
    parts = [{"id": name, "kind": "withholding", "budget": {"total": 1}} for name in ("plumless", "x", "buckeroo")]
    with pytest.raises(
        ConfigError, match=r"adversaries\[2\].id: the random draws of buckeroo would be those of plumless"
    ):
        read_scenario_config({"adversaries": parts})
    changes = [{"id": p["id"], "kind": "federation", "groups": []} for p in parts]
    with pytest.raises(ConfigError, match=r"reconfigurations\[2\].id: "):
        read_scenario_config({"reconfigurations": changes})
    assert read_scenario_config({"adversaries": parts[:2], "reconfigurations": changes[1:]})
    same = [{"name": p["id"], "kind": "no_faults"} for p in parts]
    assert read_scenario_config({"properties": same})


def test_plain_data_of_a_program() -> None:
    """As in a file; and what has no place in one but on a tape."""
    assert read_scenario_config({"extensions": {"a": [1, 2.5, None, b"x", (1 << 64) - 1]}, "idle": {"b": True}})
    deep: list[Any] = []
    for _ in range(1200):
        deep = [deep]
    for wrong in (deep, date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), {1, 2}, 1 << 64, object()):
        with pytest.raises(ConfigError, match=r"^extensions.a\[0\][\[0\]]*: "):
            read_scenario_config({"extensions": {"a": [wrong]}})


# --- functions of the simulation's own


def look_far(seen: Look) -> str | None:
    """Says when."""
    return "too far" if seen.tick > 6 else None


class Bringing(Tally):
    properties = {"far": look_far, 3: "nothing"}  # noqa: RUF012 - as a user would write it.


FAR: dict[str, Any] = {"name": "far", "properties": [{"name": "far", "kind": "function"}]}


def made_with() -> Tally:
    """Somebody else's class, with functions put on."""
    simulation = Tally()
    simulation.properties = {"far": look_far}  # type: ignore[attr-defined]
    return simulation


def test_a_simulation_brings_its_functions(tmp_path: Path) -> None:
    """They are found wherever it is made; one that is given besides counts before."""
    found = run_with_scenario(Bringing(), FAR, steps=10, tape=tmp_path / "a.tape")
    assert [(one.name, one.tick) for one in found.violations] == [("far", 7)]
    given = run_with_scenario(Tally(), FAR, steps=10, tape=tmp_path / "b.tape", functions={"far": look_far})
    assert given.violations == found.violations
    assert run_with_scenario(Bringing(), FAR, steps=10, functions={"far": lambda _: None}).violations == ()
    factories: list[Factory] = [Bringing, made_with]
    for name in ("a.tape", "b.tape"):
        for factory in factories:
            assert verify_tape(tmp_path / name, factory).ok


def test_the_message_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the command that it leads to does it."""
    monkeypatch.chdir(tmp_path)
    run_with_scenario(Tally(), FAR, steps=10, tape=Path("f.tape"), functions={"far": look_far})
    (tmp_path / "brings.py").write_text(
        "from staging import Tally\n"
        "def bare():\n    return Tally()\n"
        "def made():\n    tally = Tally()\n    tally.properties = {'far': lambda seen: 'too far' if seen.tick > 6 else None}\n"
        "    return tally\n"
    )
    for command in ("verify f.tape --sim brings:bare", "seek f.tape --tick 8 --sim brings:bare"):
        assert run(replayer.commands.main.main, command) == 2
        line = "the property far is a function of yours, which was not given: let the simulation have properties = {'far': function}"
        assert_one_line(capsys.readouterr(), line)
    assert run(replayer.commands.main.main, "verify f.tape --sim brings:made") == 0
    assert run(replayer.commands.main.main, "seek f.tape --tick 8 --sim brings:made") == 0


# --- what send_recv_liveness remembers


def expected_late(rounds: list[tuple[int, int]], bound: int) -> tuple[int, str] | None:
    """The first round in which less was received than had been sent bound rounds ago, from all counts at once."""
    for tick in range(1, len(rounds) + 1):
        sent = sum(one[0] for one in rounds[: max(0, tick - bound)])
        received = sum(one[1] for one in rounds[:tick])
        if received < sent:
            known = [sum(one[0] for one in rounds[:t]) for t in range(1, tick - bound + 1)]
            first = next(count for count in known if count > received)
            return tick, f"{first} messages were sent {bound} ticks ago or before, {received} were received"
    return None


def reports(rounds: list[tuple[int, int]], bound: int) -> tuple[list[tuple[int, str]], int]:
    """What the monitor says, and the most bytes that it has remembered."""
    monitors = Monitors((Property("p", "send_recv_liveness", bound=bound),), {})
    found, most = [], 0
    for tick, (sent, received) in enumerate(rounds, 1):
        told = [{"kind": "sent"}] * sent + [{"kind": "received", "message": 1}] * received
        events: list[dict[str, Any]] = []
        monitors.end_round(Look(tick, {}, {}, told, {}, {}, None), events)
        found += [(tick, event["details"]) for event in events]
        most = max(most, len(encode_plain(monitors.plain)))
    return found, most


def test_liveness_against_all_counts() -> None:
    """Random rounds: reported at the same tick, with the same numbers."""
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
    """However many messages were lost, and however long ago the bound lies: what is sent evenly takes no more room."""
    lossy = [(1, int(tick % 3 > 0)) for tick in range(2000)]
    assert reports(lossy, 10**6)[0] == []
    assert reports(lossy[:100], 10**6)[1] + 20 > reports(lossy, 10**6)[1] < 100
