"""The optional members of a simulation: each has a Protocol and a row in the docs, and is looked up by hook alone."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder import Recorder
from replayer import Tape
from sim import Field, Schema, State
from sim.kernel import hooks
from sim.kernel.hooks import (
    RECORDING_HOOKS,
    SCENARIO_HOOKS,
    AfterRestore,
    CanEnd,
    EmitsEvents,
    HasOrigin,
    HasTelemetry,
    MarksWrites,
    ensure_hooks,
    hook,
    marks_its_writes,
    member_name,
)
from sim.kernel.simulation import as_simulation
from sim.scenario.scenario_simulation import ScenarioSimulation
from sim.scenario.wrap import wrap_scenario

ROOT = Path(__file__).parents[3]
KINDS = (*RECORDING_HOOKS, *SCENARIO_HOOKS)
MEMBERS = {member_name(kind) for kind in KINDS}


def hook_table(kinds: tuple[Any, ...]) -> list[str]:
    """Return the rows of a table in docs/record.md: member, Protocol, meaning."""
    rows = ["| member | `sim.kernel.hooks` | meaning |", "|---|---|---|"]
    for kind in kinds:
        name = member_name(kind)
        if name in vars(kind):  # A method; an attribute stands in the annotations alone.
            name += f"({', '.join(list(inspect.signature(vars(kind)[name]).parameters)[1:])})"
        meaning = " ".join(inspect.cleandoc(kind.__doc__ or "").split())
        rows.append(f"| `{name}` | `{kind.__name__}` | {meaning} |")
    return rows


class Counter:
    """Counts; without optional members."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("count", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - there are none
        self.state["count"][...] += 1


class Saving:
    """Counts elsewhere, and can be saved."""

    origin = "elsewhere"
    count = 0

    def save(self) -> bytes:
        return bytes([self.count])

    def load(self, saved: Any) -> None:
        self.count = saved[0]

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - there are none
        self.count += 1


def with_member(name: str, value: Any) -> Counter:
    counter = Counter()
    setattr(counter, name, value)
    return counter


def test_each_protocol_is_listed_once_and_has_a_member_of_its_own() -> None:
    protocols = {
        one for one in vars(hooks).values() if getattr(one, "_is_protocol", False) and one.__module__ == hooks.__name__
    }
    assert protocols == set(KINDS)
    assert len(MEMBERS) == len(KINDS)


@pytest.mark.seldom(0.15)
def test_members_are_looked_up_by_hook_alone() -> None:
    """No file of the source looks a member up by its name."""
    asked = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Name("getattr" | "hasattr"), [_, ast.Constant(str(name)), *_]) if name in MEMBERS:
                    asked.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert asked == []


def test_the_docs_list_each_member_as_its_protocol_describes_it() -> None:
    text = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
    section = re.search(r"^## Optional members$.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    rows = [line for line in section[0].splitlines() if line.startswith("|")]
    expected = [*hook_table(RECORDING_HOOKS), *hook_table(SCENARIO_HOOKS)]
    assert rows == expected, "the tables should be:\n" + "\n".join(expected)


def test_hook_gives_none_for_a_member_that_is_missing_or_none_or_not_callable() -> None:
    assert hook(Counter(), HasTelemetry) is None
    assert hook(with_member("telemetry", None), HasTelemetry) is None
    assert hook(with_member("events", [1]), EmitsEvents) is None
    counter = with_member("telemetry", lambda: {"count": 1})
    assert hook(counter, HasTelemetry) is counter


def test_hook_finds_a_member_that_is_false() -> None:
    counter = with_member("marks_writes", False)
    assert hook(counter, MarksWrites) is counter
    assert not marks_its_writes(counter)
    assert not marks_its_writes(Counter())
    assert marks_its_writes(with_member("marks_writes", True))


BAD: list[tuple[str, Any, str]] = [
    ("telemetry", {"count": 1}, r"Counter\.telemetry: expected a method, called as telemetry\(\), got dict"),
    (
        "telemetry",
        lambda tick: {"count": tick},
        r"Counter\.telemetry: .* called as telemetry\(\), got telemetry\(tick\)",
    ),
    ("ended", True, r"Counter\.ended: expected a method, called as ended\(\), got bool"),
    ("after_restore", lambda state: state, r"Counter\.after_restore: .* called as after_restore\(\), got"),
    ("events", lambda since: [since], r"Counter\.events: .* called as events\(\), got events\(since\)"),
]


@pytest.mark.parametrize(("name", "value", "text"), BAD)
def test_a_recording_refuses_a_member_that_cannot_be_called(tmp_path: Path, name: str, value: Any, text: str) -> None:
    """The recording refuses it at the start and makes no file."""
    with pytest.raises(TypeError, match=text):
        Recorder(tmp_path / "run.tape", with_member(name, value))
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_recording_refuses_it_before_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    with Recorder(path, Counter()) as tape:
        tape.step()
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"Counter\.ended: expected a method"):
        recorder.resume(path, with_member("ended", "never"))
    assert path.read_bytes() == before
    recorder.resume(path, Counter()).close()


