"""Conditions over decimal numbers, dates, enumerations and attributes that change their type, beside a plain loop."""

from __future__ import annotations

import copy
import datetime as dt
import enum
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from replayer.search.search_errors import ExpressionError
from sim.adapters import adapt

TICKS = 12


class Mood(enum.Enum):
    """Names and values differ; one name is another member's value."""

    CALM = "calm"
    ANGRY = "angry"
    NONE = "CALM"


class Level(enum.IntEnum):
    """Members that are numbers."""

    ONE = 1
    TWO = 2


class Badge(enum.StrEnum):
    """Members that are texts."""

    NOVICE = "novice"
    MASTER = "master"


class Rights(enum.Flag):
    """Members that are combined."""

    READ = 1
    WRITE = 2


class Name(str):
    """A text of a class of its own."""

    __slots__ = ()


class Item:
    """An object that is there at some ticks."""

    def __init__(self, weight: int) -> None:
        self.weight, self.price = weight, Decimal(weight) / 10


class Bank:
    """Values of the standard library, and attributes that are absent or of another type at the first and last ticks."""

    def __init__(self) -> None:
        self.turn, self.held, self.memory, self.size = 0, None, None, None
        self.set_values()

    def set_values(self) -> None:
        """The values of a turn."""
        turn, is_late = self.turn, self.turn > 5
        self.money, self.share = Decimal("100.10") + turn, Fraction(turn, 3)
        self.day, self.wait = dt.date(2024, 3, 1) + dt.timedelta(turn), dt.timedelta(seconds=turn)
        self.time = dt.datetime(2024, 3, 1, turn, tzinfo=dt.UTC)
        self.mood, self.level = (Mood.ANGRY, Level.TWO) if is_late else (Mood.CALM, Level.ONE)
        self.badge = Badge.MASTER if is_late else Badge.NOVICE
        self.rights = Rights.READ | Rights.WRITE if is_late else Rights.WRITE
        self.name = Name("late" if is_late else "early")
        self.prices = [Decimal(turn), Decimal("0.5")]
        self.moods = [self.mood, Mood.CALM]
        self.wave = complex(turn, 1)
        self.file = Path("a") / str(turn)

    def step(self) -> None:
        """One turn."""
        self.turn += 1
        is_there = 2 < self.turn < 9
        self.held = Item(self.turn) if is_there else None
        self.memory = [1, 2, self.turn] if is_there else None
        self.size = "large" if self.turn > 9 else self.turn if is_there else None
        if is_there:
            self.found = Item(self.turn)
        elif hasattr(self, "found"):
            del self.found
        self.set_values()


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[Bank]]:
    """An opened tape of a bank, and copies of a bank that was not recorded."""
    path = tmp_path_factory.mktemp("bank") / "bank.tape"
    with recorder.record(Bank(), path, step="step", quiet=True, trial_ms=0, keyframe_interval_ticks=5) as game:
        for _ in range(TICKS):
            game.step()
    plain = Bank()
    states = [copy.deepcopy(plain)]
    for _ in range(TICKS):
        plain.step()
        states.append(copy.deepcopy(plain))
    return replayer.open(path, world=Bank), states


