"""The commands as users type them: their output, their files, their exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder.commands.main
import replayer.commands.arguments
import replayer.commands.main
from recorder.format.blocks.block import HEADER_BYTES
from recorder.session.pages.userfaultfd import obstacle
from replayer import Tape
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.phases.lifecycle import run_lifecycle

from oracle.command_lines import TINY, files, run
from oracle.second_reader import FRAMES, Reader

pytestmark = pytest.mark.share(0.18)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny scenario, and a recording of it in recordings/."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "tiny.toml").write_text(TINY)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        assert run(recorder.commands.main.main, "run tiny.toml --keyframe-interval 20 --full-every 3 -q") == 0
    return folder


@pytest.fixture
def tape(recorded: Path, empty_folder: Path) -> Path:
    """A copy of the recording, which a test may damage."""
    shutil.copytree(recorded, empty_folder, dirs_exist_ok=True)
    return empty_folder / "recordings" / "tiny-1.tape"


def test_record_run_says_what_it_did(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ticks, speed, size, keyframes, a summary, the hash and the next command."""
    (empty_folder / "tiny.toml").write_text(TINY)

    assert run(recorder.commands.main.main, "run tiny.toml -o my.tape --ticks 50 --seed 9") == 0

    out = capsys.readouterr().out
    assert out.startswith("recording tiny (world meadow, seed 9), 50 ticks → my.tape\n50 ticks in ")
    assert "1 full and 0 delta keyframes" in out
    assert "next: replay seek my.tape --tick 25" in out
    with Tape(Path("my.tape")) as tape:
        assert (tape.last_tick, tape.meta["world"]["config"]["seed"]) == (50, 9)


def test_new_recordings_get_new_names(tape: Path) -> None:
    """Without -o each run goes into recordings/ under the next free number."""
    assert run(recorder.commands.main.main, "run tiny.toml -q --ticks 5") == 0
    assert sorted(path.name for path in tape.parent.iterdir()) == ["tiny-1.tape", "tiny-2.tape"]


def test_deterministic_recordings_are_equal(tape: Path) -> None:
    """With --deterministic two runs give the same file, byte for byte, for every way to track changes."""
    for name, changes in (("a", "marks"), ("b", "scan"), ("c", "audit"), ("d", "scan" if obstacle() else "pages")):
        line = f"run tiny.toml -q --deterministic --keyframe-interval 15 -o {name}.tape --changes {changes}"
        assert run(recorder.commands.main.main, line) == 0
    assert len({Path(f"{name}.tape").read_bytes() for name in "abcd"}) == 1
    assert tape.read_bytes() != Path("a.tape").read_bytes()


