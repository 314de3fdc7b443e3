"""replay explain with two tapes of two versions of a package: its files are exchanged one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

import replayer.commands.main
from replayer.diagnose.parties.differences.factor import Factor
from replayer.diagnose.parties.differences.module_factors import SINGLY_MAX, module_factors
from replayer.diagnose.parties.party import Made
from replayer.diagnose.parties.party_explanation import FactorTest, PartyExplanation
from replayer.report.parties.factor_text import changed_lines, factor_text

from oracle.command_lines import run

GAME = """
from rules.{toll_module} import TOLL
from rules.fare import fare


class Bridge:
    def __init__(self):
        self.till = 0

    def step(self, weight=1):
        self.till += fare(weight) + TOLL


"""
FARE = """from rules.table import STEPS


def fare({name}):
    whole = {name} * 2
    return whole + STEPS[{name} % 4]
"""
HERE = {
    "game_bridge.py": GAME.format(toll_module="toll"),
    "rules/__init__.py": "",
    "rules/fare.py": FARE.format(name="weight"),
    "rules/table.py": "STEPS = (0, 1, 2, 3)\n",
    "rules/toll.py": "TOLL = 3\n",
}
THERE = {
    "game_bridge.py": GAME.format(toll_module="charge"),
    "rules/__init__.py": "",
    "rules/fare.py": FARE.format(name="load"),
    "rules/table.py": "STEPS = (0, 1, 2, 4)\n",
    "rules/charge.py": "TOLL = 3\n",
}
RECORD = """
import sys, recorder, game_bridge
bridge = recorder.record(game_bridge.Bridge(), sys.argv[1])
for tick in range(12):
    bridge.step(2 if tick < 8 else 3)
bridge.close()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two versions, and a tape of each."""
    for place, files in (("", HERE), ("there", THERE)):
        for name, text in files.items():
            path = tmp_path / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.seldom(0.3)
def test_one_file_of_a_package_is_the_cause_and_no_line_of_a_file_without_an_effect_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that one party alone has, under another name, is lent to the file that imports it."""
    for tape, place in (("a.tape", folder), ("b.tape", folder / "there")):
        code = f"import sys; sys.path.insert(0, {str(place)!r})\n{RECORD}"
        subprocess.run([sys.executable, "-c", code, tape], check=True)
    assert run(replayer.commands.main.main, "explain a.tape b.tape --sim game_bridge:Bridge --other-code there") == 1
    out = capsys.readouterr().out
    pair = "rules/table.py in A, there/rules/table.py in B"
    assert f"\ncause: the module rules.table: {pair}\n" in out
    tested = out[out.index("\ntested at") :]
    lent = "with rules.charge, rules.toll, which it imports and only one of them has"
    game = f"the module game_bridge: game_bridge.py in A, there/game_bridge.py in B, {lent}"
    assert f"  - {game}: exchanged, it changes nothing\n" in tested
    assert "  - the module rules.fare: " in tested
    line = out[out.index("\nline: ") : out.index("\ntested at")]
    assert "there/rules/fare.py" not in line
    assert "there/rules/table.py:1 (B)\n      STEPS = (0, 1, 2, 4)\n" in line


# --- the differences


def made(folder: Path, files: dict[str, str], **facts: object) -> Made:
    modules = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): name for name in files}
    places = {name: str(folder / file) for name, file in modules.items()}
    usual: dict[str, object] = {"versions": {}, "early": [], **facts}
    return Made("game_bridge:Bridge", {}, places, python="3.12.0", **usual)  # type: ignore[arg-type]


def named(factors: list[Factor]) -> list[tuple[str, str]]:
    return [(factor.kind, factor.name) for factor in factors]


def test_the_files_of_a_package_come_one_by_one_before_the_package(folder: Path) -> None:
    """Many files come as their packages, and a package that a process loads early cannot come in parts."""
    sides = made(folder, HERE), made(folder / "there", THERE)
    files = [("module", "game_bridge"), ("module", "rules.fare"), ("module", "rules.table")]
    assert named(module_factors(*sides)) == [*files, ("package", "rules")]
    early = attrs.evolve(sides[0], early=["rules"]), sides[1]
    assert named(module_factors(*early)) == [("module", "game_bridge"), ("module", "rules")]

    many = [{f"rules/part{number}.py": f"x = {of}" for number in range(SINGLY_MAX)} for of in (1, 2)]
    for place, texts in zip((folder, folder / "there"), many, strict=True):
        for name, text in texts.items():
            (place / name).write_text(text)
    sides = made(folder, HERE | many[0]), made(folder / "there", THERE | many[1])
    assert named(module_factors(*sides)) == [("module", "game_bridge"), ("module", "rules")]


def test_versions_of_a_package_are_told_with_its_files(folder: Path) -> None:
    sides = [
        made(place, files, versions={"rules": version})
        for place, files, version in ((folder, HERE, "1.0"), (folder / "there", THERE, "1.1"))
    ]
    texts = [factor_text(factor) for factor in module_factors(sides[0], sides[1])]
    told = "rules/table.py (rules 1.0) in A, there/rules/table.py (rules 1.1) in B"
    assert f"the module rules.table: {told}" in texts
    assert "the package rules as a whole: 1.0 in A, 1.1 in B" in texts


def test_the_lines_that_differ_stand_under_the_names_of_their_files(folder: Path) -> None:
    """A file with the same lines is not named."""
    whole = module_factors(made(folder, HERE), made(folder / "there", THERE))[-1]
    difference: Any = None  # It is not read.
    lines = changed_lines(PartyExplanation(difference, (difference, difference)), FactorTest(whole, ("B", "A")))
    assert lines[0] == "  rules/fare.py in A, there/rules/fare.py in B:"
    start = lines.index("  rules/table.py in A, there/rules/table.py in B:")
    assert lines[start + 1 :] == ["    -STEPS = (0, 1, 2, 3)", "    +STEPS = (0, 1, 2, 4)"]


# --- in the process of a party

IMPORT = """
import sys
from replayer.diagnose.parties.given_modules import use_modules
sys.path.insert(0, "")
use_modules({places!r}, {lent!r})
import rules, rules.table
try:
    import rules.charge as further
except ImportError as error:
    further = error
print(rules.__file__, rules.table.__file__, getattr(further, "__file__", "none"), sep="|")
"""


@pytest.mark.parametrize(
    ("places", "lent", "files"),
    [
        ({}, {}, "rules/__init__.py|rules/table.py|none"),
        ({"rules": "there/rules/__init__.py"}, {}, "there/rules/__init__.py|rules/table.py|none"),
        ({"rules": "there/rules"}, {}, "there/rules/__init__.py|there/rules/table.py|there/rules/charge.py"),
        ({"rules.table": "there/rules/table.py"}, {}, "rules/__init__.py|there/rules/table.py|none"),
        (
            {},
            {"rules.table": "there/rules/table.py", "rules.charge": "there/rules/charge.py"},
            "rules/__init__.py|rules/table.py|there/rules/charge.py",
        ),
    ],
)
def test_modules_come_from_their_places_and_lent_ones_only_where_there_is_no_other(
    folder: Path, places: dict[str, str], lent: dict[str, str], files: str
) -> None:
    """The __init__ of a package alone leaves its other modules as they are."""
    tables = [{name: str(folder / place) for name, place in table.items()} for table in (places, lent)]
    code = IMPORT.format(places=tables[0], lent=tables[1])
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip().replace(f"{folder}/", "") == files
