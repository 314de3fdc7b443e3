"""Ten planted faults in small simulations: replay explain names the tick, the field and the source line of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

import replayer.commands.main
from recorder.environment import describe_environment
from replayer.diagnose.explain.variant_choice import first_variants

from project_paths import SOURCES

pytestmark = pytest.mark.share(0.18)


HEAD = """
import functools
import random
import numpy as np
from sim import Field, RandomStream, Schema, State

class Base:
    def __init__(self):
        self.state = State(Schema(
            Field("tick", "i8"), Field("x", "i8", (60,)), Field("grid", "f4", (6, 10)), Field("rng", "u8", (4,))
        ))
        RandomStream.seed(self.state["rng"], 5)

    def move(self):
        self.state["tick"][()] += 1
        self.state["x"][:] += RandomStream(self.state["rng"]).integers(-2, 3, 60)
        return int(self.state["tick"])
"""


@attrs.frozen
class Fault:
    """A planted defect.

    Attributes:
        name: what it is.
        body: the simulation Sim, after HEAD; the faulty line ends in # HERE.
        field: that differs.
        kind: of cause that is named.
        tick: the first bad one.
        operation: that is named, or None.
        other: the body in the other version of the code, if there is one; its faulty line ends in # HERE as well.
        seed: whether it is recorded with a hash seed of its own.
        simd: True if the other variant disables features of the processor.
    """

    name: str
    body: str
    field: str = ""
    kind: str = ""
    tick: int = 25
    operation: str | None = None
    other: str | None = None
    seed: str | None = None
    simd: bool = False

    @property
    def is_searched(self) -> bool:
        """True if the command has to find the bad tick itself: not for all of them, since that takes long."""
        return self.kind == "outside" or self.name.startswith(("exp", "order", "off"))

    @property
    def module(self) -> str:
        """The name under which it is imported."""
        return "".join(char if char.isalnum() else "_" for char in self.name)


EXP = Fault(
    "exp under another SIMD level",
    """
    class Sim(Base):
        def step(self, inputs):
            tick = self.move()
            if tick == 25:
                self.grow(self.state["x"].reshape(6, 10).astype("f4"))

        def grow(self, age):
            decay = np.exp(age * np.float32(-0.37))  # HERE
            self.state["grid"][:] += decay
    """,
    "grid",
    operation="np.exp",
    kind="operation",
    simd=True,
)
FAULTS = [
    EXP,
    Fault(
        "unstable argsort with ties",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                if tick == 25:
                    ranks = np.argsort(self.state["x"] % 3)  # HERE
                    self.state["x"][:] = ranks
        """,
        "x",
        operation="np.argsort",
        kind="operation",
        simd=True,
    ),
    Fault(
        "order of a set",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                kinds = {"oak", "elm", "ash", "fir", "yew"}
                if tick == 25:
                    for number, kind in enumerate(kinds):  # HERE
                        self.state["x"][number] += len(kind) + ord(kind[0])
        """,
        "x",
        seed="77",
        kind="order",
    ),
    Fault(
        "iteration over a dict built from a set",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                kinds = {"oak", "elm", "ash", "fir", "yew"}
                weights = {kind: ord(kind[0]) for kind in kinds}  # HERE
                total = 0
                for weight in weights.values():
                    total = total * 3 + weight
                if tick == 25:
                    self.state["x"][5] += total
        """,
        "x",
        seed="77",
        kind="order",
    ),
    Fault(
        "a loop over the set of a method that ends early",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                left = 2
                if tick == 25:
                    for kind in self.kinds("elm"):  # HERE
                        if not left:
                            break
                        self.state["x"][left] += ord(kind[0])
                        left -= 1

            def kinds(self, without):
                return {"oak", "elm", "ash", "fir", "yew", "box", "bay"} - {without}
        """,
        "x",
        seed="77",
        kind="order",
    ),
    Fault(
        "the first of the set of a property",
        """
        class Sim(Base):
            def step(self, inputs):
                if self.move() == 25:
                    first = next(iter(self.kinds))  # HERE
                    self.state["x"][0] += ord(first[0])

            @property
            def kinds(self):
                return {"oak", "elm", "ash", "fir", "yew", "box", "bay"}
        """,
        "x",
        seed="77",
        kind="order",
    ),
    Fault(
        "a loop over the difference of sets that ends early",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                kinds, busy = ["oak", "elm", "ash", "fir", "yew", "box", "bay"], {"elm", "box"}
                if tick == 25:
                    for kind in set(kinds) - busy:  # HERE
                        self.state["x"][0] += ord(kind[0])
                        break
        """,
        "x",
        seed="77",
        kind="order",
    ),
    Fault(
        "off-by-one slice between two versions",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                if tick == 25:
                    part = self.state["x"][3:9]  # HERE
                    total = int(part.sum())
                    self.state["grid"][0, 0] = total
        """,
        "grid",
        other="""
        class Sim(Base):
            def step(self, inputs):
                '''Another version, with a docstring.'''
                tick = self.move()
                if tick == 25:
                    part = self.state["x"][3:10]  # HERE
                    total = int(part.sum())
                    self.state["grid"][0, 0] = total
        """,
        kind="edited",
    ),
    Fault(
        "changed constant",
        """
        LIMIT = 4  # HERE

        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                if tick == 25:
                    self.cut()

            def cut(self):
                x = self.state["x"]
                x[x > LIMIT] -= LIMIT
        """,
        "x",
        other="""
        LIMIT = 3  # HERE

        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                if tick == 25:
                    self.cut()

            def cut(self):
                x = self.state["x"]
                x[x > LIMIT] -= LIMIT
        """,
        kind="edited",
    ),
    Fault(
        "stale cache on the instance",
        """
        class Sim(Base):
            def __init__(self):
                super().__init__()
                self._table = None

            def step(self, inputs):
                tick = self.move()
                if self._table is None:  # HERE
                    self._table = self.state["x"] * 2
                self.state["grid"][:] += self._table.reshape(6, 10)
        """,
        "grid",
        kind="outside",
        tick=11,  # The first tick after a keyframe, as for all hidden state.
    ),
    Fault(
        "module global counter",
        """
        STEPS = 0

        def bonus():
            global STEPS
            STEPS += 1
            return STEPS // 7  # HERE

        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                extra = bonus()
                self.state["x"][4] += extra
        """,
        "x",
        kind="outside",
        tick=11,
    ),
    Fault(
        "lru_cache over the state",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                crowd = self.crowd(tick // 40)  # HERE
                self.state["grid"][1] += crowd

            @functools.lru_cache(maxsize=None)
            def crowd(self, decade):
                return int(self.state["x"].max())
        """,
        "grid",
        kind="outside",
        tick=11,
    ),
    Fault(
        "changed comparison",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                for row in range(60 if tick == 25 else 0):
                    self.feed(row)

            def feed(self, row):
                hunger = int(self.state["x"][row]) % 4
                if hunger < 2:  # HERE
                    self.state["x"][row] += 10
        """,
        "x",
        other="""
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                for row in range(60 if tick == 25 else 0):
                    self.feed(row)

            def feed(self, row):
                hunger = int(self.state["x"][row]) % 4
                if hunger <= 2:  # HERE
                    self.state["x"][row] += 10
        """,
        kind="edited",
    ),
    Fault(
        "sum over the wrong axis",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                cells = self.state["x"].reshape(6, 10)
                sums = cells.sum(axis=0)  # HERE
                self.state["grid"][0, :6] += sums[:6] * (tick == 25)
        """,
        "grid",
        other="""
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                cells = self.state["x"].reshape(6, 10)
                sums = cells.sum(axis=1)  # HERE
                self.state["grid"][0, :6] += sums[:6] * (tick == 25)
        """,
        kind="edited",
    ),
    Fault(
        "a draw from the random module",
        """
        class Sim(Base):
            def step(self, inputs):
                tick = self.move()
                if tick == 25:
                    luck = random.randrange(10**9)  # HERE
                    self.state["x"][3] += luck
        """,
        "x",
        operation="random.randrange",
        kind="operation",
    ),
]