CONDITIONS: list[tuple[str, Callable[[Bank], bool]]] = [
    ("share == 0.0 or money - 0 == 103", lambda b: b.turn == 0),
    ("money - money + turn == 4", lambda b: b.turn == 4),
    ("money == '103.10'", lambda b: b.money == Decimal("103.10")),
    ("money != \"Decimal('103.10')\"", lambda b: b.money != Decimal("103.10")),
    ("money > 105", lambda b: b.money > 105),
    ("107.5 <= money", lambda b: b.money >= 107.5),
    ("money * 2 > 213 and money % 1 != 0", lambda b: b.money * 2 > 213),
    ("share == 2", lambda b: b.share == 2),
    ("share >= '4/3'", lambda b: b.share >= Fraction(4, 3)),
    ("share + 1 == 2", lambda b: b.share == 1),
    ("day == '2024-03-04'", lambda b: b.day == dt.date(2024, 3, 4)),
    ("day < '2024-03-04'", lambda b: b.day < dt.date(2024, 3, 4)),
    ("time >= '2024-03-01T07:00+00:00'", lambda b: b.time >= dt.datetime(2024, 3, 1, 7, tzinfo=dt.UTC)),
    ("wait == 'datetime.timedelta(seconds=3)'", lambda b: b.wait == dt.timedelta(seconds=3)),
    ("file == 'a/4'", lambda b: b.file == Path("a/4")),
    ("name == 'late'", lambda b: b.name == "late"),
    ("mood == 'ANGRY'", lambda b: b.mood is Mood.ANGRY),
    ("mood == 'angry'", lambda b: b.mood is Mood.ANGRY),
    ("mood != 'Mood.ANGRY'", lambda b: b.mood is not Mood.ANGRY),
    ("mood == 'Mood.CALM'", lambda b: b.mood is Mood.CALM),
    ("level == 2", lambda b: b.level == 2),
    ("level >= 2", lambda b: b.level >= 2),
    ("level + 1 == 3 and level == 'TWO'", lambda b: b.level == 2),
    ("badge == 'master'", lambda b: b.badge == "master"),
    ("rights == 3", lambda b: b.rights.value == 3),
    ("rights == 'WRITE'", lambda b: b.rights is Rights.WRITE),
    ("prices.sum() > 5", lambda b: sum(b.prices) > 5),
    ("(moods[:] == 'ANGRY').any()", lambda b: Mood.ANGRY in b.moods),
    ("wave == wave and not wave == 3", lambda b: b.wave == b.wave),
    ("held.weight > 4", lambda b: b.held is not None and b.held.weight > 4),
    ("held.price == '0.5'", lambda b: b.held is not None and b.held.price == Decimal("0.5")),
    ("found.weight == 4", lambda b: hasattr(b, "found") and b.found.weight == 4),
    ("memory[2] == 6", lambda b: b.memory is not None and b.memory[2] == 6),
    ("len(memory) == 3", lambda b: b.memory is not None),
    ("memory != None", lambda b: b.memory is not None),
    ("held == None", lambda b: b.held is None),
    ("size > 3", lambda b: isinstance(b.size, int) and b.size > 3),
    ("size == 'large'", lambda b: b.size == "large"),
]


@pytest.mark.parametrize("number", range(len(CONDITIONS)))
@pytest.mark.share(0.22)
def test_conditions_equal_python(bank: tuple[Any, list[Bank]], number: int) -> None:
    """All ticks, the first and the last one: what a loop over live objects sees."""
    run, states = bank
    text, holds = CONDITIONS[number]
    expected = [tick for tick, state in enumerate(states) if holds(state)]
    assert run.find(text).ticks == expected, text
    assert run.first(text) == (expected[0] if expected else None)
    assert run.last(text) == (expected[-1] if expected else None)


def test_no_value_is_told(bank: tuple[Any, list[Bank]]) -> None:
    """Neither the condition nor its negation holds where a value is not there or of another kind, and the ticks are told."""
    run, states = bank
    for text, holds in (("held.weight > 4", lambda b: b.held is not None), ("size > 3", lambda b: type(b.size) is int)):
        matches = run.find(f"not ({text})")
        assert matches.undefined == sum(not holds(state) for state in states)
        assert set(matches.ticks).isdisjoint(run.find(text).ticks)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("money == 'a lot'", "'a lot' is not a Decimal: compare it with a text, such as '10.05'"),
        ("money == 103.1", "the float 103.1 is not exactly that number: compare with the text '103.1'"),
        ("money == share", "Decimal and Fraction cannot be compared"),
        ("day == 3", "date and int cannot be compared"),
        ("time == '2024-03-01T07:00'", "one of the two times has no time zone"),
        ("day < time", "date and datetime cannot be compared"),
        ("mood == 'agnry'", "Mood has no member 'agnry'; it has CALM, ANGRY, NONE"),
        ("mood == 'CALM'", "is the name of one member of Mood and the value of another"),
        ("mood > 1", "members of Mood are no numbers"),
        ("not mood", "Mood.CALM is no condition"),
        ("prices == 'x'", "a list cannot be compared with a text"),
        ("prices[:].x > 3", "there is no"),
        ("held.wieght > 3", "there is no 'held.wieght'"),
        ("hled.weight > 3", "there is no 'hled.weight'"),
        ("wave > 3", "complex cannot be calculated with"),
        ("turn > 'x'", "can be compared with == and != only"),
    ],
)
def test_what_cannot_be_asked_says_so(bank: tuple[Any, list[Bank]], text: str, why: str) -> None:
    """In one line, and never as "at no tick"."""
    with pytest.raises(ExpressionError, match=why) as refused:
        bank[0].find(text)
    assert "\n" not in str(refused.value)


