"""replay explain with two tapes of two versions of a package: its files are exchanged one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

import replayer.commands.main
from replayer.diagnose.parties.differences.factor import Factor, give_entry, together
from replayer.diagnose.parties.differences.factors import untested
from replayer.diagnose.parties.differences.module_factors import SINGLY_MAX, module_factors
from replayer.diagnose.parties.party import Made, Party
from replayer.diagnose.parties.party_explanation import FactorTest, PartyExplanation
from replayer.diagnose.parties.step_results import not_exchanged
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


MILL = """
import importlib.util
import sys
from pathlib import Path

import mill_rules

try:
    import mill_wind
except ImportError:
    mill_wind = None


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLUGIN = loaded(Path(__file__).parent / "plugins" / "mill_toll.py")


class Mill:
    def __init__(self):
        self.flour = 0

    def step(self, inputs=None):
        self.flour += mill_rules.ground() * PLUGIN.SHARE
        if self.flour > 5 and mill_wind is not None:
            self.flour += mill_wind.gust()
"""
MILLS = {
    "": {"mill.py": MILL, "mill_rules.py": "def ground():\n    return 2\n", "plugins/mill_toll.py": "SHARE = 1\n"},
    "there": {
        "mill.py": MILL,
        "mill_rules.py": "# Of stone.\ndef ground():\n    return 2\n",
        "mill_wind.py": "def gust():\n    return 1\n",
        "plugins/mill_toll.py": "SHARE = 3 - 2\n",
    },
}


@pytest.mark.seldom(0.3)
def test_a_module_that_one_party_lacks_is_exchanged_and_one_that_no_import_loads_is_not_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rules import nothing: what world.py tries to import is not lent with them."""
    monkeypatch.chdir(tmp_path)
    for place, files in MILLS.items():
        for name, text in files.items():
            path = tmp_path / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        code = (
            RECORD.replace("game_bridge.Bridge", "mill.Mill")
            .replace("game_bridge", "mill")
            .replace("2 if tick < 8 else 3", "")
        )
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / f"{place or 'here'}.tape")], check=True, cwd=tmp_path / place
        )
    assert run(replayer.commands.main.main, "explain here.tape there.tape --sim mill:Mill --other-code there") == 1
    out = capsys.readouterr().out
    wind = "the module mill_wind: not loaded in A, there/mill_wind.py in B"
    assert f"\ncause: {wind}\n" in out
    assert f"  + {wind}: A with it gives what B gives, B with that of A what A gives\n" in out
    rules = "the module mill_rules: mill_rules.py in A, there/mill_rules.py in B"
    assert f"  - {rules}: exchanged, it changes nothing\n" in out
    toll = "the module mill_toll: plugins/mill_toll.py in A, there/plugins/mill_toll.py in B"
    assert f"  ? {toll}: not tested: A: it loads mill_toll from plugins/mill_toll.py all the same\n" in out


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


def test_what_one_party_alone_loads_is_a_difference_where_the_other_one_asks_for_it(folder: Path) -> None:
    """Otherwise it is a part of the code that imports it; if that is not exchanged, it is named as not tested."""
    asking = {"rules/__init__.py": "try:\n    from . import ferry\nexcept ImportError:\n    ferry = None\n"}
    for place in (folder, folder / "there"):
        (place / "rules" / "__init__.py").write_text(asking["rules/__init__.py"])
    for name in ("ferry", "boat"):
        (folder / "there" / "rules" / f"{name}.py").write_text("TOLL = 1\n")
    more = {"rules/ferry.py": "", "rules/boat.py": "", "site-packages/tides.py": ""}
    sides = made(folder, asking), made(folder / "there", {**asking, **more})
    (factor,) = module_factors(*sides)
    assert (factor.name, factor.texts) == ("rules.ferry", ("not loaded", "there/rules/ferry.py"))
    party = Party("A", folder / "a.tape", folder / "a.tape")
    assert dict(factor.give(party, 1).modules) == {"rules.ferry": str(folder / "there" / "rules" / "ferry.py")}
    assert factor.give(party, 0).hidden == {"rules.ferry"}
    parties = party, party
    boat = "the module rules.boat, which only B loads (there/rules/boat.py)"
    tides = "the module site-packages.tides, which only B loads (there/site-packages/tides.py)"
    assert untested(parties, sides, [factor]) == [boat, tides]
    assert untested(parties, sides, [attrs.evolve(factor, brought=("rules.boat",))]) == [tides]
    others = party, attrs.evolve(party, python="another")
    assert untested(others, sides, [factor]) == [boat]