def test_members_of_a_simulation_that_saves_are_checked(tmp_path: Path) -> None:
    saving = Saving()
    saving.events = lambda since: [since]  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"Saving\.events: expected a method that can be called as events\(\)"):
        Recorder(tmp_path / "run.tape", saving)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("events", []),
        ("events", lambda since=0: [{"kind": "since", "tick_of": since}]),
        ("telemetry", lambda *names: dict.fromkeys(names, 1)),
        ("sample", 3.5),
        ("progress", 0.5),
    ],
)
def test_what_can_be_called_or_is_the_simulations_own_is_recorded(tmp_path: Path, name: str, value: Any) -> None:
    with Recorder(tmp_path / "run.tape", with_member(name, value)) as tape:
        tape.step()
    with Tape(tmp_path / "run.tape") as found:
        assert found.last_tick == 1


def test_a_method_without_a_known_signature_is_accepted() -> None:
    """Some methods of extension modules have none; only the call shows if the parameters fit."""
    method: Any = type
    with pytest.raises(ValueError, match="no signature found"):
        inspect.signature(method)
    ensure_hooks(with_member("ended", method))


def test_a_scenario_refuses_members_that_it_could_not_call() -> None:
    with pytest.raises(TypeError, match=r"Counter\.sample: expected a method, called as sample\(role\), got float"):
        wrap_scenario(with_member("sample", 3.5), {"name": "tiny"})
    with pytest.raises(TypeError, match=r"Counter\.accepts: .* called as accepts\(item\), got accepts\(\)"):
        wrap_scenario(with_member("accepts", lambda: True), {"name": "tiny"})


def test_wrappers_pass_members_on() -> None:
    """The arena around a saved simulation has its origin; a scenario has exactly the members of its world."""
    saved = as_simulation(Saving())
    named = hook(saved, HasOrigin)
    assert named is not None
    assert named.origin == "elsewhere"
    assert hook(saved, AfterRestore) is saved

    bare = wrap_scenario(Counter(), {"name": "tiny"})
    assert isinstance(bare, ScenarioSimulation)
    assert (hook(bare, HasTelemetry), hook(bare, CanEnd)) == (None, None)
    world = with_member("telemetry", lambda: {"count": 7})
    world.ended = lambda: ("done", "it is done")  # type: ignore[attr-defined]
    staged = wrap_scenario(world, {"name": "tiny"})
    figures, ends = hook(staged, HasTelemetry), hook(staged, CanEnd)
    assert figures is not None
    assert ends is not None
    assert (figures.telemetry(), ends.ended()) == ({"count": 7}, ("done", "it is done"))


def test_members_are_looked_up_once_and_not_at_each_tick(tmp_path: Path) -> None:
    """In its ticks the recorder looks up no optional member that the simulation lacks."""
    asked: list[str] = []

    class Watched(Counter):
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise AttributeError(name)

    with Recorder(tmp_path / "run.tape", Watched(), changes="scan", keyframe_interval_ticks=1000) as tape:
        tape.step()
        assert MEMBERS & set(asked)
        asked.clear()
        for _ in range(20):
            tape.step()
        assert MEMBERS & set(asked) == set()
