"""aux=: sections that others keep beside the state (a camera, a campaign, a script), of every tick."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.errors import OutputFunctionError, RecordingWarning
from recorder.format.blocks.block import OPTIONAL_KIND, BlockKind
from replayer import Tape
from replayer.commands.main import main
from replayer.repair.repair import repair_tape
from replayer.reshape.cut import cut_tape
from replayer.reshape.join import join_tapes
from sim.kernel.plain_data import decode_plain

from oracle.second_checks import CheckedTape, aux_of
from project_paths import ROOT

TICKS = 250


class Game:
    def __init__(self) -> None:
        self.turn = 0
        self.units = [100, 100, 100]

    def step(self) -> None:
        self.turn += 1
        self.units[self.turn % 3] -= 1


class Others:
    """A camera, a script of some size and a campaign that comes and goes, kept outside the game."""

    def __init__(self, script_bytes: int = 3000) -> None:
        self.random = random.Random(5)
        self.camera = {"x": 0, "zoom": 1.5}
        self.script = bytearray(self.random.randbytes(script_bytes))

    def move(self, tick: int) -> None:
        if tick % 7 == 0:
            self.camera["x"] += 1
        if tick % 31 == 0:
            place = self.random.randrange(len(self.script))
            self.script[place : place + tick % 5] = self.random.randbytes(tick % 3)

    def sections(self, game: Game) -> dict[str, Any]:
        campaign = {"campaign": ["east"] * (game.turn // 20)} if 60 <= game.turn < 140 else {}
        return {"camera": dict(self.camera), "script": bytes(self.script), **campaign}


def make_steps(game: Game, count: int) -> None:
    for _ in range(count):
        game.step()


Truth = list[dict[str, Any]]


def record_game(path: Path, ticks: int = TICKS, **options: Any) -> Truth:
    """Record a game, and return the sections of each tick."""
    game, others = Game(), Others()
    options = {"keyframe_interval_ticks": 20, "full_every": 3, "quiet": True} | options
    truth = [others.sections(game)]
    with recorder.record(game, path, aux=others.sections, **options) as recorded:
        for tick in range(1, ticks + 1):
            others.move(tick)
            recorded.step()
            truth.append(others.sections(game))
    return truth


def sections_of(path: Path, ticks: range) -> list[dict[str, Any] | None]:
    with Tape(path) as tape:
        return [tape.aux.get(tick) for tick in ticks]


def test_sections_kept_by_others_are_recorded_beside_the_state(tmp_path: Path) -> None:
    """Those of any tick are there, also for a second reader; they are in no state and no hash."""
    path, plain = tmp_path / "run.tape", tmp_path / "plain.tape"
    truth = record_game(path)
    with recorder.record(Game(), plain, quiet=True) as recorded:
        for _ in range(TICKS):
            recorded.step()

    assert sections_of(path, range(TICKS + 1)) == truth
    read = aux_of(CheckedTape(path).blocks)
    assert {tick: {name: decode_plain(one) for name, one in found.items()} for tick, found in read.items()} == dict(
        enumerate(truth)
    )
    with Tape(path) as tape, Tape(plain) as without:
        assert [tape.state_hash(tick) for tick in range(TICKS + 1)] == [
            without.state_hash(tick) for tick in range(TICKS + 1)
        ]
        assert tape.aux.names() == ["camera", "script", "campaign"]
        assert not without.aux
        assert tape.check_blocks() == []
        with pytest.raises(recorder.MissingTickError, match="its sections"):
            tape.aux[TICKS + 1]
    with replayer.open(path, world=Game) as run:
        for tick in (0, 60, 139, 140, TICKS):
            run.seek(tick)
            assert run.aux == truth[tick]
    assert replayer.verify_tape(path, Game).ok
    assert BlockKind.AUX & OPTIONAL_KIND  # A reader that does not know the kind skips it.


def test_a_section_is_written_only_when_it_changes(tmp_path: Path) -> None:
    """A value of 100 kB that never changes is there once for each full keyframe; a changed byte costs few bytes."""
    path = tmp_path / "run.tape"
    script = bytearray(random.Random(1).randbytes(100_000))

    def sections(game: Game) -> dict[str, Any]:
        script[game.turn] ^= game.turn % 2
        return {"script": bytes(script)}

    with recorder.record(Game(), path, aux=sections, quiet=True, keyframe_interval_ticks=10_000) as recorded:
        for _ in range(400):
            recorded.step()

    with Tape(path) as tape:
        assert len(tape.keyframes) == 1
        assert tape.aux[400] == {"script": bytes(script)}
    assert 100_000 < path.stat().st_size < 140_000


def test_a_ring_knows_the_sections_of_the_ticks_that_it_keeps(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    truth = record_game(path, keep=60)

    with Tape(path) as tape:
        first = tape.first_tick
        assert first > 0
    assert sections_of(path, range(first, TICKS + 1)) == truth[first:]


@pytest.mark.parametrize("tick", [0, 61, 140, TICKS])
def test_a_save_game_is_one_tick_with_its_sections(tmp_path: Path, tick: int) -> None:
    path, save = tmp_path / "run.tape", tmp_path / "save.tape"
    truth = record_game(path)

    cut_tape(path, save, tick, tick, Game, exact=True)

    with replayer.open(save, world=Game) as run:
        assert (run.first_tick, run.last_tick) == (tick, tick)
        run.seek(tick)
        assert run.aux == truth[tick]
    CheckedTape(save)


def test_a_part_of_a_tape_and_two_parts_in_one_keep_the_sections(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    truth = record_game(path)
    front, back, joined = (tmp_path / name for name in ("front.tape", "back.tape", "joined.tape"))

    cut_tape(path, front, 0, 100, Game)
    cut_tape(path, back, 87, TICKS, Game, exact=True)
    join_tapes(front, back, joined)

    assert sections_of(front, range(101)) == truth[:101]
    assert sections_of(back, range(87, TICKS + 1)) == truth[87:]
    assert sections_of(joined, range(TICKS + 1)) == truth
    CheckedTape(joined)


def test_damage_makes_sections_unknown_and_never_wrong(tmp_path: Path) -> None:
    """Whatever block of sections is lost: each tick has the right sections or none. A repair keeps the rest."""
    path = tmp_path / "run.tape"
    truth = record_game(path)
    data = path.read_bytes()
    with Tape(path) as tape:
        places = [block.entry.offset for block in tape.aux._blocks]
    assert len(places) > 6
    for offset in places[:: len(places) // 6]:
        path.write_bytes(data[: offset + 80] + bytes([data[offset + 80] ^ 1]) + data[offset + 81 :])
        found = sections_of(path, range(TICKS + 1))
        assert all(one is None or one == truth[tick] for tick, one in enumerate(found))
        assert found.count(None) < 100
    mended = tmp_path / "mended.tape"
    repair_tape(path, mended, Game)
    repaired = sections_of(mended, range(TICKS + 1))
    assert all(one is None or one == truth[tick] for tick, one in enumerate(repaired))
    assert repaired.count(None) < 100


KILLED = """
import os, signal, sys
import recorder
from test_aux_sections import Game
recorded = recorder.record(Game(), sys.argv[1], aux=lambda game: {"turn": game.turn}, quiet=True)
for _ in range(500):
    recorded.step()
