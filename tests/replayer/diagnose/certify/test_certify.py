"""One tape in many environments: the factor that alone makes a difference is named, and no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.factory_spec import load_factory
from replayer.diagnose.certify import certify as certifying
from replayer.diagnose.certify import matrix
from replayer.diagnose.certify.arithmetic import describe_arithmetic, processor_flags
from replayer.diagnose.certify.certificate import certificate_path
from replayer.diagnose.certify.certify import certify
from replayer.diagnose.certify.matrix import KERNEL_VARIABLE, SIMD_VARIABLE, make_matrix, present_cell
from replayer.tape.digest import tape_digest

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

PLANTED = '''
import os
import time

import numpy as np

from sim import Field, Schema, State


class Sound:
    """Floats, added and multiplied only; the planted faults of the subclasses begin after tick 17."""

    def __init__(self):
        self.state = State(
            Schema(Field("tick", "i8"), Field("quiet", "f8", (8,)), Field("x", "f8", (64,)), Field("y", "f4", (64,)))
        )
        self.state["x"][:] = np.arange(64) / 64
        self.state["y"][:] = np.arange(64) / 64

    def step(self, inputs):
        self.state["tick"][()] += 1
        self.state["quiet"][:] = self.state["quiet"] * 0.9 + 1
        if self.state["tick"] > 17:
            self.odd()

    def odd(self):
        pass


class Exp(Sound):
    def odd(self):
        self.state["y"][:] = np.exp(-self.state["y"]) + np.float32(0.3)


class SetOrder(Sound):
    def odd(self):
        for name in {"plants", "swarms", "wind", "rain"}:
            self.state["x"][3] = self.state["x"][3] * 0.7 + len(name)


class Dot(Sound):
    def odd(self):
        y = self.state["y"]
        y[:] = (y + np.float32(0.3)) / (np.float32(1) + y @ y)


class Threads(SetOrder):
    def odd(self):
        super().odd()
        self.state["x"][0] += int(os.environ.get("OMP_NUM_THREADS", "0"))


class Clock(Sound):
    def odd(self):
        self.state["x"][0] += time.time_ns() % 1000


class Raises(Sound):
    def odd(self):
        if not getattr(self, "recording", False):
            raise ValueError("no")
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in a folder with the planted simulations, without settings of the machine."""
    monkeypatch.chdir(tmp_path)
    for name in ("PYTHONHASHSEED", "OMP_NUM_THREADS", SIMD_VARIABLE, KERNEL_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("planted", None)
    return tmp_path


def record(name: str, hash_seed: str = "0", blame: str = "auto") -> None:
    """Record fifty ticks of a planted simulation; if sets matter, in a separate process with a hash seed."""
    if name in ("SetOrder", "Threads"):
        code = f"import test_certify as t; t._record('{name}')"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": path}, check=True)
    else:
        _record(name, blame)


def _record(name: str, blame: str = "auto") -> None:
    simulation = load_factory(f"planted:{name}")()
    simulation.recording = True
    Path("a.tape").unlink(missing_ok=True)
    with Recorder("a.tape", simulation, keyframe_interval_ticks=20, blame=blame) as tape:
        for _ in range(50):
            tape.step()


def certificate() -> dict[str, Any]:
    """The certificate next to a.tape."""
    found: dict[str, Any] = json.loads(Path("a.certificate.json").read_text())
    return found


def differing(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that differ from the tape."""
    return [cell for cell in found["cells"] if cell["result"] == "differs"]


can_turn_simd_off = pytest.mark.skipif(not describe_arithmetic().simd, reason="no feature can be turned off")
has_kernels = pytest.mark.skipif(
    describe_arithmetic().blas_kernel is None or "avx2" not in (processor_flags() or ()), reason="no other BLAS kernel"
)


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(
    ("name", "guilty", "field"),
    [
        pytest.param("Exp", "SIMD level", "y", marks=can_turn_simd_off),
        pytest.param("SetOrder", "hash seed", "x", marks=pytest.mark.long),  # The zoo has one of its kind.
        pytest.param("Dot", "BLAS kernel", "y", marks=[has_kernels, pytest.mark.long]),
    ],
)
def test_the_planted_factor_is_named_and_no_other(name: str, guilty: str, field: str, capsys: Any) -> None:
    """Of all factors the planted one alone makes a difference: tick, field and exit code; the others are green."""
    record(name, blame="none" if name == "Exp" else "auto")  # Without per-field hashes, a second process computes them.
    code = run(replayer.commands.main.main, f"certify a.tape --sim planted:{name} --quick")
    found = certificate()
    cells = differing(found)

    assert code == 1
    assert {factor for factor, verdict in found["factors"].items() if verdict == "makes the difference"} == {guilty}
    assert set(found["factors"].values()) <= {"makes the difference", "no difference", "not tested"}
    assert not found["same_everywhere"]
    assert {cell["factor"] for cell in cells} == {guilty}
    for cell in cells:
        assert cell["fields"] == [field]
        assert cell["fields_tick"] == cell["first_bad"] >= 18
        assert cell["verified_ticks"] == cell["first_bad"]
    printed = capsys.readouterr().out
    assert f"{guilty}: makes a difference alone" in printed
    assert f"first at tick {cells[0]['first_bad']}, field {field}" in printed


@pytest.mark.long
def test_each_of_two_factors_is_named_also_if_the_recorded_environment_differs() -> None:
    """The recorded hash seed is tried; sets and OMP_NUM_THREADS each matter alone."""
    record("Threads", "5")
    found = certify("a.tape", "planted:Threads", factors=["hash-seed", "threads"], quick=True, jobs=2)
    by_level = {report.cell.level: report for report in found.cells}

    assert found.present.cell.level == "PYTHONHASHSEED=5"
    assert found.present.result == by_level["5"].result == "same"
    assert found.deciding_factors == ["hash seed", "threads"]
    assert [by_level[level].first_bad for level in ("0", "1")] == [18, 18]
    assert not found.ok


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (["a", "a", "a"], "no difference"),
        (["a", "a", "b"], "makes the difference"),
        (["a", "b", "a"], "cannot be judged"),
        (["a", "b", "c"], "cannot be judged"),
    ],
)
def test_a_factor_is_judged_by_the_present_environment_and_not_by_the_tape(outcomes: list[str], verdict: str) -> None:
    """Present environment, repeated run, factor: all of them may differ from the tape."""
    cells = [certifying.Cell(factor, "") for factor in ("present environment", "the same again", "threads")]
    base, *reports = (
        certifying.CellReport(cell, "differs", first_bad=3, outcome=outcome)
        for cell, outcome in zip(cells, outcomes, strict=True)
    )

    assert certifying._judge(base, reports)["threads"] == verdict


@pytest.mark.seldom(0.15)
def test_a_simulation_that_differs_in_each_run_blames_no_factor(capsys: Any) -> None:
    """A simulation that reads the clock differs in the same environment as well: no factor is judged."""
    record("Clock")
    assert run(replayer.commands.main.main, "certify a.tape --sim planted:Clock --factor threads --quick") == 1
    found = certificate()

    assert found["factors"] == {"the same again": "makes the difference", "threads": "cannot be judged"}
    assert "no factor can be blamed" in capsys.readouterr().out


def test_an_intact_tape_is_certified_and_the_certificate_belongs_to_it(capsys: Any) -> None:
    """Exit code 0; --check accepts the tape, also in a different folder, and no other or changed tape."""
    record("Sound")
    line = "certify a.tape --sim planted:Sound --factor hash-seed --quick --python /nowhere/python"
    assert run(replayer.commands.main.main, f"{line} --json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same_everywhere"]
    assert found["factors"] == {"hash seed": "no difference", "Python and NumPy": "not tested"}
    *ran, nowhere = found["cells"]
    assert nowhere["why"] == "/nowhere/python: No such file or directory"
    assert {cell["arithmetic"]["numpy"] for cell in ran} == {describe_arithmetic().numpy}
    assert {cell["verified_ticks"] for cell in ran} == {51}
    assert certificate() == {key: value for key, value in found.items() if key != "path"}

    assert run(replayer.commands.main.main, "certify a.tape --check") == 0
    assert "belongs to a.tape" in capsys.readouterr().out
    shutil.copy("a.tape", "b.tape")
    assert run(replayer.commands.main.main, "certify b.tape --check -o a.certificate.json") == 0

    record("Clock")
    assert run(replayer.commands.main.main, "certify a.tape --check") == 1
    assert "the tape is of run" in capsys.readouterr().out
    changed = bytearray(Path("b.tape").read_bytes())
    changed[-1] ^= 1
    Path("b.tape").write_bytes(changed)
    assert run(replayer.commands.main.main, "certify b.tape --check -o a.certificate.json --json") == 1
    assert (
        json.loads(capsys.readouterr().out)["why_not"]
        == "the tape's files have changed since the certificate was written"
    )


def test_mistakes_get_one_line(capsys: Any) -> None:
    """No tape, no certificate, a different file in its place, a simulation that raises or does not exist."""
    record("Raises")
    assert run(replayer.commands.main.main, "certify a.tape --check") == 2
    assert_one_line(capsys.readouterr(), "a.certificate.json: No such file")
    for text in ("{}", "[1]", "no json", '{"certificate": 1}'):
        Path("a.certificate.json").write_text(text)
        assert run(replayer.commands.main.main, "certify a.tape --check") == 5
        assert_one_line(capsys.readouterr(), "a.certificate.json: not a certificate")
    assert run(replayer.commands.main.main, "certify a.tape --sim planted:Nothing") == 2
    assert_one_line(capsys.readouterr(), "Nothing")
    assert run(replayer.commands.main.main, "certify b.tape") == 2
    assert_one_line(capsys.readouterr(), "b.tape: No such file")
    assert run(replayer.commands.main.main, "certify a.tape --sim planted:Raises --factor threads --quick") == 2
    assert_one_line(capsys.readouterr(), "the step raised ValueError: no (planted.py:")


def test_what_cannot_be_varied_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without AVX-512, without OpenBLAS, with one processor: each cell states why it cannot be tried."""
    here = attrs.evolve(describe_arithmetic(), simd=(), blas_kernel=None)
    monkeypatch.setattr(matrix, "processor_count", lambda: 1)
    monkeypatch.setattr(matrix, "dispatched_features", lambda: ["X86_V3", "X86_V4"])
    cells = make_matrix(present_cell({}), here, {})
    whys = {(cell.factor, cell.level): cell.why_not for cell in cells if cell.why_not}

    assert whys == {
        ("SIMD level", "AVX-512"): "this processor has no AVX-512",
        ("SIMD level", "baseline"): "NumPy uses no feature here that can be turned off",
        ("threads", "2"): "this machine has one processor",
        ("BLAS kernel", "any"): "no OpenBLAS is loaded in this process",
    }


def test_each_cell_changes_one_factor_and_a_wide_machine_is_narrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With AVX-512, one cell has the features of an AVX2 machine; no cell changes the variables of two factors."""
    here = attrs.evolve(describe_arithmetic(), simd=("X86_V3", "X86_V4", "AVX512_ICL"), blas_kernel="SkylakeX")
    monkeypatch.setattr(matrix, "dispatched_features", lambda: ["X86_V3", "X86_V4", "AVX512_ICL"])
    monkeypatch.setattr(matrix, "processor_flags", lambda: {"avx2", "avx512f", "pni"})
    monkeypatch.setattr(matrix, "processor_count", lambda: 2)
    present = present_cell({})
    cells = {(cell.factor, cell.level): cell for cell in make_matrix(present, here, {})}

    assert cells["SIMD level", "AVX2"].changes == {"PYTHONHASHSEED": "0", SIMD_VARIABLE: "X86_V4 AVX512_ICL"}
    assert cells["SIMD level", "baseline"].changes[SIMD_VARIABLE] == "X86_V3 X86_V4 AVX512_ICL"
    assert [level for (_, level), cell in cells.items() if cell.is_present] == ["0", "all features", "SkylakeX"]
    assert not any(cell.why_not for cell in cells.values())
    for cell in cells.values():
        changed = {name for name, value in cell.changes.items() if present.changes.get(name) != value}
        groups = [{"PYTHONHASHSEED"}, {SIMD_VARIABLE}, {KERNEL_VARIABLE}, set(matrix.THREAD_VARIABLES)]
        assert sum(1 for group in groups if changed & group) == (not cell.is_present), cell


def test_the_recorded_environment_is_tried_if_it_can_do_no_harm() -> None:
    """A recorded setting gets its own cell; nonsense on a tape does not."""
    here = describe_arithmetic()
    recorded = {SIMD_VARIABLE: "X86_V9", "PYTHONHASHSEED": "77"}
    cells = make_matrix(present_cell(recorded), here, recorded)
    assert ("SIMD level", "as recorded") in {(cell.factor, cell.level) for cell in cells}
    assert {cell.changes["PYTHONHASHSEED"] for cell in cells} == {"77", "0", "1", "2", "random"}
    for nonsense in ("\0", "a=b", 7, ["x"], "1" * 1000, "-1", "٣", ""):
        recorded = {SIMD_VARIABLE: nonsense, KERNEL_VARIABLE: nonsense, "PYTHONHASHSEED": nonsense}
        assert present_cell(recorded).changes == {"PYTHONHASHSEED": "0"}
    for nonsense in ("\0", "a=b", 7, ["x"], "1" * 1000, "-1", ""):
        recorded = {SIMD_VARIABLE: nonsense, KERNEL_VARIABLE: nonsense}
        assert "as recorded" not in {cell.level for cell in make_matrix(present_cell(recorded), here, recorded)}


def test_a_setting_without_effect_is_no_test() -> None:
    """If the process reports unchanged features, the cell is not tested, even though a variable was set."""
    arithmetic = attrs.asdict(describe_arithmetic()) | {"simd": ["X86_V3"], "blas_kernel": "Zen"}
    base = certifying.CellReport(present_cell({}), "same", outcome="a", arithmetic=arithmetic)
    for factor, why in (("SIMD level", "X86_V3"), ("BLAS kernel", "Zen")):
        report = certifying.CellReport(certifying.Cell(factor, "any"), "same", outcome="a", arithmetic=arithmetic)
        found = certifying._ensure_effect(report, base)
        assert (found.result, found.why) == ("not tested", f"no effect: the process still uses {why}")
    other = attrs.evolve(report, arithmetic={**arithmetic, "blas_kernel": "Prescott"})
    assert certifying._ensure_effect(other, base) is other


def test_a_different_interpreter_is_named_by_what_differs_in_it() -> None:
    """Only Python, only NumPy, or both."""
    arithmetic = attrs.asdict(describe_arithmetic())
    base = certifying.CellReport(present_cell({}), "same", outcome="a", arithmetic=arithmetic)
    for change, factor in (
        ({"python": "CPython 3.99"}, "Python"),
        ({"numpy": "9.9"}, "NumPy"),
        ({"python": "CPython 3.99", "numpy": "9.9"}, "Python and NumPy"),
    ):
        cell = certifying.Cell("Python and NumPy", "p", python="p")
        report = certifying.CellReport(cell, "differs", arithmetic=arithmetic | change)
        assert certifying._name_versions(report, base).cell.factor == factor


def test_the_digest_sees_every_file_and_byte() -> None:
    """One changed byte of any segment, or a missing file, changes the digest; a new name of the tape does not."""
    with Recorder("a.tape", Walkers(n=2000), split="32KB", keyframe_interval_ticks=2) as tape:
        for _ in range(40):
            tape.step()
            tape.flush()  # The size of the file decides when the next one begins.
    names = sorted(path.name for path in Path().glob("a.tape*"))
    whole = tape_digest("a.tape")
    for name in names:
        shutil.copy(name, "b" + name[1:])

    assert len(names) > 1
    assert tape_digest("b.tape") == whole
    for name in names:
        data = Path(name).read_bytes()
        Path(name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert tape_digest("a.tape") != whole
        Path(name).write_bytes(data)
    Path(names[-1]).unlink()
    assert tape_digest("a.tape") != whole
    assert certificate_path(Path("runs/a.tape")) == Path("runs/a.certificate.json")