class Begun:
    """Like an environment, it has no attributes before its first step; the keyframe is before that."""

    def step(self) -> None:
        """Make the attributes, change them, and take one away before the end."""
        self.turn = getattr(self, "turn", 0) + 1
        self.item = Item(self.turn) if self.turn < 8 else None


def test_attributes_that_no_keyframe_has_are_found(tmp_path: Path) -> None:
    """Those that exist between the first tick and the last one; a name that no tick has is told with the ticks."""
    with recorder.record(Begun(), tmp_path / "begun.tape", step="step", quiet=True, trial_ms=0) as game:
        for _ in range(10):
            game.step()
    with replayer.open(tmp_path / "begun.tape", world=Begun) as run:
        assert run.find("item.weight > 5").ticks == [6, 7]
        with pytest.raises(ExpressionError, match=r"there is no 'item.size'; .* \(ticks 0 to 10\)"):
            run.find("item.size > 5")
        with pytest.raises(
            ExpressionError, match=r"there is no 'itme.weight'; did you mean item.weight\? \(tick 0, tick 1, tick 10\)"
        ):
            run.find("itme.weight > 5")


class Bag:
    """Things that come, one at a tick, into containers of every kind."""

    def __init__(self) -> None:
        self.now, self.limit, self.long = 0, 3, {"l" * 300: 2}
        self.items: set[Any] = set()
        self.numbers, self.names, self.word = [1, 2], ["a"], "hello"
        self.prices: dict[Any, Any] = {"x": 1, 4: "n"}

    def step(self, _: Any = None) -> None:
        """Add something."""
        self.now += 1
        if self.now % 5 == 1:
            self.items.add(["ring", 3, 2.5, "rod", None][self.now // 5])
        self.numbers.append(self.now * 2)
        self.names.append(f"n{self.now}")
        self.word = "a ring" if self.now > 12 else "hello"
        self.prices["ring" if self.now == 9 else self.now * 10] = 3


CONTAINED = (
    "'ring' in items", "3 in items", "2.5 in items", "None in items", "'rod' not in items", "limit in items",
    "10 in numbers", "'10' in numbers", "now in numbers", "'n7' in names", "7 in names", "'ring' in word", "'z' in word",
    "'ring' in prices", "40 in prices", "4.0 in prices", "'x' in prices and 90 not in prices",
)  # fmt: skip


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bag") / "bag.tape"
    with recorder.Recorder(path, adapt(Bag()), keyframe_interval_ticks=5, trial_ms=0) as tape:
        for _ in range(22):
            tape.step(None)
    return path


@pytest.mark.parametrize("text", CONTAINED)
def test_in_is_that_of_python(bag: Path, text: str) -> None:
    live, expected = Bag(), []
    for tick in range(23):
        if eval(text, {}, vars(live)):
            expected.append(tick)
        live.step()
    with replayer.open(bag, world=lambda: adapt(Bag())) as run:
        assert run.find(text).ticks == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 in now", "has no items"),
        ("'a' in long", "keys too long to compare: not known"),
        ("1 in word", "only a text can be in a text"),
        ("'a' in names in names", "is not allowed"),
        ("names in names", "'in' asks for a text, a number or None"),
    ],
)
def test_what_holds_nothing_says_so(bag: Path, text: str, why: str) -> None:
    with replayer.open(bag, world=lambda: adapt(Bag())) as run, pytest.raises(ExpressionError, match=why):
        run.find(text)


def test_the_last_write_of_a_set_says_what_to_ask(bag: Path) -> None:
    said = r"items is a set of 5: replay find 'VALUE in items' tells when"
    with replayer.open(bag, world=lambda: adapt(Bag())) as run, pytest.raises(ExpressionError, match=said):
        run.last_write("items")
