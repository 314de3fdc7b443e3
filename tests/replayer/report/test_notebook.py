"""Notebook HTML is self-contained, has no scripts whatever texts a tape has, and states correct facts."""

from __future__ import annotations

import html.parser
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder.notebook.html
import replayer
from recorder import Recorder
from recorder.notebook.html import STRIP_WIDTH, Strip
from sim import Field, Schema, State
from sim.kernel.registry import Origin

from oracle.live_runs import record_live
from small_worlds import Herd, Walkers

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m"


class Checked(html.parser.HTMLParser):
    """The text of a piece of HTML, whose elements are balanced and passive."""

    ELEMENTS = frozenset(
        "div b span table tbody tr td th details summary svg rect path text title".split()  # noqa: SIM905
    )
    ATTRIBUTES = frozenset(
        "style colspan x y width height viewbox role fill fill-opacity stroke d font-size opacity text-anchor".split()  # noqa: SIM905
    )

    def __init__(self, shown: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self.text = ""
        self.feed(shown)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ELEMENTS
        for name, value in attrs:
            assert name in self.ATTRIBUTES
            assert not re.search("url|javascript|expression|@import", value or "")
        if not self.get_starttag_text().endswith("/>"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def text(shown: Any) -> str:
    """The visible text of an object in a notebook."""
    return Checked(shown._repr_html_()).text


@pytest.fixture(scope="module")
def herd(tmp_path_factory: Any) -> Path:
    path = tmp_path_factory.mktemp("herd") / "herd.tape"
    record_live(
        path, Herd(3), [None] * 60, keyframe_interval_ticks=10, full_every=3, notes={"why": HOSTILE, HOSTILE: 1}
    )
    return path


def test_a_tape_and_a_timeline(herd: Path) -> None:
    """World, ticks, keyframes, fields and the timeline's tick are shown, and nothing is simulated."""
    with replayer.Timeline(herd, world=lambda: pytest.fail("it was simulated")) as run:
        for shown in (run, run.tape):
            said = text(shown)
            for part in ("herd.tape", "not checked", "small_worlds.Herd", "0 to 60", "closed", run.tape.run_id):
                assert part in said
            assert "6 fields" in said
            assert re.search(r"grass\s+float32\s+4 × 6", said)
            assert re.search(r"animals.age\s+int32\s+one\s+column of animals", said)
            assert re.search(r"diary\s+uint8\s+one\s+opaque bytes", said)
            fulls = sum(place.is_full for place in run.tape.keyframes)
            assert f"{fulls} full, {7 - fulls} delta" in said
            assert "here" not in said
    with replayer.Timeline(herd, world=Herd) as run:
        run.seek(30)
        assert "here" in text(run)
        assert "M319 18" in run._repr_html_()


def test_what_renders_is_imported_when_something_is_shown(herd: Path) -> None:
    """A fresh process opens the tape and imports no HTML until a notebook shows it."""
    program = f"""
import sys
from replayer.tape.tape import Tape
with Tape({str(herd)!r}) as tape:
    assert "replayer.report.notebook" not in sys.modules
    print(tape._repr_html_())
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    with replayer.Tape(herd) as tape:
        assert finished.stdout == f"{tape._repr_html_()}\n"


def test_words_of_a_tape_are_shown_and_do_nothing(herd: Path, tmp_path: Path) -> None:
    """Names, notes, outcomes and paths with HTML in them are text."""
    path = tmp_path / "<b>&.tape"

    class World(Walkers):
        pass

    World.__qualname__ = HOSTILE
    tape = Recorder(path, World(), notes={"who": [HOSTILE]})
    tape.step([[0, 1]])
    assert "<script>alert(1)" in text(tape)
    tape.close({"reason": HOSTILE})
    for shown in (replayer.Tape(path), replayer.Timeline(path), replayer.Tape(herd)):
        raw = shown._repr_html_()
        assert "<script" not in raw
        assert "<img" not in raw
        assert "\x1b" not in raw
        assert "<script>alert(1)</script>" in text(shown)
    assert "<b>&.tape" in text(replayer.Tape(path))


def test_a_world_with_a_configuration(tmp_path: Path) -> None:
    """A tape may state any world, with any name in it."""

    class World(Walkers):
        origin = Origin("meadow", 3, {"name": HOSTILE, "seed": [HOSTILE], "x": {"y": HOSTILE}})

    with Recorder(tmp_path / "a.tape", World()) as tape:
        tape.step([])
    said = text(replayer.Tape(tmp_path / "a.tape"))

    assert "meadow version 3" in said
    assert "<script>alert(1)" in said
    assert "<script" not in replayer.Tape(tmp_path / "a.tape")._repr_html_()


def test_damage_is_shown(herd: Path, tmp_path: Path) -> None:
    """A torn tape is incomplete, a damaged one corrupt, and losses are listed; a missing file, too."""
    whole = herd.read_bytes()
    torn = tmp_path / "torn.tape"
    torn.write_bytes(whole[: len(whole) * 2 // 3])
    said = text(replayer.Tape(torn))
    assert "incomplete" in said
    assert "not properly" in said
    with replayer.Tape(herd) as tape:
        offset = tape.keyframes[2].entry.offset
    damaged = tmp_path / "damaged.tape"
    damaged.write_bytes(whole[:offset] + bytes(72) + whole[offset + 72 : -40])  # Without its end it has no index.
    said = text(replayer.Tape(damaged))
    assert "corrupt" in said
    assert f"damaged: bytes {offset:,} to" in said
    many = tmp_path / "gone.tape"
    many.write_bytes(whole)
    with replayer.Timeline(many) as run:
        pass
    assert "gone.tape" in text(run)  # It is closed, and the notebook does not fail.


def test_seeks_and_verifications(herd: Path) -> None:
    """A seek shows its start and target, a verification its result; a desync is named."""
    with replayer.Timeline(herd, world=Herd) as run:
        seek = run.seek(25)
        assert (f"{seek.state_hash:016x}, as recorded" in text(seek), "tick 25" in text(seek)) == (True, True)
        assert "20, 5 ticks re-simulated" in text(seek)
        said = text(run.verify())
        assert "verification verified" in said
        assert "61 of 61 ticks" in said

    class Late(Herd):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            if self.state["tick"] == 33:
                self.state.set("grass", 0, 99)

    with replayer.Timeline(herd, world=Late) as run:
        said = text(run.verify())
    assert "desync" in said
    assert "first divergent tick 33 : grass" in said.replace("  ", " ").replace("33:", "33 :")


def test_a_data_set(herd: Path, tmp_path: Path) -> None:
    """An extraction shows its tables, rows and columns."""
    pytest.importorskip("pyarrow")
    made = replayer.extract(herd, tmp_path / "data", tables="states", stride=10, world=Herd)

    for shown in (made, replayer.Dataset(tmp_path / "data")):
        said = text(shown)
        assert re.search(r"states\s+7\s+run, tick, ", said)
        assert "parquet" in said
        assert "missing" not in said


def test_a_recorder(tmp_path: Path) -> None:
    """A recorder shows its tape, tick, keyframes and fields, while it records and afterwards."""
    tape = Recorder(tmp_path / "a.tape", Herd(), keyframe_interval_ticks=5)
    for _ in range(12):
        tape.step(None)
    tape.flush()
    said = text(tape)
    assert "recording" in said
    assert re.search(r"tick\s+12", said)
    assert "every 5 ticks" in said
    assert "6 fields" in said
    assert "small_worlds.Herd" in said
    tape.close()
    assert "closed" in text(tape)


def test_it_stays_small(tmp_path: Path) -> None:
    """Thousands of keyframes, gaps and fields give some tens of kilobytes."""
    strip = Strip(
        0, 10**12, range(0, 10**6, 7), range(0, 10**12, 10**8), [(tick, tick + 1) for tick in range(0, 10**6, 50)]
    )
    assert len(strip.svg()) < 20 * STRIP_WIDTH

    class Wide(Walkers):
        def __init__(self) -> None:
            self.state = State(Schema(*(Field(f"field_{number}", "i8") for number in range(3000))))

        def step(self, inputs: Any) -> None:
            pass

    with Recorder(tmp_path / "a.tape", Wide(), notes={"long": "x" * 10_000}) as tape:
        tape.step(None)
        shown = replayer.Tape(tmp_path / "a.tape")._repr_html_()
    assert len(shown) < 60_000
    assert "and 2,800 more" in shown
    assert recorder.notebook.html.FIELDS_MAX == 200


@pytest.mark.parametrize(("first", "last", "here"), [(0, 0, 0), (5, 6, 5), (0, 1 << 62, 1 << 61)])
def test_a_strip_of_any_length(first: int, last: int, here: int) -> None:
    """One tick or very many: marks lie within the strip."""
    shown = Strip(first, last, [first], [last], [(first, last)], here).svg()

    Checked(shown)
    assert all(0 <= int(x) <= STRIP_WIDTH for x in re.findall(r'M(\d+)|x="(\d+)"', shown)[0] if x)
