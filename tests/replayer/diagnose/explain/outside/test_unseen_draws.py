"""Libraries and compiled code draw from generators of the process: found by the state of these, and tested with one seed."""

from __future__ import annotations

import importlib
import json
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.processes.fork_call import in_a_copy
from recorder.processes.seeds.process_generators import all_states, is_same_state, seed_all
from replayer.diagnose.explain.foreign.unseen_draws import PLACES_MAX, drawn_from, find_draws
from replayer.diagnose.explain.value_hash import Digester

from oracle.command_lines import run

MODULE = """
import networkx
import numba
import numpy as np
import torch

DROP = torch.nn.Dropout(0.5)
ONES = torch.ones(4)


@numba.njit
def gust(wind):
    return wind + np.random.random()  # COMPILED


class Fleet:
    def __init__(self):
        self.day, self.wind, self.links = 0, 0.0, []

    def step(self, inputs):
        self.day += 1
        getattr(self, inputs)()

    def calm(self):
        self.wind *= 0.5

    def compiled(self):
        self.wind = gust(self.wind)  # COMPILED_DRAW

    def network(self):
        self.links = sorted(networkx.gnp_random_graph(9, 0.5).edges)  # NETWORK_DRAW

    def torch(self):
        self.wind += float(DROP(ONES).sum())  # TORCH_DRAW

    def tensor(self):
        kept = DROP(ONES.clone())  # TENSOR_DRAW
        self.wind += float(kept.sum())

    def numpys(self):
        bits = np.random.mtrand._rand
        for _ in range(9):
            self.wind += bits.standard_normal()  # NUMPYS_DRAW
            self.calm()
"""
NAMES = {
    "compiled": "use of numba's np.random (named in compiled code at fleet_of_draws.py:13)",
    "network": "use of the generator of the module random",
    "torch": "use of PyTorch's default generator",
    "numpys": "use of the generator of np.random",
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module, imported once: numba compiles its function."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "fleet_of_draws.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("fleet_of_draws")
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("fleet_of_draws")


def line_of(mark: str) -> int:
    """The line of the module with a mark."""
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if text.endswith(f"# {mark}"))


def drawn(module: Any, how: str) -> dict[str, Any]:
    """What a step draws from, and at which lines, as explain finds both."""
    before, fleet = all_states(), module.Fleet()
    fleet.step(how)
    names = drawn_from(before, all_states(), [])
    return {"names": names, **find_draws(module.Fleet(), how, names)}


@pytest.mark.parametrize("how", NAMES)
def test_the_line_that_draws_is_found(module: Any, how: str) -> None:
    """One generator, and one line: the lines around it leave its state as it is."""
    found = in_a_copy(partial(drawn, module, how))
    assert len(found["names"]) == 1
    assert found["reads"] == [["generator", NAMES[how], module.__file__, line_of(f"{how.upper()}_DRAW"), None, 1]]


def test_a_step_without_draws_has_none(module: Any) -> None:
    """And a generator of which the user's own line is known to draw is not told twice."""
    assert in_a_copy(partial(drawn, module, "calm")) == {"names": [], "reads": []}
    before = all_states()
    random.random()
    assert drawn_from(before, all_states(), []) == ["random"]
    read = recorder.ambient.outside.outside_read.OutsideRead("generator", "random.random", "a.py", 1, None)
    assert drawn_from(before, all_states(), [read]) == []


def test_no_more_lines_than_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PLACES_MAX of each generator."""
    lines = "\n".join("        DICE.random()" for _ in range(PLACES_MAX + 2))
    (tmp_path / "many_draws.py").write_text(
        f"import random\n\nDICE = random._inst\n\n\nclass Many:\n    def step(self, inputs):\n{lines}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    many = importlib.import_module("many_draws").Many()
    found = in_a_copy(partial(find_draws, many, None, ["random"]))["reads"]
    assert [read[3] for read in found] == list(range(8, 8 + PLACES_MAX))


@pytest.mark.usefixtures("module")
def test_a_seed_gives_all_generators_a_state() -> None:
    """The same for the same seed."""

    def seeded() -> dict[str, Any]:
        states = []
        for seed in (5, 5, 6):
            seed_all(seed)
            states.append(all_states())
        first, again, other = states
        return {
            "same": [name for name in first if is_same_state(first[name], again[name])],
            "other": [name for name in first if not is_same_state(first[name], other[name])],
            "all": sorted(first),
        }

    found = in_a_copy(seeded)
    assert sorted(found["same"]) == sorted(found["other"]) == found["all"]
    assert len(found["all"]) == 5


@pytest.mark.seldom(0.3)
@pytest.mark.parametrize("how", ["compiled", "network"])
def test_explain_names_the_generator_that_decides(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same seed two processes give one state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fleet_of_draws", raising=False)
    Path("fleet_of_draws.py").write_text(MODULE)
    fleet = recorder.record(importlib.import_module("fleet_of_draws").Fleet(), "run.tape", step="step", trial_ms=0)
    for inputs in ("calm", how, "calm"):
        fleet.step(inputs)
    fleet.close()
    monkeypatch.delitem(sys.modules, "fleet_of_draws")

    assert run(replayer.commands.main.main, "explain run.tape --json --sim fleet_of_draws:Fleet") == 1
    found = json.loads(capsys.readouterr().out)
    line = line_of(f"{how.upper()}_DRAW")
    assert found["tick"] == 2
    assert (
        found["differs_by"] == f"a random generator of the process, by {NAMES[how]} (read at fleet_of_draws.py:{line})"
    )


def test_the_numbers_of_a_tensor_are_compared() -> None:
    """Also of one that takes part in a gradient. It has no attributes, which would show them."""
    torch = pytest.importorskip("torch")
    digest = Digester().digest
    for made in (torch.ones, torch.zeros):
        assert digest(made(3)) == digest(made(3).clone()) == digest(made(6)[::2])
        assert digest(made(3)) != digest(made(4))
    assert digest(torch.ones(3)) != digest(torch.zeros(3))
    assert digest(torch.ones(3, requires_grad=True)) != digest(torch.zeros(3, requires_grad=True))
    assert digest([torch.ones(3), torch.zeros(3)]) != digest([torch.zeros(3), torch.ones(3)])


def test_no_code_of_the_users_is_run_for_the_numbers() -> None:
    class Sneaky:
        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError

        def detach(self) -> Any:
            ran.append(self)
            return self

    ran = list[Any]()
    assert Digester().digest(Sneaky()) == Digester().digest(Sneaky())
    assert ran == []


@pytest.mark.seldom(0.3)
def test_the_line_that_gives_a_tensor_other_numbers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not the next one, which makes a number of the state from it."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fleet_of_draws", raising=False)
    Path("fleet_of_draws.py").write_text(MODULE)
    fleet = recorder.record(importlib.import_module("fleet_of_draws").Fleet(), "run.tape", step="step", trial_ms=0)
    for inputs in ("calm", "tensor", "calm"):
        fleet.step(inputs)
    fleet.close()
    monkeypatch.delitem(sys.modules, "fleet_of_draws")

    assert run(replayer.commands.main.main, "explain run.tape --json --sim fleet_of_draws:Fleet") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["cause"]["line"] == line_of("TENSOR_DRAW")
