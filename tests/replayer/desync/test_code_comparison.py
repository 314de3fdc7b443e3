"""The user's code is compared with the one that the recording's process had loaded: what differs is named, and not blamed."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import msgpack
import pytest
from optional_packages import needs

import recorder
from recorder.ambient.outside import loaded_code
from recorder.ambient.outside.code_parts.code_note import CodeNote, decode_code_note
from recorder.ambient.outside.loaded_code import KEY, code_note, compare_code
from recorder.ambient.outside.outside_note import KEY as OUTSIDE
from replayer import Tape
from replayer.desync.code_comparison import (
    CODE,
    asks_for_earlier_code,
    compared_code,
    names_a_change,
    versions_not_tested,
)
from replayer.report.report_text import print_report
from replayer.timeline.verify import verify_tape
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import Meadow

NAME, HELPERS = "code_of_a_shop", "code_of_its_helpers"
SHOP = '''"""A shop."""
import functools
import code_of_its_helpers
from code_of_its_helpers import half

LIMIT = 100


class Shop:
    """Sells."""

    FEE = (1, "x")

    def __init__(self):
        self.gold, self.days = 10.0, 0

    def step(self, amount=1.5):
        """Earn."""
        self.days += 1
        self.gold += half(amount) + sum(one for one in (1, 2)) + (lambda: 4)()
        return "sold" if self.gold in {5, 6} else "open"

    @property
    def rich(self):
        return self.gold > LIMIT

    @staticmethod
    def name():
        return "shop"

    @functools.cached_property
    def late(self):
        return self.days + 1

    class Till:
        def open(self):
            return 1
'''
BEHIND = f"""{SHOP}
import enum
import numpy as np


def told(function):
    @functools.wraps(function)
    def telling(*args):
        return function(*args)

    return telling


class Kept:
    def __init__(self, function):
        self.kept = function

    def __call__(self, *args):
        return self.kept(*args)


class Kind(enum.Enum):
    BREAD = 31


class Stall:
    tax = 0.25


DATES = np.array(["2026-01-31"], "M8[D]")
PRICES = {{"bread": [3, 4], "cake": {{1, 2}}}}
WEIGHTS = np.array([1.5, 2.5])
RULES = {{"day": lambda shop: shop.days + 71}}


@functools.lru_cache
def cached(x):
    return x + 11


@functools.singledispatch
def spread(x):
    return x + 21


@spread.register
def spread_text(x: str):
    return x + "22"


@told
def wrapped(x):
    return x + 41


@Kept
def kept(x):
    return x + 51


part = functools.partial(lambda x, y: x + y + 61, 1)


def ordered(units, key=lambda unit: unit + 81):
    return sorted(units, key=key)