def test_seek_prints_how_it_got_there(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keyframe, re-simulated ticks, milliseconds, hash, the world's figures; by default of the newest tape."""
    assert run(replayer.commands.main.main, "seek --tick 53") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tick 53 of recordings/tiny-1.tape: keyframe at tick 40, 13 ticks re-simulated, ")
    assert lines[0].endswith(" ms")
    assert any(line.startswith("  moss: ") for line in lines)
    assert tape.exists()


def test_seek_json_is_complete_and_right(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json has the documented keys; a requested field is printed completely."""
    assert (
        run(replayer.commands.main.main, f"seek {tape} --tick -1 --json --field tick --field climate.drought_ticks")
        == 0
    )

    facts = json.loads(capsys.readouterr().out)
    with replayer.Timeline(tape) as timeline:
        state = timeline[90]
    assert facts["tick"] == 90
    assert facts["state_hash"] == f"{state.hash():016x}"
    assert (facts["keyframe_tick"], facts["simulated_ticks"]) == (80, 10)
    assert facts["milliseconds"] > 0
    assert facts["fields"] == {"tick": 90, "climate.drought_ticks": 0}


def test_seek_writes_the_state(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--output writes all fields as .npz, live rows only; --picture draws a map; --field shows values."""
    assert run(replayer.commands.main.main, f"seek {tape} --tick 33 --field plants.energy") == 0
    assert run(replayer.commands.main.main, f"seek {tape} --tick 33 --output s.npz --picture") == 0

    out = capsys.readouterr().out
    with np.load("s.npz") as arrays, replayer.Timeline(tape) as timeline:
        state = timeline[33]
        assert set(arrays) == set(state)
        assert all((arrays[name] == state[name]).all() and arrays[name].dtype == state[name].dtype for name in arrays)
    assert any(set(line) <= set(" ░▒▓█") and "▒" in line for line in out.splitlines())
    assert "plants.energy" in out


def test_info_says_what_the_tape_is(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json has the documented keys with correct values; the text names world, ticks and status."""
    assert run(replayer.commands.main.main, f"info {tape} --json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["world"], facts["first_tick"], facts["last_tick"]) == ("meadow", 0, 90)
    assert (facts["sealed"], facts["status"], facts["mode"]) == (True, "intact", "events")
    assert facts["bytes"] == tape.stat().st_size
    assert facts["outcome"] == {"reason": "Z1", "ticks": 90, "text": "the last tick, as asked"}

    assert run(replayer.commands.main.main, f"info {tape}") == 0
    assert f"{tape}: intact, sealed" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["verify", "verify -j 2", "verify --fast"])
def test_verify_of_an_intact_tape(tape: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Exit code 0 and one line; nothing is written."""
    before = files(tape.parent.parent)
    assert run(replayer.commands.main.main, line) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert files(tape.parent.parent) == before


class EditedMeadow(Meadow):
    """A meadow with an edited phase: at tick 58 the lifecycle takes a little from one plant."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)

        def edited_lifecycle(_: Any) -> None:
            run_lifecycle(self._context)
            if self.state["tick"] == 58:
                self.state["plants.energy"][5] -= 1

        self.phases = tuple(
            type(phase)("lifecycle", edited_lifecycle) if phase.name == "lifecycle" else phase for phase in self.phases
        )


def make_edited() -> EditedMeadow:
    """The factory that --sim names in the test below."""
    return EditedMeadow(tomllib.loads(TINY))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.seldom(0.15)
def test_an_edited_phase_is_caught_at_its_first_tick(
    tape: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """verify names tick 58 and the field, writes a dump and ends with 1; so does a seek into the interval."""
    monkeypatch.setattr(replayer.commands.arguments, "load_factory", lambda _: make_edited)

    assert run(replayer.commands.main.main, f"verify {tape} --sim edited:make --jobs {jobs}") == 1

    out = capsys.readouterr().out
    assert "DESYNC at tick 58" in out
    assert "plants.energy: 1 row\n" in out
    dump = tape.with_name("tiny-1.desync_3_58")
    assert f"dump: {dump}" in out
    assert {file.name for file in dump.iterdir()} >= {"report.md", "finding.json", "inputs.json", "before.npz"}

    assert run(replayer.commands.main.main, f"seek {tape} --tick 59 --sim edited:make") == 1
    error = capsys.readouterr().err
    assert error.startswith("error: desync at tick 58: recorded hash ")
    assert len(error.splitlines()) == 1


MISTAKES = {
    "seek nothing.tape --tick 1": (2, "nothing.tape: No such file or directory"),
    "seek tiny.toml --tick 1": (5, "tiny.toml: this is not a tape"),
    "info empty.tape": (5, "empty.tape: this is not a tape"),
    "info .": (2, ".: Is a directory"),
    "seek --tick 91": (2, "tick 91: the tape has ticks 0 to 90"),
    "seek --tick -92": (2, "tick -92: the tape has ticks 0 to 90"),
    "seek --tick soon": (2, "expected an integer, got 'soon'"),
    "seek --tick 5.5": (2, "expected an integer, got '5.5'"),
    "seek": (2, "--tick"),
    "seek --tick 1 --field plants.colour": (2, "no field 'plants.colour'; the fields are "),
    "seek --tick 1 --output state.txt": (2, "state.txt: expected a name that ends in .npz"),
    "seek --tick 1 --output no/such/state.npz": (2, "no/such/state.npz: No such file or directory"),
    "seek --tick 1 --sim nowhere": (2, "--sim 'nowhere': expected module:factory"),
    "seek --tick 1 --sim no_module_here:Factory": (2, "--sim no_module_here:Factory: No module named"),
    "verify --jobs 0": (2, "--jobs"),
    "rewind": (2, "rewind"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_with_replay_gets_one_line(tape: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """One clear line on stderr, the right exit code, nothing on stdout, nothing written."""
    (tape.parent.parent / "empty.tape").write_bytes(b"")
    before = files(tape.parent.parent)
    code, text = MISTAKES[line]

    assert run(replayer.commands.main.main, line) == code

    captured = capsys.readouterr()
    assert text in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
    assert files(tape.parent.parent) == before


BAD_SCENARIOS = {
    'world = "meadow"': ('world = "meadows"', "no world named 'meadows' is installed; installed: choreography, meadow"),
    'world = "meadow"\n': ("", "world: expected the name of a world"),
    "seed_cost = 2": ("seed_cots = 2", "flora[0].seed_cots: unknown key; known keys: name, base_energy"),
    "max_energy = 9": ("", "flora[0].max_energy: this key is missing"),
    "base_energy = 4": ("base_energy = -4", "flora[0].base_energy: expected a decimal number from 0 to 1000000"),
    "growth_percent = 5": (
        'growth_percent = "much"',
        "flora[0].growth_percent: expected a decimal number from 0 to 1000",
    ),
    "width = 12": ("width = 12.5", "grid.width: expected an integer from 1 to 4096, got 12.5"),
    "diet = [[true]]": ("diet = [[true, false]]", "diet: expected 1 rows (herbivores) of 1 values (flora)"),
    'species = "snail"': ('species = "slug"', "swarms[0].species: expected one of snail, got 'slug'"),
    "x = 2": ("x = 12", "swarms[0].x: expected a whole number from 0 to 11, got 12"),
    "ticks = 90": ("ticks = ", "bad.toml is not valid TOML: "),
}


@pytest.mark.parametrize("wrong", BAD_SCENARIOS)
def test_a_mistake_in_a_scenario_gets_one_line(
    empty_folder: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    """The line names the key and what was expected; exit code 2; no tape and no folder is made."""
    instead, text = BAD_SCENARIOS[wrong]
    assert wrong in TINY
    (empty_folder / "bad.toml").write_text(TINY.replace(wrong, instead, 1))

    assert run(recorder.commands.main.main, "run bad.toml") == 2

    captured = capsys.readouterr()
    assert text in captured.err
    assert len(captured.err.splitlines()) == 1
    assert [path.name for path in empty_folder.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "run no-such-scenario",
            "no-such-scenario is neither a scenario file nor a shipped scenario; shipped: arms-race, boom-and-crash, large, organisms, ping-pong, quiet-meadow, swarm, two-phase-vote",
        ),
        ("run tiny.toml -o recordings/tiny-1.tape", "recordings/tiny-1.tape already exists"),
        ("run tiny.toml -o no/such/folder/a.tape", "no/such/folder: No such file or directory"),
        ("run tiny.toml --ticks 0", "--ticks"),
        ("run tiny.toml --seed -1", "--seed"),
        ("run tiny.toml --ticks 2.7", "expected an integer, got '2.7'"),
        ("run tiny.toml --sync often", "sync='often': expected a time such as"),
        ("run", "SCENARIO"),
    ],
)
def test_a_mistake_with_record_gets_one_line(
    tape: Path, capsys: pytest.CaptureFixture[str], line: str, text: str
) -> None:
    """One clear line on stderr, exit code 2, nothing written."""
    before = files(tape.parent.parent)

    assert run(recorder.commands.main.main, line) == 2

    captured = capsys.readouterr()
    assert text in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
    assert files(tape.parent.parent) == before


def test_a_changed_input_in_the_tape(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flipped byte inside a frame block: exit code 4, one line for seek and for info's verify, nothing written."""
    block = [block for block in Reader(tape.read_bytes()).blocks if block.kind == FRAMES][1]
    data = bytearray(tape.read_bytes())
    data[block.offset + HEADER_BYTES + 5] ^= 1
    tape.write_bytes(data)
    before = files(tape.parent.parent)

    assert run(replayer.commands.main.main, f"seek {tape} --tick 25") == 4
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: corrupt at byte {block.offset}: ")
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""

    assert run(replayer.commands.main.main, f"verify {tape}") == 4
    assert f"corrupt at byte {block.offset}" in capsys.readouterr().out
    assert files(tape.parent.parent) == before


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.long)])
def test_truncation_at_every_byte_of_the_last_blocks(tape: Path, stride: int) -> None:
    """Each cut in the last two frame blocks, or after them, opens and seeks up to the last intact block."""
    data = tape.read_bytes()
    ends: list[tuple[int, int]] = []  # The end of each block, and the last tick that is complete by then.
    blocks = Reader(data).blocks
    frame_blocks = [block.offset for block in blocks if block.kind == FRAMES]
    last = 0
    for block in blocks:
        last = max(last, block.first_tick + max(0, block.tick_count - 1))
        ends.append((block.offset + HEADER_BYTES + -(-block.stored // 8) * 8, last))
    with Tape(tape) as whole:
        hashes = {tick: whole.state_hash(tick) for tick in range(91)}
    cut = tape.with_name("cut.tape")
    cut.write_bytes(data)
    for size in reversed(range(frame_blocks[-2], len(data), stride)):
        os.truncate(cut, size)
        expected = max(last for end, last in ends if end <= size)
        with replayer.Timeline(cut) as timeline:
            assert (timeline.last_tick, timeline.tape.status) == (expected, "incomplete"), size
            if size % 64 in (0, 1):  # Seeking at every byte would only repeat the same few seeks.
                assert timeline.seek(-1).state_hash == hashes[expected]
    assert {last for end, last in ends if end > frame_blocks[-2]} == {80, 90}
    assert run(replayer.commands.main.main, f"info {cut}") == 3
    assert run(replayer.commands.main.main, f"verify {cut}") == 3


def test_a_scenarios_name_cannot_leave_the_folder(empty_folder: Path) -> None:
    """A path is refused; dots and spaces in a name become a plain file name in recordings/."""
    odd = empty_folder / "odd.toml"
    odd.write_text(TINY.replace("seed = 3", 'seed = 3\nname = "../../b x"'))
    assert run(recorder.commands.main.main, "run odd.toml -q --ticks 2") == 2
    assert sorted(files(empty_folder)) == ["odd.toml"]

    odd.write_text(TINY.replace("seed = 3", 'seed = 3\nname = "..b x"'))
    assert run(recorder.commands.main.main, "run odd.toml -q --ticks 2") == 0
    assert sorted(files(empty_folder)) == ["odd.toml", "recordings/b-x-1.tape"]


def test_a_terminal_without_unicode_gets_no_traceback(empty_folder: Path) -> None:
    """In an ASCII environment the arrow becomes a question mark, and the tape is sealed."""
    (empty_folder / "tiny.toml").write_text(TINY)
    program = "import recorder.commands.main; recorder.commands.main.main(['run', 'tiny.toml', '-o', 'a.tape', '--ticks', '3'])"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    finished = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)

    assert b"3 ticks ? a.tape" in finished.stdout
    with Tape(Path("a.tape")) as tape:
        assert tape.sealed


def test_record_scenarios_lists_what_ships(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has a name and complete sentences."""
    assert run(recorder.commands.main.main, "scenarios") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "arms-race",
        "boom-and-crash",
        "large",
        "organisms",
        "ping-pong",
        "quiet-meadow",
        "swarm",
        "two-phase-vote",
    ]
    assert all(line.endswith(".") for line in lines)