recorded.tape.flush()
for _ in range(40):
    recorded.step()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.seldom(0.15)
def test_ticks_that_only_a_journal_has_are_unknown_and_a_resumed_tape_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    paths = [str(ROOT / "src"), str(Path(__file__).parent), str(ROOT / "tests" / "support")]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    with Tape(path) as tape:
        last = tape.last_tick
        unknown = tape.aux.missing_ticks(0, last)
    assert last == 540
    assert unknown in ([], [(unknown[0][0] if unknown else 0, 540)])
    found = sections_of(path, range(501))
    assert found == [{"turn": tick} for tick in range(501)]

    with recorder.resume(path, Game(), aux=lambda game: {"turn": game.turn}) as resumed:
        for _ in range(5):
            resumed.subject.step()
    later = sections_of(path, range(541, 546))
    assert later == [{"turn": tick} for tick in range(541, 546)]
    CheckedTape(path)


def test_ticks_at_which_the_function_raises_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"

    def sections(game: Game) -> dict[str, Any]:
        return {"part": 10 // (game.turn - 5), "name": "x" * 100} if game.turn else {}

    recorded = recorder.record(Game(), path, aux=sections, quiet=True)
    with pytest.warns(RecordingWarning, match="aux= raised ZeroDivisionError"):
        make_steps(recorded, 12)
    recorded.close()

    with Tape(path) as tape:
        assert tape.aux.get(5) is None
        assert tape.aux.missing_ticks(0, 12) == [(5, 5)]
        assert [tape.aux[tick]["part"] for tick in (4, 6, 12)] == [-10, 10, 1]
        assert tape.aux[0] == {}
    CheckedTape(path)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda _: [1], "expected a mapping of sections by name, got list"),
        (lambda _: {"camera": object()}, "section camera: object is not plain data"),
        (lambda _: {"": 1}, "a section named ''"),
        (lambda _: {3: 1}, "a section named 3"),
        (lambda game: {"camera": game.units.append(1)}, "aux= changed Game.units at tick 0"),
    ],
)
def test_what_cannot_be_a_section_leaves_no_file(tmp_path: Path, function: Callable[..., Any], words: str) -> None:
    with pytest.raises(OutputFunctionError) as caught:
        recorder.record(Game(), tmp_path / "run.tape", aux=function, quiet=True)
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return int(left.value.code or 0), capsys.readouterr().out


def test_commands_show_and_export_sections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("game.py").write_text("from test_aux_sections import Game\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    path = tmp_path / "run.tape"
    truth = record_game(path)

    code, out = run_command(capsys, "info", "run.tape", "--json")
    assert (code, json.loads(out)["aux"]["names"]) == (0, ["camera", "script", "campaign"])
    code, out = run_command(capsys, "info", "run.tape")
    assert "  aux: camera, script, campaign; " in out
    code, out = run_command(capsys, "seek", "run.tape", "--tick", "100", "--sim", "game:Game", "--json")
    assert (code, json.loads(out)["aux"]["camera"]) == (0, truth[100]["camera"])
    code, out = run_command(capsys, "seek", "run.tape", "--tick", "100", "--sim", "game:Game")
    assert "  aux campaign: ['east', 'east', 'east', 'east', 'east']" in out
    code, out = run_command(capsys, "export", "run.tape", "--aux", "-o", "sections.ndjson")
    rows = [json.loads(line) for line in Path("sections.ndjson").read_text(encoding="utf-8").splitlines()]
    present: dict[str, Any] = {}
    for row in rows:
        if row["tick"] > 100:
            break
        present[row["kind"]] = row.get("value")
    assert present["camera"] == truth[100]["camera"]
    assert present["script"] == truth[100]["script"].hex()
    assert {"tick": 140, "kind": "campaign", "gone": True} in rows