"""
SAME_FILES = " (their files are the same)"
NOT_TESTED = "not tested whether that makes the difference"
SECRET = SHOP.replace("half(amount)", "self.secret[0]").replace(
    "class Shop:", "class Box(list):\n    pass\n\n\nSECRET = Box([1])\n\n\nclass Shop:\n    secret = SECRET\n"
)
ELSEWHERE = SHOP.replace("half(amount)", "getattr(functools, 'secret_of_a_shop', 1)")
EQUAL = "compared and equal: 7 functions and 3 values of the recorded class's modules"
HELP = "rate = 2\n\n\ndef half(x):\n    return x / rate\n"
Load = Callable[..., types.ModuleType]


@pytest.fixture
def load_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Loads the two modules from these sources, as a new process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def loaded(shop: str = SHOP, helpers: str = HELP) -> types.ModuleType:
        for name, text in ((HELPERS, helpers), (NAME, shop)):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(NAME)

    yield loaded
    for name in (NAME, HELPERS):
        sys.modules.pop(name, None)


def note_of(simulation: Any) -> CodeNote:
    """The note on the code around a simulation, as read from a tape."""
    note = decode_code_note(code_note(simulation)[KEY])
    assert note is not None
    return note


def test_modules_of_what_stands_in_tables_are_compared(load_shop: Load) -> None:
    """A class of another module that this one names in a table alone; a tape of before has no digest of that module."""
    shop = SHOP.replace(
        "import code_of_its_helpers\nfrom code_of_its_helpers import half", f"from {HELPERS} import KINDS as kinds"
    )
    shop = shop.replace("half(amount)", "kinds['stall']().rent")
    helpers = "class Stall:\n    rent = 2\n\n    def close(self):\n        return 1\n\n\nKINDS = {'stall': Stall}\n"
    plain = code_note(load_shop(shop, helpers).Shop())[KEY]
    note = decode_code_note(plain)
    edited = load_shop(shop, helpers.replace("return 1", "return 2")).Shop()
    assert note is not None
    found = compare_code(note, edited)
    assert found is not None
    assert found.different == [f"Stall.close ({HELPERS}.py:5)"]

    earlier = decode_code_note({name: one for name, one in plain.items() if name != "tables"})
    assert earlier is not None
    found = compare_code(earlier, edited)
    assert found is not None
    assert "Stall" not in str(found.different)


@pytest.mark.parametrize("wrapper", ["functools.cache", "functools.partial"])
def test_modules_of_which_only_wrapped_functions_are_used_are_compared(load_shop: Load, wrapper: str) -> None:
    """What the wrapped function calls there is, too; a tape of before has no digest of that module."""
    shop = SHOP.replace("import code_of_its_helpers\n", "")
    helpers = f"import functools\n\n\ndef rate():\n    return 2\n\n\n@{wrapper}\ndef half(x):\n    return x / rate()\n"
    plain = code_note(load_shop(shop, helpers).Shop())[KEY]
    edited = load_shop(shop, helpers.replace("return 2", "return 3")).Shop()
    for kept, different in (("", [f"rate ({HELPERS}.py:5)"]), ("wrapped", [])):
        note = decode_code_note({name: one for name, one in plain.items() if name != kept})
        assert note is not None
        found = compare_code(note, edited)
        assert found is not None
        assert found.different == different


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('"""Earn."""', '"""Earn more."""'),
        ("        self.days += 1\n", "        # A day.\n\n        self.days += 1\n"),
        ('"""A shop."""', '"""Another shop."""\n\n'),
    ],
)
def test_comments_lines_and_docstrings_do_not_count(load_shop: Load, old: str, new: str) -> None:
    """The same code gives the same digests, in whichever lines it is."""
    note = note_of(load_shop().Shop())
    found = compare_code(note, load_shop(SHOP.replace(old, new, 1)).Shop())
    assert found is not None
    assert (found.different, found.values, found.compared, found.compared_values) == ([], [], 7, 3)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("self.days += 1", "self.days += 2", ["Shop.step (code_of_a_shop.py:19)"]),
        ("amount=1.5", "amount=1.25", ["Shop.step (code_of_a_shop.py:17)"]),
        ("(1, 2)", "(1, 3)", ["Shop.step (code_of_a_shop.py:20)"]),
        ("lambda: 4", "lambda: 5", ["Shop.step (code_of_a_shop.py:20)"]),
        ("{5, 6}", "{5, 7}", ["Shop.step (code_of_a_shop.py:21)"]),
        ('"sold"', '"gone"', ["Shop.step (code_of_a_shop.py:21)"]),
        ("self.gold > LIMIT", "self.gold >= LIMIT", ["Shop.rich (code_of_a_shop.py:25)"]),
        ('return "shop"', 'return "SHOP"', ["Shop.name (code_of_a_shop.py:29)"]),
        ("self.days + 1", "self.days + 3", ["Shop.late (code_of_a_shop.py:33)"]),
        ("return 1\n", "return 2\n", ["Shop.Till.open (code_of_a_shop.py:37)"]),
        ("class Shop:", "def new():\n    return 1\n\nclass Shop:", ["new (code_of_a_shop.py:9)"]),
    ],
)
def test_each_definition_that_changed_is_named(load_shop: Load, old: str, new: str, named: list[str]) -> None:
    """With its file and line as they are now; a constant with its file."""
    note = note_of(load_shop().Shop())
    assert old in SHOP
    found = compare_code(note, load_shop(SHOP.replace(old, new, 1)).Shop())
    assert found is not None
    assert found.different == named


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("x + 11", "x + 12", "cached"),
        ("x + 21", "x + 23", "spread"),
        ('x + "22"', 'x + "23"', "spread_text"),
        ("x + 41", "x + 42", "wrapped"),
        ("x + 51", "x + 52", "kept"),
        ("y + 61", "y + 62", "part"),
        ("days + 71", "days + 72", "RULES"),
        ("unit + 81", "unit + 82", "ordered"),
    ],
)
def test_functions_behind_decorators_and_in_tables_are_compared(
    load_shop: Load, old: str, new: str, named: str
) -> None:
    """Those of Python, of the user's, and classes; in partial calls, defaults and tables; each with its own line."""
    note = note_of(load_shop(BEHIND).Shop())
    edited = BEHIND.replace(old, new, 1)
    found = compare_code(note, load_shop(edited).Shop())
    assert found is not None
    [line] = [number for number, text in enumerate(edited.splitlines(), 1) if new in text]
    places = {
        f"{name} (code_of_a_shop.py:{line})" for name in ("spread", named)
    }  # One registered for a type has both names.
    assert set(found.different) <= places
    assert f"{named} (code_of_a_shop.py:{line})" in found.different
    assert found.values == []