def test_what_a_party_runs_with_is_compared_with_what_it_was_given(folder: Path) -> None:
    """A loader that asks for no import, or a call of the constructor past its class, takes no exchange."""
    sides = made(folder, HERE), made(folder / "there", THERE)
    factor = next(one for one in module_factors(*sides) if one.name == "rules.table")
    party = Party("A", folder / "a.tape", folder / "a.tape")
    changed = factor.give(party, 1)
    right = attrs.evolve(sides[0], modules={**sides[0].modules, "rules.table": sides[1].modules["rules.table"]})
    assert not_exchanged(factor, changed, 0, right) is None
    assert not_exchanged(factor, changed, 0, sides[0]) == "it loads rules.table from rules/table.py all the same"
    assert not_exchanged(together([factor]), changed, 0, sides[0]) is not None
    gone = attrs.evolve(sides[0], modules={})
    assert not_exchanged(factor, changed, 0, gone) == "it does not load rules.table"

    argument = Factor("argument", "toll", ("{1, 2}", "{3}"), give_entry("arguments", "toll", ("{1, 2}", "{3}")))
    given = [attrs.evolve(sides[0], arguments={"toll": literal}) for literal in ("{2, 1}", "{3}")]
    changed = argument.give(party, 0)
    refused = "the constructor did not get the given toll"
    assert [not_exchanged(argument, changed, 1, one) for one in given] == [None, refused]


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
use_modules({places!r}, {lent!r}, {hidden!r})
import asks
"""
ASKS = """
import importlib.util
import rules, rules.table
files = [module.__spec__.origin for module in (rules, rules.table)]
for name in ("rules.charge", "rules.toll"):
    found = importlib.util.find_spec(name)
    files.append(importlib.import_module(name).__spec__.origin if found else "none")
print(*files, sep="|")
print(rules.__file__, rules.table.__file__, sep="|")
"""
LENT = {"rules.table": "there/rules/table.py", "rules.charge": "there/rules/charge.py"}


@pytest.mark.parametrize(
    ("places", "lent", "hidden", "files"),
    [
        ({}, {}, [], "rules/__init__.py|rules/table.py|none|rules/toll.py"),
        ({"rules": "there/rules/__init__.py"}, {}, [], "there/rules/__init__.py|rules/table.py|none|rules/toll.py"),
        (
            {"rules": "there/rules"}, {}, [],
            "there/rules/__init__.py|there/rules/table.py|there/rules/charge.py|none",
        ),
        ({"rules.table": "there/rules/table.py"}, {}, [], "rules/__init__.py|there/rules/table.py|none|rules/toll.py"),
        ({"asks": "asks.py"}, LENT, [], "rules/__init__.py|rules/table.py|there/rules/charge.py|rules/toll.py"),
        ({"rules.table": "there/rules/table.py"}, LENT, [], "rules/__init__.py|there/rules/table.py|none|rules/toll.py"),
        ({}, LENT, [], "rules/__init__.py|rules/table.py|none|rules/toll.py"),
        ({}, {}, ["rules.toll"], "rules/__init__.py|rules/table.py|none|none"),
        ({"asks": "asks.py"}, LENT, ["rules.toll"], "rules/__init__.py|rules/table.py|there/rules/charge.py|none"),
    ],
)  # fmt: skip
@pytest.mark.sample(3)
def test_modules_come_from_their_places_and_lent_ones_only_to_what_was_given_where_there_is_no_other(
    folder: Path, places: dict[str, str], lent: dict[str, str], hidden: list[str], files: str
) -> None:
    """The __init__ of a package alone leaves its other modules as they are; a hidden module is not found in any way.

    A file lies in the place of the other one: it sees the files there.
    """
    (folder / "asks.py").write_text(ASKS)
    given, from_there = ({name: str(folder / place) for name, place in table.items()} for table in (places, lent))
    code = IMPORT.format(places=given, lent=from_there, hidden=hidden)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded, seen = done.stdout.replace(f"{folder}/", "").splitlines()
    assert loaded == files
    whole = "there/" if places.get("rules") == "there/rules" else ""
    assert seen == f"{whole}rules/__init__.py|{whole}rules/table.py"