SOUND = [
    Fault(
        "sound with caches",
        """
        class Sim(Base):
            def __init__(self):
                super().__init__()
                self._squares = {}

            def step(self, inputs):
                tick = self.move()
                for row in range(4):
                    self.state["x"][row] += self.square(row)
                kinds = {"oak", "elm", "ash", "fir", "yew"}
                self.state["x"][9] += sum(len(kind) for kind in kinds)
                self.state["grid"][0] = np.sort(self.state["x"])[:10] / 8

            def square(self, row):
                if row not in self._squares:
                    self._squares[row] = row * row
                return self._squares[row]
        """,
    )
]

MASKED = Fault(
    "masked",
    """
    class Sim(Base):
        def __init__(self):
            super().__init__()
            self._known = {}

        def step(self, inputs):
            tick = self.move()
            for kind in {"oak", "elm", "ash", "fir", "yew"}:
                self.state["x"][2] += len(kind)
            weight = self.weigh(3)
            names = sorted({"oak", "elm", "ash", "fir"})
            self.state["x"][1] += weight + len(names)
            self.state["x"][3] += tick // 25  # HERE

        def weigh(self, size):
            if size not in self._known:
                self._known[size] = size * size
            return self._known[size]
    """,
    other="""
    class Sim(Base):
        def __init__(self):
            super().__init__()
            self._known = {3: 9}

        def step(self, inputs):
            tick = self.move()
            for kind in {"oak", "elm", "ash", "fir", "yew"}:
                self.state["x"][2] += len(kind)
            weight = self.weigh(3)
            names = sorted({"oak", "elm", "ash", "fir"})
            self.state["x"][1] += weight + len(names)
            self.state["x"][3] += tick // 26  # HERE

        def weigh(self, size):
            if size not in self._known:
                self._known[size] = size * size
            return self._known[size]
    """,
)
LOST = Fault(
    "lost",
    """
    class Sim(Base):
        def step(self, inputs):
            tick = self.move()
            self.state["grid"][2] += tick // 25 * 2
    """,
)
PICKY = Fault(
    "picky",
    """
    class Sim(Base):
        def step(self, inputs):
            tick = self.move()
            plain = type(self.state["x"]) is np.ndarray
            self.state["x"][3] += (plain + tick) // 26  # HERE
    """,
    other="""
    class Sim(Base):
        def step(self, inputs):
            tick = self.move()
            plain = type(self.state["x"]) is np.ndarray
            self.state["x"][3] += (plain + tick) // 26 * 2  # HERE
    """,
)
SHY = Fault(
    "shy",
    """
    import sys

    def watched():
        tools = getattr(sys, "monitoring", None)
        return sys.gettrace() is not None or any(tools.get_tool(number) for number in range(6) if tools)

    class Sim(Base):
        def step(self, inputs):
            tick = self.move()
            self.state["x"][3] += watched()
    """,
)
SAVER = """
import numpy as np

class Agent:
    def __init__(self, number):
        self.number, self.energy = number, 10.0

    def eat(self, food):
        self.energy += food

class Sim:
    def __init__(self):
        self.agents = [Agent(number) for number in range(120)]
        self.tick = 0

    def step(self, inputs):
        self.tick += 1
        for agent in self.agents:
            food = 0.1 * agent.number
            if self.tick == 25:
                food = food * 2  # HERE
            agent.eat(food)

    def save(self):
        return {"tick": np.int64(self.tick), "energy": np.array([agent.energy for agent in self.agents])}

    def load(self, saved):
        self.tick = int(saved["tick"])
        for agent, energy in zip(self.agents, saved["energy"]):
            agent.energy = float(energy)
"""
RAISER = Fault(
    "raiser",
    """
    class Sim(Base):
        def step(self, inputs):
            tick = self.move()
            if tick > 25:  # HERE
                self.state["x"][3] += 1
    """,
    other="""
    class Sim(Base):
        def step(self, inputs):
            tick = self.move()
            if tick > 24:  # HERE
                raise ValueError("too many")
    """,
)
OTHERS = [MASKED, LOST, PICKY, SHY, RAISER]

