"""The whole of a run in shards without its tape: joined from the tapes of the shards, each hash proved, or one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sharded_runs import record_in_shards

import replayer.commands.main
from recorder.location.shards_manifest import digest_of
from recorder.scenarios.shards.checked_manifest import ShardTapesError
from replayer.timeline.shards.shard_parts import ShardParts
from replayer.timeline.shards.whole_tape import write_whole
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow

from oracle.command_lines import assert_one_line, files, run

TICKS = 20
GOLDEN = Path(__file__).parent / "golden_version_1"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in two shards, with a player, whose tape of the whole is another place."""
    place = tmp_path_factory.mktemp("recorded")
    record_in_shards(place / "run.tape", "boom-and-crash", 2, TICKS)
    (place / "run.tape").rename(place / "whole")
    return place


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tapes of its shards alone, in an empty folder."""
    shutil.copytree(recorded / "run.tape.shards", tmp_path / "run.tape.shards")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run.tape.shards"


def plain_hashes() -> list[int]:
    """The hashes of the run in one process."""
    plain = load_scenario("boom-and-crash").config
    meadow, inputs_at = Meadow(plain), WORLD.inputs(plain)
    hashes = [meadow.state.hash()]
    for tick in range(1, TICKS + 1):
        meadow.step(inputs_at(tick))
        hashes.append(meadow.state.hash())
    return hashes


def test_the_joined_tape_is_that_of_one_process(folder: Path, tmp_path: Path, recorded: Path) -> None:
    """Hashes, inputs and the id of the run."""
    write_whole(*ShardParts.alone(folder), tmp_path / "joined.tape")
    with replayer.Tape(tmp_path / "joined.tape") as joined, replayer.Tape(recorded / "whole") as whole:
        assert [joined.state_hash(tick) for tick in range(TICKS + 1)] == plain_hashes()
        assert joined.run_id == whole.run_id
        for tick in range(1, TICKS + 1):
            assert joined.frame(tick).encoded_inputs == whole.frame(tick).encoded_inputs


def test_the_joined_tape_has_the_events_and_figures_of_one_process(folder: Path, tmp_path: Path) -> None:
    """Those that a plain run gave at each tick. So the events are extracted, too."""
    write_whole(*ShardParts.alone(folder), tmp_path / "joined.tape")
    plain = load_scenario("boom-and-crash").config
    meadow, inputs_at = Meadow(plain), WORLD.inputs(plain)
    meadow.events_wanted, events, figures = True, list[tuple[int, Any]](), list[dict[str, Any]]()
    figures.append({"tick": 0, **meadow.telemetry()})
    for tick in range(1, TICKS + 1):
        meadow.step(inputs_at(tick))
        events += [(tick, event) for event in meadow.events()]
        figures.append({"tick": tick, **meadow.telemetry()})
    assert events
    with replayer.Tape(tmp_path / "joined.tape") as joined:
        assert list(joined.events()) == events
        table = joined.telemetry()
        assert [{name: values[row] for name, values in table.items()} for row in range(len(table["tick"]))] == figures


COMMANDS: dict[str, tuple[str, str]] = {
    "seek": ("seek {} --tick 9", "tick 9 of run.tape.shards: "),
    "verify": ("verify {}", "run.tape.shards: all 21 ticks match the recording"),
    "verify by two": ("verify {} -j 2", "run.tape.shards: all 21 ticks match the recording"),
    "diff": ("diff whole {}", "21 ticks from 0 to 20, the same"),
    "extract": ("extract {} -o data", "data"),
    "info": ("info {}", "world: meadow"),
    "cut": ("cut {} --ticks 5..20 -o cut.tape", "cut.tape"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_by_the_manifest_without_the_whole(
    name: str, folder: Path, recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the manifest and by the folder, which stays as it is; no temporary name is printed."""
    shutil.copy(recorded / "whole", "whole")
    line, expected = COMMANDS[name]
    before = files(folder)
    for path in ("run.tape.shards/manifest.json", "run.tape.shards"):
        for made in ("data", "cut.tape"):
            shutil.rmtree(made, ignore_errors=True)
            Path(made).unlink(missing_ok=True)
        capfd.readouterr()
        assert run(replayer.commands.main.main, line.format(path)) == 0
        printed = capfd.readouterr()
        assert expected in printed.out
        assert "/replay-shards-" not in printed.out + printed.err
    assert files(folder) == before


