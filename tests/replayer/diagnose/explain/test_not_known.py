"""replay explain where no line is the cause: what it tried is printed, and nothing is claimed that was not tested."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

import replayer.commands.main
from recorder import Recorder
from replayer import verify_tape
from replayer.desync import finding
from replayer.diagnose import explain_tape
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.outside import further_variants
from replayer.diagnose.explain.outside.further_variants import MEMORY, OTHER_SEEDS
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE
from replayer.diagnose.explain.values.given_values import GivenFunctions
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.diagnose.investigation import investigate as investigation
from replayer.diagnose.investigation.investigate import HIDDEN, investigate
from replayer.report.outside_lines import outside_cause_line, variants_heading, what_is_known
from replayer.tape.tape import Tape

from oracle.command_lines import assert_one_line, run
from project_paths import SOURCES

pytestmark = pytest.mark.share(0.18)

BAD_TICK = 15
MODULE = '''
import os
import sys
import time
import numpy as np
from sim import Field, Schema, State


class Plain:
    late = 1

    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (4,))))

    def step(self, inputs):
        self.state["x"][:] += self.late if self.state["x"][0] == 14 else 1


class PlainEdit(Plain):
    late = 2


class Dated(Plain):
    def step(self, inputs):
        self.state["x"][:] += 1
        if self.state["x"][0] == 15:
            self.state["x"][1] += int(time.time()) // 50_000


class Decaying:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "f4", (200,))))
        self.state["x"][:] = np.arange(200) / np.float32(7)

    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            self.state["x"][:] = np.exp(self.state["x"] * np.float32(-0.37))  # Decaying


class Dirty(Plain):
    def step(self, inputs):
        self.state["x"][:] += 1
        if self.state["x"][0] == 15:
            table = np.empty(4000)  # Dirty
            self.state["x"][1] += int(table[1700] > 1e100)


class Shelf(Plain):
    def step(self, inputs):
        self.state["x"][:] += 1
        if self.state["x"][0] == 15:
            self.state["x"][1] += hash("oak") % 16 == 12  # Shelf


class Many(Plain):
    def step(self, inputs):
        self.state["x"][:] += 1
        if self.state["x"][0] == 15:
            self.state["x"][1] += len(os.environ)


class Local:
    """Its methods fail in every process but that of the tests: no variant reaches a step."""

    late = 1

    def __init__(self):
        self.x = 0

    def step(self, inputs):
        if "pytest" not in sys.modules:
            raise ValueError("not here")
        self.x += self.late if self.x == 14 else 1

    def save(self):
        return {"x": self.x.to_bytes(8, "little")}

    def load(self, saved):
        if "pytest" not in sys.modules:
            raise ValueError("not here")
        self.x = int.from_bytes(saved["x"], "little")


class LocalEdit(Local):
    late = 2
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of simulations, in the present folder."""
    (tmp_path / "not_known.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    yield importlib.import_module("not_known")
    sys.modules.pop("not_known", None)


RECORD_AS_ELSEWHERE = """
import os, numpy
del os.environ["NPY_DISABLE_CPU_FEATURES"]
import recorder, not_known
with recorder.Recorder("run.tape", not_known.Decaying(), keyframe_interval_ticks=10, trial_ms=0) as tape:
    for _ in range(20):
        tape.step()
"""


def features() -> str:
    """The processor features that NumPy uses and can turn off."""
    core = getattr(np, "_core", None) or np.core
    known = core._multiarray_umath
    return " ".join(name for name in known.__cpu_dispatch__ if known.__cpu_features__.get(name))


def explained(capsys: Any, name: str) -> dict[str, Any]:
    """The facts that the command prints about the tape."""
    assert run(replayer.commands.main.main, f"explain run.tape --sim not_known:{name} --tick {BAD_TICK} --json") == 1
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def record(simulation: Any, path: str = "run.tape") -> None:
    """Record twenty ticks, with a keyframe every ten."""
    with Recorder(path, simulation, keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(20):
            tape.step()


@pytest.mark.seldom(0.5)
def test_without_a_variant_that_ran_none_is_said_to_agree(module: Any, capsys: Any) -> None:
    """What verify found is printed with the reason; of a tick alone nothing is known."""
    record(module.Local())
    assert run(replayer.commands.main.main, "explain run.tape --sim not_known:LocalEdit") == 1
    out = capsys.readouterr().out
    assert out.startswith("run.tape: tick 15: no variant reached the step")
    assert "gives the recorded state" not in out
    assert "at the next recorded keyframe, tick 20, these fields differ:\n    x: 1 row" in out
    assert "note: now: tick 14: load raised ValueError: not here" in out

    assert run(replayer.commands.main.main, f"explain run.tape --sim not_known:LocalEdit --tick {BAD_TICK}") == 2
    assert_one_line(capsys.readouterr(), "tick 15: no variant reached the step: ")


@pytest.mark.seldom(0.18)
def test_negative_results_of_check_and_certify_are_printed(module: Any, capsys: Any) -> None:
    """Another version of the code was recorded: neither an environment nor hidden state explains it."""
    record(module.Plain())
    facts = explained(capsys, "PlainEdit")
    assert facts["cause"] is None
    memory, environments, hidden = facts["tested"]
    assert memory["cause"] == MEMORY
    assert environments["suspicious"] is False
    count = sum(1 for side in facts["sides"] if {*side["environment"]} - {"PYTHONHASHSEED", "MALLOC_PERTURB_"})
    assert count >= 2
    assert environments["found"] == f"the step to tick 15 with {count} other settings: the same state as here"
    assert hidden["suspicious"] is None  # The runs of the search are those that give the present state, too.
    assert hidden["found"].startswith("20 ticks from the start, ")


@pytest.mark.seldom(0.18)
def test_what_check_finds_is_printed_as_a_finding(module: Any, monkeypatch: Any, capsys: Any) -> None:
    """A clock was read: all variants of today agree, and the test of the simulation moves the clock."""
    with monkeypatch.context() as patched:
        patched.setattr(module, "time", SimpleNamespace(time=lambda: 0.0))
        record(module.Dated())
    facts = explained(capsys, "Dated")
    assert facts["cause"] is None
    [hidden] = [one for one in facts["tested"] if one["suspicious"]]
    assert "tick 15: restored into a fresh instance" in hidden["found"]
    assert "suspects: time.time (clock): " in hidden["found"]
    assert "proved" in hidden["found"]


@pytest.mark.seldom(0.18)
def test_an_environment_that_gives_the_recorded_state_leads_to_the_line(module: Any, capsys: Any) -> None:
    """The tape was recorded as on a processor with fewer features, which it does not note."""
    if not features():
        pytest.skip("NumPy uses no feature here that can be turned off")
    path = os.pathsep.join([str(Path.cwd()), str(SOURCES)])
    variables = {**os.environ, "PYTHONPATH": path, "NPY_DISABLE_CPU_FEATURES": features()}
    subprocess.run([sys.executable, "-c", RECORD_AS_ELSEWHERE], env=variables, check=True)
    if verify_tape("run.tape", module.Decaying).ok:
        pytest.skip("this processor computes the same with and without its features")
    facts = explained(capsys, "Decaying")
    line = MODULE[: MODULE.index("  # Decaying")].count("\n") + 1
    assert (facts["cause"]["operation"], facts["cause"]["line"]) == ("np.exp", line)
    [side] = [side for side in facts["sides"] if side["compared_as"] == "A"]
    assert (side["as_recorded"], list(side["environment"])) == (True, ["NPY_DISABLE_CPU_FEATURES"])
    assert facts["tested"] == []


@pytest.mark.seldom(0.18)
def test_an_environment_that_cannot_be_run_is_noted(module: Any) -> None:
    """One of two that run side by side: the other one is tried, too."""
    record(module.Plain())
    broken, unused = Variant("broken", code="/nowhere"), Variant("unused", {"UNUSED": "1"})
    explanation = explain_tape(
        "run.tape",
        tick=BAD_TICK,
        sim="not_known:PlainEdit",
        factory=module.PlainEdit,
        last_variants=lambda: [broken, unused],
    )
    labels = {outcome.variant.label: outcome.step is not None for outcome in explanation.variants}
    assert (labels["broken"], labels["unused"]) == (False, True)
    assert any(
        note.startswith("broken: expected a module of the simulation in this folder") for note in explanation.notes
    )


@pytest.mark.seldom(0.18)
def test_a_difference_that_no_variant_shows_is_searched_for_hidden_state(module: Any) -> None:
    """Environments were not tried, and nothing is said of them. That the search finds none does not refute it."""
    record(module.Plain())
    explanation = investigate("run.tape", sim="not_known:Plain", factory=module.PlainEdit)
    assert (explanation.agrees, explanation.is_only_here) == (True, True)
    memory, seeds, hidden = explanation.tested
    assert [memory.cause, seeds.cause, seeds.suspicious] == [MEMORY, OTHER_SEEDS, False]
    assert (hidden.cause, hidden.suspicious) == (HIDDEN, None)


def line_of(name: str) -> int:
    """The number of the line that is marked with a name."""
    return MODULE[: MODULE.index(f"  # {name}")].count("\n") + 1


@pytest.mark.seldom(0.5)
def test_memory_that_is_read_before_it_is_written_is_named(module: Any) -> None:
    """Whether a run gets zeros there is chance; filled with a pattern, each gives what that pattern gives."""
    if not further_variants.fills_memory():
        pytest.skip("the C library does not fill memory")
    record(module.Dirty())
    for _ in range(4):
        explanation = explain_tape(
            "run.tape", tick=BAD_TICK, sim="not_known:Dirty", factory=module.Dirty, seen="a dump"
        )
        assert not explanation.agrees
        if explanation.memory_runs:
            break
        assert explanation.pair is not None  # By chance, two plain runs got other bytes there: no pattern was needed.
    assert explanation.memory_runs in (further_variants.RUNS, further_variants.UNSURE_RUNS)
    assert explanation.pair is not None
    assert explanation.is_recorded(explanation.pair[0])
    assert explanation.cause is not None
    assert (explanation.cause.operation, explanation.cause.place.line) == ("np.empty", line_of("Dirty"))
    assert "memory that the step reads before anything was written there" in (outside_cause_line(explanation) or "")


@pytest.mark.seldom(0.5)
def test_after_a_desync_that_verify_saw_more_seeds_are_tried(module: Any) -> None:
    """The first ones give the recorded state. It is told what was tried, and nothing of the seed of that process."""
    assert os.environ.get("PYTHONHASHSEED") is None
    run_apart("0")
    explanation = explain_tape("run.tape", tick=BAD_TICK, sim="not_known:Shelf", factory=module.Shelf, seen="a dump")
    assert explanation.variables is not None
    assert explanation.variables.values == {"PYTHONHASHSEED": ("0", "9")}
    assert explanation.seen == "a dump"
    assert [one.cause for one in explanation.tested] == [MEMORY]
    assert explanation.cause is not None
    assert explanation.cause.place.line == line_of("Shelf")


def run_apart(seed: str) -> None:
    """Record Shelf in a process with this hash seed, which the tape does not state."""
    program = (
        "import os, recorder, not_known; del os.environ['PYTHONHASHSEED']\n"
        "with recorder.Recorder('run.tape', not_known.Shelf(), keyframe_interval_ticks=10, trial_ms=0) as tape:\n"
        "    for _ in range(20): tape.step()"
    )
    paths = os.pathsep.join([str(Path.cwd()), str(SOURCES)])
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.seldom(0.5)
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_desync_that_is_not_repeated_is_told(
    module: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch, *, is_seen: bool
) -> None:
    """There is a dump of the tick, or there is none. Without one nothing is known to have differed."""
    monkeypatch.setattr(further_variants, "MORE_SEEDS", ("4",))
    record(module.Plain())
    if is_seen:
        with Tape("run.tape") as tape:
            facts = {"tape": "run.tape", "run_id": tape.run_id, "tick": BAD_TICK}
        Path("run.desync-15").mkdir()
        Path("run.desync-15", "finding.json").write_text(json.dumps(facts))
    command = f"explain run.tape --sim not_known:Plain --tick {BAD_TICK}"
    assert run(replayer.commands.main.main, command) == int(is_seen)
    out = capsys.readouterr().out
    assert out.startswith("run.tape: tick 15: every variant gives the recorded state")
    assert ("  it differed when replay verify ran (run.desync-15 of " in out) is is_seen
    assert ("and that was not repeated: the cause is not known" in out) is is_seen
    assert (f"    - {OTHER_SEEDS}: the step gives the recorded state with each of 4 other seeds" in out) is is_seen
    assert (f" {MEMORY}: " in out) is is_seen
    assert ("next: replay certify run.tape --sim not_known:Plain --factor hash-seed" in out) is is_seen


def test_a_pattern_that_gives_now_this_now_that_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two patterns give two states once, and not again; or the step gives one state with both."""
    monkeypatch.setattr(further_variants, "fills_memory", lambda: True)
    present = VariantOutcome(Variant("now"), stepped(7))
    explanation = Explanation(BAD_TICK, 7, [present], None, [], None, [], None, [], [])
    for script, runs, suspicious in (
        ([[7, 8], [7, 8], [7, 8]], 3, []),
        ([[7, 8], [7, 8], [8, 8]], 0, [None]),
        ([[8, 8]], 0, [False]),
    ):
        results = iter(script)
        found = further_variants.filled_memory(
            explanation,
            Variant("now"),
            lambda some, results=results: [  # type: ignore[misc]
                VariantOutcome(one, stepped(hash_)) for one, hash_ in zip(some, next(results), strict=True)
            ],
        )
        assert (found.memory_runs, [one.suspicious for one in found.tested]) == (runs, suspicious)
        assert (found.pair is not None) == (runs > 0)


@pytest.mark.parametrize(
    ("recorded", "zeros", "other", "gives"),
    [
        (7, 8, "wet", "the step does not raise, and with another pattern it does"),
        (7, "wet", 8, "the step raises, and with another pattern it does not"),
        (7, "wet", "dry", "the step raises one error, and with another pattern another one"),
        (7, 8, 9, "the step gives one state, and with another pattern another one"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_memory_is_the_cause_only_of_what_it_explains(
    monkeypatch: pytest.MonkeyPatch, recorded: int, zeros: int | str, other: int | str, gives: str, *, is_known: bool
) -> None:
    """The step reads fresh memory. Where neither pattern gives the recorded state, something else makes a difference."""
    monkeypatch.setattr(further_variants, "fills_memory", lambda: True)
    present = VariantOutcome(Variant("now"), stepped(recorded if is_known else 5))
    explanation = Explanation(BAD_TICK, recorded, [present], None, [], None, [], None, [], [])
    found = further_variants.filled_memory(
        explanation,
        Variant("now"),
        lambda some: [VariantOutcome(one, stepped(end)) for one, end in zip(some, (zeros, other), strict=True)],
    )
    text = further_variants.memory_text([present, *found.outcomes])
    assert text == f"where fresh memory is filled with zeros, {gives}"
    if is_known:
        assert found.pair is not None
        assert found.pair[0] is present
    else:
        assert (found.pair, found.memory_runs) == (None, 0)
        [tested] = found.tested
        assert tested.suspicious
        assert tested.found == f"{text} (in 3 of 3 processes each); neither is what was recorded"


def test_what_was_found_is_not_called_unknown_above_it() -> None:
    """A finding with ! may be the cause; the sentence above it refers to it."""
    nothing = Explanation(BAD_TICK, 1, [], None, [], None, [], None, [], [])
    of_tick = finding.TestedCause(HIDDEN, "tick 9: … proved", suspicious=True)
    found = attrs.evolve(nothing, tested=[of_tick])
    of_another = attrs.evolve(nothing, tested=[attrs.evolve(of_tick, is_of_tick=False)])

    assert what_is_known(nothing) == "the cause is not known: not tested are"
    assert what_is_known(found) == "what may be the cause is marked ! below; not tested are"
    told = "the cause is not known; what was found at another tick is marked ! below; not tested are"
    assert what_is_known(of_another) == told


def test_the_variants_of_a_step_that_tosses_coins_are_no_reason() -> None:
    """Where copies of one process give different states, a label such as PYTHONHASHSEED=2 explains nothing."""
    explanation = Explanation(BAD_TICK, 1, [], None, [], None, [], None, [], [])

    assert variants_heading(explanation) == "variants:"
    assert "by chance" in variants_heading(attrs.evolve(explanation, notes=[NOT_REPEATABLE]))


def test_of_two_patterns_the_one_that_gives_the_recorded_state_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The present variant gives another one."""
    monkeypatch.setattr(further_variants, "fills_memory", lambda: True)
    present = VariantOutcome(Variant("now"), stepped(8))
    explanation = Explanation(BAD_TICK, 7, [present], None, [], None, [], None, [], [])
    found = further_variants.filled_memory(
        explanation,
        Variant("now"),
        lambda some: [VariantOutcome(one, stepped(end)) for one, end in zip(some, (8, 7), strict=True)],
    )
    assert found.pair is not None
    assert [one.result for one in found.pair] == [(7, None), (8, None)]


def test_the_seed_of_the_present_variant_is_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three seeds, one is that of the variant that is compared."""
    monkeypatch.setattr(further_variants, "MORE_SEEDS", ("4", "5"))
    present = VariantOutcome(Variant("now, PYTHONHASHSEED=5", {"PYTHONHASHSEED": "5"}), stepped(7))
    explanation = Explanation(BAD_TICK, 7, [present], None, [], None, [], None, [], [])
    found = further_variants.more_seeds(explanation, lambda some: [VariantOutcome(one, stepped(7)) for one in some])
    assert "with each of 1 other seeds" in found.tested[0].found


@pytest.mark.seldom(0.3)
def test_variants_that_give_different_states_are_not_said_to_give_one(module: Any, capsys: Any) -> None:
    """The step counts the variables: those that set one more give another state, and none the recorded one."""
    record(module.Plain())
    assert run(replayer.commands.main.main, f"explain run.tape --sim not_known:Many --tick {BAD_TICK}") == 1
    out = capsys.readouterr().out
    assert len(set(re.findall(": hash ([0-9a-f]+)", out))) > 1
    assert out.startswith("run.tape: tick 15: no variant gives the recorded state")


def test_the_probe_imports_no_module_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The probe of the C library imports none of the user's modules, whatever their names."""
    (tmp_path / "struct.py").write_text("open('imported', 'w')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    further_variants.fills_memory.cache_clear()
    further_variants.fills_memory()
    assert not (tmp_path / "imported").exists()


def stepped(end: int | str) -> Any:
    """A step that gave a state, or raised an error of this text."""
    return SimpleNamespace(result=(end, None) if isinstance(end, int) else (None, end), reads=[])


@pytest.mark.seldom(0.18)
@pytest.mark.parametrize("starts", [(0, None), (None, None)])
def test_a_search_refutes_nothing_that_the_variants_show(
    module: Any, monkeypatch: pytest.MonkeyPatch, starts: tuple[int | None, ...]
) -> None:
    """An instance that ran on and one that was restored differ: hidden state is there, seen by the search or not."""
    record(module.Plain())
    first, second = (VariantOutcome(Variant("one", start=start), None) for start in starts)
    unknown = Explanation(BAD_TICK, 0, [first, second], (first, second), [], None, [], None, [], [])
    monkeypatch.setattr(investigation, "explain_tape", lambda *_, **__: unknown)
    [hidden] = investigate("run.tape", sim="not_known:Plain", factory=module.Plain).tested
    assert (hidden.cause, hidden.suspicious) == (HIDDEN, None if len(set(starts)) > 1 else False)


@pytest.mark.parametrize("has_effect", [True, False])
def test_a_line_whose_function_has_no_effect_is_not_all_that_is_told(
    module: Any, monkeypatch: pytest.MonkeyPatch, *, has_effect: bool
) -> None:
    """It is called the first difference, and further causes are tested as if no line were known."""
    record(module.Plain())
    pair = VariantOutcome(Variant("old", code="old"), None), VariantOutcome(Variant("now"), None)
    cause = Cause("edited", SourceLocation("herd.py", 3, "Herd.step", "x += 2"), None, None, (), None, [], [])
    functions = GivenFunctions(names=(), has_effect=has_effect)
    edited = Explanation(BAD_TICK, 0, [*pair], pair, [], cause, [], None, [], [], functions=functions)
    monkeypatch.setattr(investigation, "explain_tape", lambda *_, **__: edited)
    tested = investigate("run.tape", sim="not_known:Plain", factory=module.Plain).tested
    assert [one.cause for one in tested] == ([] if has_effect else [HIDDEN])
