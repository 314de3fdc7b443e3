"""Every text that a tape can carry, replaced by hostile ones: no terminal is steered, no spreadsheet gets a formula."""

from __future__ import annotations

import ast
import csv
import random
import re
from pathlib import Path

import numpy as np
import pytest

import recorder.commands.main
import replayer.commands.main
from recorder.format.blocks.events_block import encode_events
from recorder.format.blocks.telemetry_block import encode_telemetry
from recorder.format.segments.segment_encoder import drop_piece, events_piece, full_pieces, telemetry_piece
from recorder.visible_text import visible
from replayer.csv_cells import harmless
from replayer.desync.dump.differences_csv import write_differences
from sim import Field, Schema
from sim.kernel.plain_data import PlainEncoder, encode_plain
from sim.kernel.schema import schema_from_plain, schema_to_plain

from keyframe_payloads import encode_full
from oracle.command_lines import run
from oracle.hostile_tapes import SETTINGS, Still, frames, write_tape
from project_paths import SOURCES

# Written here once more, as numbers: what a terminal obeys, and what reorders a line.
STEERING = {*range(0x20), 0x7F, *range(0x80, 0xA0)} - {0x0A}
REORDERING = {0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
HOSTILE = "\x1b[2J\x1b]0;title\x07\u202egnp.exe\u2066\u200f\x9b31m\x7f\x08\r\tend"
FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"]
COMMANDS = [
    "info {tape}",
    "info {tape} --fast",
    "info {tape} --json",
    "ls .",
    "ls . --stats",
    "ls . --json",
    "ls . --where '{text}'",
    "seek {tape} --tick 2 {sim}",
    "seek {tape} --tick 2 --json {sim}",
    "seek {tape} --tick 2 --field nothing {sim}",
    "seek {tape} --tick 2",
    "seek {tape} --tick 99 {sim}",
    "verify {tape} -j 1 {sim}",
    "verify {tape} --fast",
    "tail {tape} --no-follow",
    "tail {tape} --no-follow --json",
    "diff {tape} {other}",
    "diff {tape} missing.tape",
    "export {tape} --events -o events.csv",
    "export {tape} --telemetry -o figures.csv",
    "export {tape} --events -o {text}",
    "results {tape} {sim}",
    "compare {tape} {other} {sim}",
    "drift {tape} {sim}",
    "repair {tape} -o repaired.tape {sim}",
    "nonsense {text}",
]


def steers(shown: str) -> list[str]:
    """The characters in it that a terminal must never get."""
    return sorted({f"{ord(character):04x}" for character in shown if ord(character) in STEERING | REORDERING})


def hostile_tape(path: Path, texts: dict[str, str], *, wrong: bool = False) -> None:
    """A tape of four ticks with these texts. wrong: its last frame has a hash that no step gives: a desync."""
    meta, outcome, events = texts.get("meta", "x"), texts.get("outcome", "x"), texts.get("events", "x")
    state = Still().state.snapshot()
    inputs = encode_plain({texts.get("inputs", "x"): [texts.get("inputs", "x")]})
    event = {"kind": events, events: events, "nested": {events: [events]}}
    pieces = [
        *full_pieces(0, encode_full(0, state.hash(), state))[0],
        frames(1, 3, inputs, state.hash()),
        frames(4, 1, inputs, state.hash() ^ wrong),
        events_piece(0, encode_events(0, 5, [PlainEncoder().encode([2, [event]])[0]])),
        telemetry_piece(1, encode_telemetry([1, 2], [texts.get("telemetry", "x")], [[1], [-2]])),
    ]
    if "drops" in texts:
        pieces.append(drop_piece(5, 9, texts["drops"]))
    described = {
        "world": {"name": meta, "version": 1, "config": {"name": meta, "seed": meta}} if "world" in texts else None,
        "simulation": meta,
        "mode": meta if "world" in texts else "events",
        "level": meta,
        "adapter": {"name": meta},
        "settings": {**SETTINGS, "durability": meta},
        "notes": {"players": {meta: meta}, "scenario": meta, meta: meta},
        "created": meta,
        "environment": {meta: meta},
        "outside": {"process": {meta: meta}, "steps": 3, "reads": [["file", meta, meta, None]]},
        "event_stream": True,
    }
    write_tape(path, pieces, encode_plain(described), {"reason": outcome, "text": outcome, "scores": {outcome: 1.0}})


def assert_nothing_steers(tape: str, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run every command; return all that they print."""
    shown = ""
    quoted = "'" + text.replace("'", "").replace("\x00", "") + "'"
    for command in COMMANDS:
        line = command.format(tape=tape, other="other.tape", text=quoted, sim="--sim oracle.hostile_tapes:Still")
        run(replayer.commands.main.main, line)
        captured = capsys.readouterr()
        assert not steers(captured.out), line
        assert not steers(captured.err), line
        assert "Traceback" not in captured.err
        shown += captured.out + captured.err
    assert run(recorder.commands.main.main, f"resume {tape} --sim oracle.hostile_tapes:Still") != 0
    captured = capsys.readouterr()
    assert not steers(captured.out + captured.err)
    return shown + captured.out + captured.err


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ALL = ("meta", "outcome", "inputs", "events", "telemetry", "drops")


@pytest.mark.parametrize(
    "part", ["meta", "world", "outcome", "inputs", "events", "telemetry", "drops", "name", "desync"]
)
@pytest.mark.share(0.22)
def test_no_text_of_a_tape_steers_the_terminal(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all that the commands print, on stdout and stderr; the text is shown with escapes."""
    tape = f"'{HOSTILE}.tape'" if part == "name" else "a.tape"
    texts = {"world": "x", "meta": HOSTILE} if part == "world" else {part: HOSTILE}
    if part == "desync":
        texts = dict.fromkeys(ALL[:-1], HOSTILE)
    hostile_tape(Path(tape.strip("'")), texts, wrong=part == "desync")
    hostile_tape(Path("other.tape"), texts)
    shown = assert_nothing_steers(tape, HOSTILE, capsys)
    assert "\\x1b[2J" in shown  # The commands were given the text, too.


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("seed", range(12))
def test_texts_drawn_by_a_seed(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Any characters anywhere, those that steer among them."""
    source = random.Random(seed)
    steering = [chr(code) for code in sorted(STEERING | REORDERING - {0}) if code]

    def text() -> str:
        drawn = [
            source.choice(steering) if source.random() < 0.5 else chr(source.randrange(32, 0x2FF)) for _ in range(30)
        ]
        return "".join(drawn).replace("/", "")

    hostile_tape(Path("a.tape"), {part: text() for part in ALL if source.random() < 0.7}, wrong=source.random() < 0.3)
    hostile_tape(Path("other.tape"), {part: text() for part in ALL})
    assert_nothing_steers("a.tape", text(), capsys)


def test_what_is_visible_is_all_but_what_steers() -> None:
    """Each of the first 0x3000 characters, one by one."""
    for code in range(0x3000):
        character = chr(code)
        changed = visible(character) != character
        assert changed == (code in STEERING | REORDERING | {0x2028, 0x2029}), hex(code)
        assert not steers(visible(character))


def test_commands_print_only_what_is_visible() -> None:
    """No module that speaks to a terminal calls print by itself."""
    folders = ["replayer/commands", "replayer/report", "replayer/follow", "recorder/commands", "recorder/console"]
    found = [
        f"{path.name}:{node.lineno}"
        for folder in folders
        for path in (SOURCES / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert found == []


@pytest.mark.parametrize("name", [HOSTILE, "=1", "\u202ex", "a b", "é"])
def test_names_of_fields_are_plain(name: str) -> None:
    """A tape cannot carry any other: reading one fails as for the schema of a program."""
    (known,) = schema_to_plain(Schema(Field("x", "i8", (2,))))
    assert schema_from_plain([known]).entries[0].name == "x"
    with pytest.raises(ValueError, match="field name"):
        schema_from_plain([["field", name, *known[2:]]])


# --- CSV


def cells(name: str) -> list[str]:
    """All cells of a CSV file."""
    with Path(name).open(encoding="utf-8", newline="") as file:
        return [cell for row in csv.reader(file) for cell in row]


def formulas_in(found: list[str]) -> list[str]:
    """The cells that a spreadsheet would evaluate."""
    number = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?|-?inf|nan")
    return [cell for cell in found if cell[:1] in set("=+-@\t\r\n＝＋－＠") - {""} and not number.fullmatch(cell)]


@pytest.mark.parametrize("formula", FORMULAS)
def test_csv_of_events_holds_no_formula(formula: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in the heading nor in a cell; with --raw-text it is there as it was."""
    hostile_tape(Path("a.tape"), {"events": formula})
    assert run(replayer.commands.main.main, "export a.tape --events -o a.csv") == 0
    assert formulas_in(cells("a.csv")) == []
    assert f"'{formula}" in cells("a.csv")
    assert run(replayer.commands.main.main, "export a.tape --events --raw-text -o a.csv") == 0
    assert formulas_in(cells("a.csv")) == [formula] * 3  # A heading, the kind, the value.
    capsys.readouterr()


def test_csv_of_figures_holds_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    """The heading gets the mark; -2 stays a number."""
    hostile_tape(Path("a.tape"), {"telemetry": "=1+1"})
    assert run(replayer.commands.main.main, "export a.tape --telemetry -o a.csv") == 0
    assert cells("a.csv") == ["tick", "'=1+1", "1", "1", "2", "-2"]
    assert run(replayer.commands.main.main, "export a.tape --telemetry --raw-text -o a.csv") == 0
    assert cells("a.csv")[1] == "=1+1"
    capsys.readouterr()


def test_numbers_are_no_formulas() -> None:
    """Numbers, also as text, are unchanged, and so are texts that begin with anything else."""
    for cell in (-1, 2.5, "-1", "+2", "-0.5e-07", "-inf", "nan", "1e400", "a=b", "", "'", " =1", None, True):
        assert harmless(cell) is cell
    for cell in ("-", "--1", "-1-1", "+cmd", "-1e", "=", "@", "-1\n=2", "-١"):  # The last one is a digit elsewhere.
        assert harmless(cell) == "'" + cell


def test_differences_hold_no_formula(tmp_path: Path) -> None:
    """Those of a dump: negative numbers stay, the name of a field gets the mark."""
    before, after = Still().state, Still().state
    after["x"][:2] = [-5, 7]
    write_differences(tmp_path / "d.csv", before.snapshot(), after.snapshot())
    assert cells(str(tmp_path / "d.csv"))[5:] == ["x", "0", "0", "-5", "", "x", "1", "0", "7", ""]
    assert np.array_equal(after["x"], [-5, 7, 0, 0])