KEEPING = (
    SHOP
    + """

import re


def raised(by):
    def raising(x, *_):
        return x + by
    return raising


def charged(fee):
    def charging(function):
        @functools.wraps(function)
        def inner(*arguments):
            return function(*arguments) + fee
        return inner
    return charging


def listed(x, prices=[31, 32]):
    return prices[x]


by_one = raised(1)
part = functools.partial(max, 11)
tables = {"toll": raised(41), 5: "a plain one"}
WORDS = re.compile("a+b")


class Counter:
    doubled = functools.partialmethod(raised(2), 21)

    @charged(fee=51)
    def paid(self):
        return 1
"""
)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("raised(1)", "raised(3)", "by_one"),
        ("max, 11", "max, 12", "part"),
        ("raised(41)", "raised(42)", "tables"),
        ("a plain one", "another one", "tables"),
        ("a+b", "a*b", "WORDS"),
        ('"a+b"', '"a+b", re.ASCII', "WORDS"),
        ("raised(2), 21", "raised(2), 22", "Counter.doubled"),
        ("raised(2), 21", "raised(3), 21", "Counter.doubled"),
        ("[31, 32]", "[31, 33]", "listed"),
    ],
)
def test_what_functions_keep_is_compared_as_values_are(load_shop: Load, old: str, new: str, named: str) -> None:
    """Free variables, arguments of partial calls, patterns, and defaults that can change: the code is the same."""
    note = note_of(load_shop(KEEPING).Shop())
    edited = KEEPING.replace(old, new, 1)
    found = compare_code(note, load_shop(edited).Shop())
    assert found is not None
    [line] = [number for number, text in enumerate(edited.splitlines(), 1) if new in text]
    assert (found.different, found.values) == ([], [f"{named} (code_of_a_shop.py:{line})"])
    assert found.left_out == []


def test_what_a_decorated_method_keeps_is_named_by_the_method(load_shop: Load) -> None:
    """Its line is that of its own definition."""
    note = note_of(load_shop(KEEPING).Shop())
    found = compare_code(note, load_shop(KEEPING.replace("fee=51", "fee=52")).Shop())
    assert found is not None
    [line] = [number for number, text in enumerate(KEEPING.splitlines(), 1) if "def paid" in text]
    assert (found.different, found.values) == ([], [f"Counter.paid (code_of_a_shop.py:{line})"])


def test_what_functions_keep_is_not_compared_with_a_note_that_lacks_it(load_shop: Load) -> None:
    """An earlier version noted none: that says nothing, and what they keep is left out."""
    used = KEEPING.replace("self.days += 1", "self.days += by_one(0)")
    plain = code_note(load_shop(used).Shop())[KEY]
    del plain["keeps"]
    note = decode_code_note(plain)
    assert note is not None
    found = compare_code(note, load_shop(used.replace("raised(1)", "raised(3)")).Shop())
    assert found is not None
    assert (found.different, found.values, found.gone_values) == ([], [], 0)
    assert [one.partition(" ")[0] for one in found.left_out] == ["by_one", "Counter.doubled", "Counter.paid"]


def test_what_functions_keep_and_no_text_tells_is_left_out(load_shop: Load) -> None:
    """A function that keeps itself ends; one that keeps an object is none of those that were compared."""
    text = KEEPING.replace("self.days += 1", "self.days += by_one(again)")
    text += "\n\ndef looped():\n    def inner():\n        return inner\n    return inner\n\nagain = raised(looped())\n"
    text += "by_one = raised(Shop())\n"
    found = compare_code(note_of(load_shop(text).Shop()), load_shop(text).Shop())
    assert found is not None
    assert (found.different, found.values) == ([], [])
    assert [one.partition(" ")[0] for one in found.left_out] == ["by_one"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("LIMIT = 100", "LIMIT = 99", "LIMIT"),
        ('(1, "x")', '(2, "x")', "Shop.FEE"),
        ("tax = 0.25", "tax = 0.5", "Stall.tax"),
        ("[3, 4]", "[3, 5]", "PRICES"),
        ("{1, 2}", "{1, 3}", "PRICES"),
        ("[1.5, 2.5]", "[1.5, 3.5]", "WEIGHTS"),
        ("BREAD = 31", "BREAD = 32", "Kind.BREAD"),
        ("2026-01-31", "2026-02-01", "DATES"),
    ],
)
def test_plain_values_are_compared_apart(load_shop: Load, old: str, new: str, named: str) -> None:
    """The same code gives another value where it asks the outside world: with the line of the assignment."""
    note = note_of(load_shop(BEHIND).Shop())
    assert old in BEHIND
    edited = BEHIND.replace(old, new, 1)
    found = compare_code(note, load_shop(edited).Shop())
    assert found is not None
    [line] = [number for number, text in enumerate(edited.splitlines(), 1) if new in text]
    assert (found.different, found.values) == ([], [f"{named} (code_of_a_shop.py:{line})"])