RECORD = """
import importlib, sys, recorder
for name in sys.argv[1:]:
    with recorder.Recorder(f"{name}.tape", importlib.import_module(name).Sim(), keyframe_interval_ticks=10) as tape:
        for tick in range(40):
            tape.step()
"""


def module(body: str) -> str:
    """The source of a simulation."""
    return HEAD + textwrap.dedent(body)


def faulty_line(source: str) -> int:
    """The number of the faulty line."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# HERE"))


def simd_switch() -> str:
    """The processor features that NumPy can be set not to use."""
    core = getattr(np, "_core", None) or np.core
    known = core._multiarray_umath
    return " ".join(name for name in known.__cpu_dispatch__ if known.__cpu_features__.get(name))


def record(folder: Path, names: list[str], **environment: str) -> None:
    """Record forty ticks of each simulation in a separate process, as a user does."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    finished = subprocess.run(
        [sys.executable, "-c", RECORD, *names],
        cwd=folder,
        env={**inherited, "PYTHONPATH": os.pathsep.join([str(folder), str(SOURCES)]), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not finished.returncode, finished.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All planted simulations, their other versions in other/, and a tape of each."""
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "other").mkdir()
    for fault in [*FAULTS, *SOUND, *OTHERS]:
        (folder / f"{fault.module}.py").write_text(module(fault.body))
        other = fault.body if fault in SOUND else fault.other
        if other is not None:
            (folder / "other" / f"{fault.module}.py").write_text(module(other))
    (folder / "saver.py").write_text(SAVER)
    (folder / "other" / "saver.py").write_text(SAVER.replace("food * 2", "food * 3"))
    record(folder, [*(fault.module for fault in [*FAULTS, *SOUND, *OTHERS] if fault.seed is None), "saver"])
    record(folder, [fault.module for fault in FAULTS if fault.seed], PYTHONHASHSEED="77")
    (folder / "lost.py").write_text(module(LOST.body.replace(" * 2", "")))
    (folder / "broken").mkdir()
    (folder / "broken" / f"{SOUND[0].module}.py").write_text("def step(:\n")
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test there, without a hash seed."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    monkeypatch.setattr(sys, "path", [str(folder), str(SOURCES), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def explain(capsys: Any, name: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The command's exit code and its JSON output."""
    with pytest.raises(SystemExit) as caught:
        replayer.commands.main.main(["explain", f"{name}.tape", "--sim", f"{name}:Sim", "--json", *arguments])
    captured = capsys.readouterr()
    assert captured.err == ""
    return caught.value.code, json.loads(captured.out)


ONE_IN_TWO = [  # The zoo has faults of these kinds, too.
    pytest.param(fault, marks=pytest.mark.long if number % 2 else [], id=fault.module)
    for number, fault in enumerate(FAULTS)
]


@pytest.mark.parametrize("fault", ONE_IN_TWO)
@pytest.mark.seldom(0.18)
def test_a_planted_fault_is_named_at_its_line(capsys: Any, fault: Fault) -> None:
    """Exit code 1, the right first tick and field, and the faulty line of the right file."""
    arguments = []
    if fault.simd:
        if not simd_switch():
            pytest.skip("this processor has no features that NumPy could be set not to use")
        arguments = ["--env", f"NPY_DISABLE_CPU_FEATURES={simd_switch()}"]
    if fault.other is not None:
        arguments = ["--code", "other"]
    if not fault.is_searched:
        arguments += ["--tick", str(fault.tick)]
    code, facts = explain(capsys, fault.module, *arguments)
    cause = facts["cause"]

    assert code == 1
    assert facts["tick"] == fault.tick
    assert fault.field in [field["field"] for field in facts["fields"]]
    assert (Path(cause["file"]).name, cause["line"]) == (f"{fault.module}.py", faulty_line(module(fault.body)))
    assert (cause["kind"], cause["operation"]) == (fault.kind, fault.operation)
    if fault.seed is not None:
        recorded = [side["label"] for side in facts["sides"] if side["as_recorded"]]
        assert recorded == [f"as recorded, PYTHONHASHSEED={fault.seed}"]
    if fault.other is not None:
        assert cause["other"]["line"] == faulty_line(module(fault.other))
    if fault.simd:
        assert cause["value"]["differing"] > 0
        assert (cause["value"]["ulp_max"] in (1, 2, 3)) == (fault.operation == "np.exp")


@pytest.mark.seldom(0.15)
def test_the_screen_names_tick_field_operation_line_and_elements(capsys: Any) -> None:
    """The screen: the operation, the line with its text, elements and ULPs, the variants, and the recorded one."""
    if not simd_switch():
        pytest.skip("this processor has no features that NumPy could be set not to use")
    name, line = EXP.module, faulty_line(module(EXP.body))
    switch = f"NPY_DISABLE_CPU_FEATURES={simd_switch()}"
    with pytest.raises(SystemExit) as caught:
        replayer.commands.main.main(
            ["explain", f"{name}.tape", "--sim", f"{name}:Sim", "--tick", "-16", "--env", switch]
        )
    screen = capsys.readouterr().out

    assert caught.value.code == 1
    assert f"{name}.tape: tick 25 differs between two variants" in screen
    assert "cause: np.exp gives different results from the same inputs" in screen
    assert f"{name}.py:{line} in Sim.grow" in screen
    assert "decay = np.exp(age * np.float32(-0.37))" in screen
    assert "of 60 elements differ, at most" in screen
    assert "ULP)" in screen
    assert f"B  {switch}: hash" in screen
    assert "A  now: hash" in screen
    assert screen.count(", as recorded") == 1
    assert len(screen.splitlines()) < 30


@pytest.mark.parametrize(
    "arguments",
    [["--env", "PYTHONHASHSEED=5", "--code", "other"], pytest.param(["--tick", "25"], marks=pytest.mark.long)],
)
def test_deterministic_simulations_give_no_finding(capsys: Any, arguments: list[str]) -> None:
    """Correct caches, sets whose order does not matter, new processes, seeds and used instances: exit code 0."""
    code, facts = explain(capsys, SOUND[0].module, *arguments)

    assert (code, facts["agrees"], facts["cause"], facts["fields"]) == (0, True, None, [])


def test_a_difference_without_effect_is_not_taken_for_the_cause(capsys: Any) -> None:
    """A cache that one variant fills and a set in a different order come first; the line edited later is named."""
    code, facts = explain(capsys, "masked", "--code", "other", "--tick", "25", "--env", "PYTHONHASHSEED=5")

    assert (code, facts["cause"]["kind"]) == (1, "edited")
    assert facts["cause"]["line"] == faulty_line(module(MASKED.body))


@pytest.mark.long
def test_a_state_that_no_variant_gives_is_reported_without_a_cause(capsys: Any) -> None:
    """The recorded version of the code is lost: the fields that differ, the lines that write them, and no cause."""
    code, facts = explain(capsys, "lost", "--tick", "25")

    assert (code, facts["tick"], facts["cause"], facts["agrees"]) == (1, 25, None, False)
    assert (facts["known_tick"], facts["known_fields"]) == (30, ["grid"])
    assert [(Path(place["file"]).name, place["text"], place["fields"]) for place in facts["writers"]] == [
        ("lost.py", 'self.state["grid"][2] += tick // 25', ["grid"])
    ]


@pytest.mark.seldom(0.15)
def test_a_step_that_notices_the_array_views_is_traced_by_its_lines(capsys: Any) -> None:
    """The traced step gives the same state as the untraced one because arrays are not watched; a note reports that."""
    code, facts = explain(capsys, "picky", "--code", "other", "--tick", "25")

    assert code == 1
    assert facts["cause"]["line"] == faulty_line(module(PICKY.body))
    assert any("only lines were watched" in note for note in facts["notes"])


@pytest.mark.seldom(0.15)
def test_a_step_that_notices_the_tracing_gets_a_note(capsys: Any) -> None:
    """If even watching lines changes the step, a note reports it, and the hashes are those of the untraced step."""
    code, facts = explain(capsys, "shy", "--tick", "25", "--env", "PYTHONHASHSEED=5")

    assert code == 0
    assert facts["sides"][0]["as_recorded"]
    assert any("tracing changes the result of the step" in note for note in facts["notes"])


@pytest.mark.seldom(0.18)
def test_a_simulation_that_saves_its_state_is_explained_by_its_objects(capsys: Any) -> None:
    """It has no fields before the step is over; a long list of objects leads to the line."""
    code, facts = explain(capsys, "saver", "--code", "other", "--tick", "25")

    assert code == 1
    assert [field["field"] for field in facts["fields"]] == ["energy"]
    assert (facts["cause"]["kind"], facts["cause"]["line"]) == ("edited", faulty_line(SAVER))


@pytest.mark.seldom(0.18)
def test_an_exception_on_one_variant_is_a_difference(capsys: Any) -> None:
    """One variant raises: the error is reported, and the line where the two diverge."""
    code, facts = explain(capsys, "raiser", "--code", "other", "--tick", "25")

    assert code == 1
    assert [side["raised"] for side in facts["sides"]] == [None, "the step raised ValueError: too many (raiser.py:23)"]
    assert facts["cause"]["line"] == faulty_line(module(RAISER.body))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "FOO"], "expected NAME=VALUE, got --env FOO"),
        (["--code", "nowhere"], "expected a folder, got --code nowhere"),
        (["--tick", "0"], "tick 0: steps lead to ticks 1 to 40"),
        (["--tick", "41"], "tick 41: steps lead to ticks 1 to 40"),
        (["--tick", "25", "--code", "broken"], "the code in"),
        (["--tick", "25", "--env", "PYTHONHASHSEED=many"], "PYTHONHASHSEED=many: the process that ran the step died"),
    ],
)
def test_mistakes_get_one_line(capsys: Any, arguments: list[str], message: str) -> None:
    """Exit code 2, nothing on stdout, no traceback."""
    name = SOUND[0].module
    with pytest.raises(SystemExit) as caught:
        replayer.commands.main.main(["explain", f"{name}.tape", "--sim", f"{name}:Sim", *arguments])
    captured = capsys.readouterr()

    assert caught.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_recorded_version_that_cannot_be_tried_is_noted() -> None:
    """Variables of the recorded environment make the other variant; a different NumPy is only noted."""

    class Recorded:
        meta: ClassVar[dict[str, Any]] = {
            "environment": describe_environment() | {"numpy": "1.0", "OPENBLAS_CORETYPE": "x"}
        }

    now, others, notes = first_variants(Recorded(), {}, None)  # type: ignore[arg-type]

    assert (now.label, [(side.label, dict(side.environment)) for side in others]) == (
        "now",
        [("as recorded, OPENBLAS_CORETYPE=x", {"OPENBLAS_CORETYPE": "x"})],
    )
    assert notes == [f"recorded with numpy 1.0, this process has {np.__version__}: the effect of that cannot be tested"]