def test_a_lookup_file_is_refused_until_the_whole_is_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be gone with the joined tape, and the command said that it was written. The command of the message helps."""
    assert run(replayer.commands.main.main, "index run.tape.shards") == 2
    (told, line) = capsys.readouterr().err.splitlines()
    assert "joined from the shards" in told
    assert line.startswith("error: run.tape.shards: run.tape is missing, beside which the lookup file would be")
    assert [path.name for path in folder.parent.iterdir()] == ["run.tape.shards"]
    assert run(replayer.commands.main.main, line.partition("make it first, replay ")[2]) == 0
    assert run(replayer.commands.main.main, "index run.tape.shards") == 0
    assert (folder.parent / "run.tape.lookup").is_file()


def test_seek_gives_the_state_of_one_process(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replayer.commands.main.main, f"seek {folder} --tick 13 --json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["state_hash"] == f"{plain_hashes()[13]:016x}"


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def of_another_run(folder: Path) -> None:
    """Put the tape of a run with another seed in the place of that of shard 1, with a size and a digest that fit."""
    record_in_shards(Path("other.tape"), "boom-and-crash", 2, TICKS, seed=5)
    other = Path("other.tape.shards/shard-1.tape")
    shutil.copy(other, folder / "shard-1.tape")
    facts = {"bytes": other.stat().st_size, "blake2b": digest_of(other)}
    changed(folder, lambda one: one["tapes"][1].update(facts))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a tape is missing": (lambda folder: (folder / "shard-1.tape").unlink(), "shard-1.tape is missing"),
    "the first tape is missing": (lambda folder: (folder / "shard-0.tape").unlink(), "shard-0.tape is missing"),
    "a tape is cut": (
        lambda folder: (folder / "shard-1.tape").write_bytes((folder / "shard-1.tape").read_bytes()[:-9]),
        "is not the file that the manifest names",
    ),
    "half a manifest": (lambda folder: (folder / "manifest.json").write_text('{"cuts": 1,'), "cannot be read"),
    "another version": (lambda folder: changed(folder, lambda one: one.update(version=9)), "has version 9"),
    "ticks before the first": (lambda folder: changed(folder, lambda one: one.update(first_tick=-3)), "in this order"),
    "ticks in another order": (lambda folder: changed(folder, lambda one: one.update(first_tick=99)), "in this order"),
    "more ticks": (lambda folder: changed(folder, lambda one: one.update(last_tick=99)), "the tape has ticks 0 to 20"),
    "a hash of another run": (lambda folder: changed(folder, lambda one: one.update(last_hash="0")), "holds no whole"),
    "a tape of another run": (of_another_run, "holds no whole"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("what", BAD)
def test_damage_is_one_line(what: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, why = BAD[what]
    change(folder)
    capsys.readouterr()
    assert run(replayer.commands.main.main, "seek run.tape.shards --tick 3") == 2
    assert_one_line(capsys.readouterr(), why)


def test_a_tick_with_another_hash_than_the_whole_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that are joined to something else than what was recorded."""
    joined, ticks = ShardParts.joined, iter(range(99))

    def other(self: ShardParts, parts: Any) -> Any:
        state = joined(self, parts)
        state["tick"][...] += next(ticks) == 5
        return state

    parts, facts = ShardParts.alone(folder)
    monkeypatch.setattr(ShardParts, "joined", other)
    with pytest.raises(ShardTapesError, match="the parts of tick 5 together have the hash"):
        write_whole(parts, facts, tmp_path / "joined.tape")
    assert not (tmp_path / "joined.tape").exists()


def test_a_manifest_of_version_1_joins_beside_its_whole_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written before tapes of shards had the inputs of the whole."""
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    parts = ShardParts.beside(tmp_path / "run.tape")
    assert parts is not None
    assert [parts.whole_at(tick).hash() for tick in range(7)] == plain_hashes()[:7]
    assert run(replayer.commands.main.main, f"verify {tmp_path}/run.tape.shards") == 0
    (tmp_path / "run.tape").unlink()
    capsys.readouterr()
    assert run(replayer.commands.main.main, f"verify {tmp_path}/run.tape.shards") == 2
    assert_one_line(capsys.readouterr(), "run.tape is missing, and ")