MENU = """
import enum


class Course(enum.IntFlag):
    SOUP = 1
    FISH = 2
    CAKE = 4


class Cook:
    def step(self):
        return Course.CAKE
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("", "", []),
        ("    CAKE = 4\n", "    CAKE = 4\n    RICE = 8\n", ["Course.RICE (code_of_a_shop.py:9)"]),
        (
            "    SOUP = 1\n    FISH = 2\n",
            "    FISH = 2\n    SOUP = 1\n",
            ["the members of Course (code_of_a_shop.py)"],
        ),
    ],
)
def test_of_an_enumeration_the_members_are_named_alone(load_shop: Load, old: str, new: str, named: list[str]) -> None:
    """Lists and masks that Python keeps for it follow from them: they are no values of the user's."""
    note = note_of(load_shop(MENU).Cook())
    found = compare_code(note, load_shop(MENU.replace(old, new, 1)).Cook())
    assert found is not None
    assert (found.values, found.gone_values) == (named, 0)
    assert found.compared_values == 3 + ("RICE" in new)


def test_modules_that_the_class_uses_are_compared(load_shop: Load) -> None:
    """Those of the user's; Python's own are not."""
    note = note_of(load_shop().Shop())
    found = compare_code(note, load_shop(helpers=HELP.replace("x / rate", "x * (1 / rate)")).Shop())
    assert found is not None
    assert found.different == ["half (code_of_its_helpers.py:5)"]


LAZY = {
    "code_of_a_guest": '"""A guest."""\n\nTIP = 3\n\n\nclass Guest:\n    """One."""\n\n    def pays(self):\n        return TIP\n',
    "code_of_a_cook": "def cooks():\n    import code_of_a_guest\n    return code_of_a_guest.TIP\n",
}


@pytest.mark.parametrize(
    ("module", "old", "new", "told"),
    [
        ("code_of_a_guest", "TIP = 3", "TIP = 4", ["code_of_a_guest (imported at code_of_a_cook.py:2)"]),
        ("code_of_a_guest", "return TIP", "return 2 * TIP", ["code_of_a_guest (imported at code_of_a_cook.py:2)"]),
        ("code_of_a_guest", '"""A guest."""', '"""Guests."""\n\n# Of a shop.', []),
        ("code_of_a_guest", '"""One."""', '"""One of many."""', []),
        ("code_of_a_cook", ".TIP", ".TIP + 1", ["code_of_a_cook (imported at code_of_a_shop.py:19)"]),
    ],
)
def test_modules_that_functions_import_are_compared(
    load_shop: Load, tmp_path: Path, module: str, old: str, new: str, told: list[str]
) -> None:
    """Whether or not they are loaded when the recording begins: by their sources, and what those import in turn."""
    for name, text in LAZY.items():
        (tmp_path / f"{name}.py").write_text(text)
    lazy = SHOP.replace("self.days += 1", "import json, code_of_a_cook\n        self.days += code_of_a_cook.cooks()", 1)
    note = note_of(load_shop(lazy).Shop())
    edited = LAZY[module].replace(old, new)
    assert edited != LAZY[module]
    (tmp_path / f"{module}.py").write_text(edited)
    shop = load_shop(lazy).Shop()
    found = compare_code(note, shop)
    assert found is not None
    assert (found.different, found.values, found.imported) == ([], [], told)
    assert not {*LAZY, "json"} <= sys.modules.keys()
    earlier = compare_code(attrs.evolve(note, imported=None), shop)
    assert earlier is not None
    assert (earlier.imported, len(earlier.left_out)) == ([], 2)


def test_a_module_that_a_function_imports_is_told_as_changed(load_shop: Load, tmp_path: Path) -> None:
    """What was compared is not all of the code, then, and the earlier code is asked for."""
    (tmp_path / "code_of_a_guest.py").write_text(LAZY["code_of_a_guest"])
    lazy = SHOP.replace("self.days += 1", "import code_of_a_guest\n        self.days += code_of_a_guest.TIP", 1)
    recorded(load_shop(lazy), tmp_path / "run.tape")
    sys.modules.pop("code_of_a_guest", None)
    (tmp_path / "code_of_a_guest.py").write_text("TIP = 12")
    found = said_of_code(tmp_path / "run.tape", load_shop(lazy).Shop)
    assert found.suspicious is None
    assert "code_of_a_guest (imported at code_of_a_shop.py:19)" in found.found
    assert names_a_change(found)
    assert versions_not_tested(found).startswith("other versions of the code")


def test_a_class_that_is_being_recorded_has_its_own_code(load_shop: Load, tmp_path: Path) -> None:
    """The method of the step is diverted while a recording is open."""
    shop = load_shop()
    before = note_of(shop.Shop())
    with recorder.record(shop.Shop(), tmp_path / "one.tape", quiet=True, trial_ms=0) as one:
        one.step()
        assert note_of(shop.Shop()) == before


def recorded(shop: types.ModuleType, path: Path, **options: Any) -> None:
    """Record 20 steps of a shop."""
    with recorder.record(shop.Shop(), path, quiet=True, trial_ms=0, **options) as one:
        for _ in range(20):
            one.step()


def said_of_code(path: Path, world: Any) -> Any:
    """What verify says about the code."""
    (finding,) = verify_tape(path, world).findings
    return next((one for one in finding.tested if one.cause == CODE), None)


def test_verify_names_what_changed_and_does_not_blame_it(load_shop: Load, tmp_path: Path) -> None:
    """Equal code is ruled out; a change is told as one that was not tested."""
    recorded(load_shop(), tmp_path / "run.tape")
    assert verify_tape(tmp_path / "run.tape", load_shop().Shop).ok
    changed = load_shop(SHOP.replace("self.days += 1", "self.days += 2"))
    found = said_of_code(tmp_path / "run.tape", changed.Shop)
    assert (found.suspicious, found.found) == (
        None,
        "changed since the recording, or new: Shop.step (code_of_a_shop.py:19); not tested whether that makes the difference",
    )
    load_shop()
    sys.modules[HELPERS].rate = 3  # type: ignore[attr-defined]
    found = said_of_code(tmp_path / "run.tape", sys.modules[NAME].Shop)
    equal = "compared and equal: 7 functions of the recorded class's modules"
    other = f"values other than when the recording began, or new{SAME_FILES}: rate (code_of_its_helpers.py:1)"
    assert (found.suspicious, found.found) == (None, f"{equal}; {other}; {NOT_TESTED}")
    assert versions_not_tested(found) == "other versions of libraries"


def test_the_next_command_takes_the_earlier_code_where_a_change_is_named(
    load_shop: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it explain cannot tell what the change does. Where no code differs, it is not offered."""
    recorded(load_shop(ELSEWHERE), tmp_path / "run.tape")
    monkeypatch.setattr(functools, "secret_of_a_shop", 2, raising=False)
    for text, is_offered in ((ELSEWHERE.replace("self.days += 1", "self.days += 2"), True), (ELSEWHERE, False)):
        load_shop(text)
        world = sys.modules[NAME].Shop
        print_report(tmp_path / "run.tape", verify_tape(tmp_path / "run.tape", world), "shop:Shop")
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next: ")]
        assert "--sim shop:Shop" in line
        assert ("--sim shop:Shop --code FOLDER  # FOLDER: the code as it was recorded" in line) is is_offered


ADDED = "self.days += 1"
RUNS = {
    "sold": ("sold = 0", "global sold\n        sold += 1"),
    "Shop.sold": ("sold = 0", "Shop.sold += 1"),
    "BOOK": ("BOOK = {}", "BOOK[self.days] = 1"),
    "dice": ("import random\ndice = random.Random(1)", "dice.random()"),
    "code_of_its_helpers.rate": ("", "code_of_its_helpers.rate = self.days"),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_value_that_functions_change_asks_for_no_earlier_code(
    name: str, load_shop: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run leaves another one there, and the code is the same. Of a value that none changes it may be an edit."""
    defined, statement = RUNS[name]
    before, indent = ("FEE = ", "    ") if name == "Shop.sold" else ("class Shop:", "")
    text = ELSEWHERE.replace(before, f"{defined}\n{indent}{before}", 1).replace("LIMIT = 100", "LIMIT = 100\nfixed = 0")
    text = text.replace(ADDED, f"{ADDED}\n        {statement}")
    shop = load_shop(text)
    for _ in range(3):
        shop.Shop().step()
    recorded(shop, tmp_path / "run.tape")
    monkeypatch.setattr(functools, "secret_of_a_shop", 2, raising=False)
    for fixed in (0, 1):
        shop = load_shop(text.replace("fixed = 0", f"fixed = {fixed}"))
        found = said_of_code(tmp_path / "run.tape", shop.Shop)
        if not fixed:
            [of_runs] = [part for part in found.found.split("; ") if "functions change" in part]
            assert name.rpartition(".")[2] in of_runs
        assert asks_for_earlier_code(found, is_explained=False) is bool(fixed), found.found


def test_a_value_that_the_replay_itself_changes_is_no_difference(load_shop: Load, tmp_path: Path) -> None:
    """A counter of calls, which begins again in each process: it is compared as it was before the replay."""
    counting = SHOP.replace("LIMIT = 100", "LIMIT = 100\ncalls = 0", 1).replace(
        '"""Earn."""', '"""Earn."""\n        global calls\n        calls += 1'
    )
    recorded(load_shop(counting), tmp_path / "run.tape")
    changed = load_shop(counting.replace("self.days += 1", "self.days += 2"))
    found = said_of_code(tmp_path / "run.tape", changed.Shop)
    assert found.found == (
        "changed since the recording, or new: Shop.step (code_of_a_shop.py:22); not tested whether that makes the difference"
    )


def test_equal_code_is_ruled_out(load_shop: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference is of something that no module of the user's has."""
    recorded(load_shop(ELSEWHERE), tmp_path / "run.tape")
    load_shop(ELSEWHERE)
    monkeypatch.setattr(functools, "secret_of_a_shop", 2, raising=False)
    found = said_of_code(tmp_path / "run.tape", sys.modules[NAME].Shop)
    assert (found.suspicious, found.found) == (
        False,
        f"{EQUAL}, when the recording began, and the functions at its keyframes",
    )


def test_what_was_replaced_while_it_was_recorded_is_named(load_shop: Load, tmp_path: Path) -> None:
    """By a program that patches a function: a replay has the one of the module. A keyframe bounds the ticks."""
    shop = load_shop()
    with recorder.record(shop.Shop(), tmp_path / "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=10) as one:
        for tick in range(1, 41):
            one.step()
            if tick == 14:
                shop.half = lambda amount: amount / 3  # type: ignore[attr-defined]
            if tick == 25:
                shop.LIMIT = 50  # type: ignore[attr-defined]
    found = said_of_code(tmp_path / "run.tape", load_shop().Shop)
    line = next(
        number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "amount / 3" in text
    )
    functions, constants = f"half (test_code_comparison.py:{line})", "LIMIT (code_of_a_shop.py)"
    told = (
        f"replaced while the run was recorded: {functions} between tick 10 and 20, {constants} between tick 20 and 30"
    )
    assert (found.suspicious, found.found) == (None, f"{EQUAL}; {told}; {NOT_TESTED}")
    assert versions_not_tested(found) == "other versions of libraries"


def test_a_constant_that_steps_assign_is_not_replaced_from_outside(load_shop: Load, tmp_path: Path) -> None:
    """A counter may have the name of a constant: a replay counts, too."""
    counting = SHOP.replace('"""Earn."""', '"""Earn."""\n        global LIMIT\n        LIMIT += 1')
    recorded(load_shop(counting), tmp_path / "run.tape", keyframe_interval_ticks=5)
    with Tape(tmp_path / "run.tape") as tape:
        assert tape.outcome == {"reason": "closed"}


def test_code_that_was_edited_before_a_tape_was_resumed_is_named(load_shop: Load, tmp_path: Path) -> None:
    """The note is of the first session."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, load_shop(STATES).One(), trial_ms=0, keyframe_interval_ticks=5) as tape:
        for _ in range(5):
            tape.step()
    edited = STATES.replace("+= 1", "+= 3")
    with recorder.resume(path, load_shop(edited).One()) as tape:
        for _ in range(5):
            tape.step()
    found = said_of_code(path, load_shop(STATES).One)
    assert found.found == (
        "compared and equal: 3 functions of the recorded class's modules; replaced while the run was recorded: "
        f"One.step (code_of_a_shop.py:10) at tick 5; {NOT_TESTED}"
    )


def test_of_a_run_that_was_killed_it_is_not_known(
    load_shop: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of its tape would tell what was replaced."""
    tape = recorder.record(load_shop(ELSEWHERE).Shop(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    for _ in range(5):
        tape.step()
    tape.tape.flush()
    (tmp_path / "killed.tape").write_bytes((tmp_path / "run.tape").read_bytes())
    tape.close()
    load_shop(ELSEWHERE)
    monkeypatch.setattr(functools, "secret_of_a_shop", 2, raising=False)
    found = said_of_code(tmp_path / "killed.tape", sys.modules[NAME].Shop)
    assert (found.suspicious, found.found) == (
        None,
        f"{EQUAL}; whether any was replaced while the run was recorded is not known",
    )


class Unbound:
    """Stands for a proxy of a web framework that is asked outside of a request."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        raise RuntimeError("nothing is bound")

    def __call__(self) -> None:
        """Called like a function."""


def test_code_that_cannot_be_looked_at_stops_no_recording(
    load_shop: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on it is not known what was replaced."""
    shop, path = load_shop(ELSEWHERE), tmp_path / "run.tape"
    with recorder.record(shop.Shop(), path, quiet=True, trial_ms=0, keyframe_interval_ticks=5) as one:
        for tick in range(1, 21):
            one.step()
            if tick == 7:
                shop.half = Unbound()  # type: ignore[attr-defined]
    with Tape(path) as tape:
        assert tape.sealed
    load_shop(ELSEWHERE)
    monkeypatch.setattr(functools, "secret_of_a_shop", 2, raising=False)
    found = said_of_code(path, sys.modules[NAME].Shop)
    assert found.found == f"{EQUAL}; whether any was replaced while the run was recorded is not known"


def test_an_outcome_that_holds_no_note_leaves_its_session_unknown(load_shop: Load, tmp_path: Path) -> None:
    """Only an outcome that is a mapping tells what was replaced."""
    path = tmp_path / "run.tape"
    module = load_shop(STATES)
    with recorder.Recorder(path, module.One(), trial_ms=0) as tape:
        step, module.One.step = module.One.step, lambda self, _: self.state["x"].__iadd__(1)
        for _ in range(5):
            tape.step()
        module.One.step = step
        tape.close(outcome="won")
    with recorder.resume(path, module.One()) as tape:
        tape.step()
    with Tape(path) as tape:
        found = compared_code(tape, load_shop(STATES).One)
    assert found is not None
    assert found.found.endswith("; whether any was replaced while the run was recorded is not known")


def test_a_method_that_was_removed_is_no_equal_code(load_shop: Load, tmp_path: Path) -> None:
    """The one of a base class is called then. Its name is not on the tape, which has digests."""
    more = "\n\nclass Market(Shop):\n    def step(self, amount=2.5):\n        super().step(amount)\n"
    shop = load_shop(SHOP + more)
    with recorder.record(shop.Market(), tmp_path / "run.tape", quiet=True, trial_ms=0) as one:
        for _ in range(20):
            one.step()
    found = said_of_code(tmp_path / "run.tape", load_shop(f"{SHOP}\n\nclass Market(Shop):\n    pass\n").Market)
    assert (found.suspicious, found.found) == (
        None,
        f"removed since the recording: 1 function, of which the tape has no names; {NOT_TESTED}",
    )


STATES = """
from sim import Field, Schema, State


class One:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8")))

    def step(self, _):
        self.state["x"][()] += 1


class Other(One):
    def step(self, _):
        self.state["x"][()] += 2
"""


def test_another_class_is_named(load_shop: Load, tmp_path: Path) -> None:
    """Its code was loaded, too, and is not what was recorded."""
    module = load_shop(STATES)
    with recorder.Recorder(tmp_path / "run.tape", module.One(), trial_ms=0) as tape:
        for _ in range(5):
            tape.step()
    found = said_of_code(tmp_path / "run.tape", module.Other)
    assert (found.suspicious, found.found) == (
        None,
        "the simulation is a Other, and a One was recorded; not tested whether that makes the difference",
    )


HALVES = """
import gymnasium


class Halved(gymnasium.Wrapper):
    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward / 2, *rest
"""
ENVIRONMENT = """
import gymnasium
import numpy as np

SECRET = type("Box", (list,), {})([1])


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1e9, 1e9, (), np.float64)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return np.float64(self.place), {}

    def step(self, action):
        self.place += SECRET[0]
        return np.float64(self.place), 1.0, False, False, {}


class Paid(gymnasium.Wrapper):
    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward - 1.0, *rest


def make():
    from code_of_its_helpers import Halved

    return Paid(Halved(Walk()))
"""


def test_an_environment_with_wrappers_is_compared_with_its_like(load_shop: Load, tmp_path: Path) -> None:
    """The outermost wrapper was compared with the recorded environment inside: "another version of the code"."""
    needs("gymnasium")
    env = recorder.record(load_shop(ENVIRONMENT, HALVES).make(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    env.reset(seed=1)
    for _ in range(20):
        env.step(1)
    env.close()

    def said(shop: str, helpers: str) -> str:
        load_shop(shop, helpers).SECRET[0] = 2
        return str(said_of_code(tmp_path / "run.tape", sys.modules[NAME].make).found)

    assert said(ENVIRONMENT, HALVES).startswith("compared and equal: 5 functions")
    changed = "changed since the recording, or new: "
    assert said(ENVIRONMENT.replace("- 1.0", "- 2.0"), HALVES).startswith(f"{changed}Paid.step (code_of_a_shop.py")
    halves = said(ENVIRONMENT, HALVES.replace("/ 2", "/ 3"))
    assert halves.startswith(f"{changed}Halved.step (code_of_its_helpers.py")


def test_code_of_another_python_is_not_compared(
    load_shop: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytecode differs."""
    with monkeypatch.context() as patched:
        patched.setattr(loaded_code, "_python", lambda: "cpython 3.1.2 -O0")
        recorded(load_shop(), tmp_path / "run.tape")
    found = said_of_code(tmp_path / "run.tape", load_shop(SHOP.replace("+= 1", "+= 2")).Shop)
    assert (found.suspicious, found.found) == (None, "not compared: it was compiled by cpython 3.1.2 -O0")


def test_tapes_without_a_note(load_shop: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deterministic one, one of a shipped world, and one of too much code; nothing is said then."""
    recorded(load_shop(), tmp_path / "deterministic.tape", deterministic=True)
    with Tape(tmp_path / "deterministic.tape") as tape:
        assert OUTSIDE not in tape.meta
    assert code_note(Meadow(load_scenario("boom-and-crash").config)) == {}
    monkeypatch.setattr(loaded_code, "DEFINITIONS_MAX", 8)
    recorded(load_shop(), tmp_path / "run.tape")
    with Tape(tmp_path / "run.tape") as tape:
        assert KEY not in tape.meta[OUTSIDE]
    assert said_of_code(tmp_path / "run.tape", load_shop(SHOP.replace("+= 1", "+= 2")).Shop) is None


def test_objects_of_a_module_are_not_asked(load_shop: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that raises when it is asked for its class stops no recording, and neither does anything else that raises."""
    source = (
        SHOP
        + """

class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("no object is bound")

proxy = Proxy()
"""
    )
    recorded(load_shop(source), tmp_path / "run.tape")
    with Tape(tmp_path / "run.tape") as tape:
        assert KEY in tape.meta[OUTSIDE]
    monkeypatch.setattr(loaded_code, "_digest", lambda _: 1 // 0)
    recorded(load_shop(), tmp_path / "closed.tape")
    with Tape(tmp_path / "closed.tape") as tape:
        assert KEY not in tape.meta[OUTSIDE]


@pytest.mark.parametrize(
    "plain",
    [
        None,
        3,
        {},
        {"python": "x"},
        {"python": "x", "digests": b"123456"},
        {"python": "x", "definitions": b"12345", "values": b""},
        {"python": 1, "definitions": b"", "values": b""},
    ],
)
def test_what_is_no_note_says_nothing(plain: Any) -> None:
    """Of a tape that other software wrote."""
    assert decode_code_note(plain) is None
    assert msgpack.packb(plain)


def test_what_functions_name_and_no_digest_tells_is_named(load_shop: Load, tmp_path: Path) -> None:
    """An object, a closure and a partial call with one: nothing is ruled out, and the earlier code is asked for."""
    kept = (
        "class Bag:\n    def __init__(self, size):\n        self.size = size\n\n    def same(self, x):\n        return x\n\n\ndef upto(most):\n    def inner(x):\n"
        "        return min(most.size, x)\n    return inner\n\n\nimport functools\nBAG = Bag(3)\nupto_five = upto(Bag(5))\n"
        "less = functools.partial(max, 1, key=Bag(1).same)\nunread = Bag(4)\n\n\nclass Shop:"
    )
    used = SHOP.replace("class Shop:", kept, 1).replace("self.days += 1", "self.days += less(upto_five(BAG.size)) - 2")
    recorded(load_shop(used), tmp_path / "run.tape")
    found = said_of_code(tmp_path / "run.tape", load_shop(used.replace("Bag(3)", "Bag(4)")).Shop)
    assert found.suspicious is None
    assert "not compared, since they are no plain values: BAG (code_of_a_shop.py:" in found.found
    assert "upto_five (" in found.found
    assert "less (" in found.found
    assert "unread" not in found.found
    assert asks_for_earlier_code(found, is_explained=False)
    assert not asks_for_earlier_code(found, is_explained=True)
    assert not names_a_change(found)


def test_a_value_that_a_program_set_before_the_recording_is_told_as_removed(load_shop: Load, tmp_path: Path) -> None:
    """An attribute of a class that stands in no source: the tape has a digest of it, and no name."""
    module = load_shop()
    module.Shop.extra = 12
    recorded(module, tmp_path / "run.tape")
    module = load_shop()
    sys.modules[HELPERS].rate = 3  # type: ignore[attr-defined]
    found = said_of_code(tmp_path / "run.tape", module.Shop)
    assert found.suspicious is None
    assert "removed since the recording: 1 value, of which the tape has no names" in found.found


def test_functions_of_a_library_are_not_said_to_be_left_out(load_shop: Load) -> None:
    """One that numba has compiled is compared as a function; one that NumPy defines is a matter of its version."""
    needs("numba")
    text = SHOP.replace(
        "class Shop:",
        "import numba\nfrom numpy import exp\n\n@numba.njit\ndef more(x):\n    return x + 1\n\n\nclass Shop:",
        1,
    )
    text = text.replace("self.days += 1", "self.days += more(int(exp(0.0)))")
    found = compare_code(note_of(load_shop(text).Shop()), load_shop(text).Shop())
    assert found is not None
    assert (found.different, found.values, found.left_out) == ([], [], [])


KIOSK = """
import recorder

class Kiosk:
    def __init__(self):
        self.days = 0

    def step(self):
        self.days += 1

if __name__ == "__main__":
    DAYS, path = 5, "run.tape"
    with recorder.record(Kiosk(), path, trial_ms=0, quiet=True) as kiosk:
        for day in range(DAYS):
            kiosk.step()
"""
COMPARED = """
import kiosk
from replayer.desync.code_comparison import compared_code
from replayer.tape.tape import Tape
print(compared_code(Tape("run.tape"), kiosk.Kiosk).found)
"""


def test_what_a_file_defines_as_a_program_was_not_removed(tmp_path: Path) -> None:
    """Values of the block that runs as a program are not there in a replay, which imports the file."""
    (tmp_path / "kiosk.py").write_text(KIOSK)
    subprocess.run([sys.executable, "kiosk.py"], cwd=tmp_path, check=True)
    told = subprocess.run(
        [sys.executable, "-c", COMPARED], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert told.startswith("compared and equal: 2 functions of the recorded class's modules")
    assert "removed" not in told
