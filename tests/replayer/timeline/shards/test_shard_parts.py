"""Tapes of shards: the whole state of every tick is in them, a desync names its shard, and damage is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sharded_runs import record_in_shards

import replayer.commands.main
from recorder.location.shards_manifest import digest_of, shards_folder
from recorder.scenarios.shards.checked_manifest import ShardTapesError
from replayer.timeline.shards.shard_parts import ShardParts
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.shards.stripe import Stripe

from oracle.command_lines import run

TICKS = 24


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in three shards."""
    path = tmp_path_factory.mktemp("recorded") / "run.tape"
    record_in_shards(path, "arms-race", 3, TICKS)
    return path


@pytest.mark.seldom(0.15)
def test_the_whole_state_is_in_the_tapes_of_its_shards(recorded: Path) -> None:
    """The arena of one process, at every tick, and no shard differs from it."""
    parts = ShardParts.beside(recorded)
    assert parts is not None
    plain = load_scenario("arms-race").config
    meadow, inputs_at = Meadow(plain), WORLD.inputs(plain)
    for tick in range(TICKS + 1):
        if tick:
            meadow.step(inputs_at(tick))
        if tick % 6 == 0:
            assert np.array_equal(parts.whole_at(tick).arena, meadow.state.arena)
            assert parts.differences(tick, meadow.state.snapshot()) == []
    with pytest.raises(ShardTapesError, match="hold the ticks 0 to 24"):
        parts.whole_at(TICKS + 1)


def faulty(shard: int, tick: int) -> Callable[[Any], Any]:
    """A piece of a stripe that has an error from one tick on."""
    piece = Stripe.piece

    def faulty_piece(self: Stripe) -> Any:
        if self.number == shard and self.context.tick == tick:
            self.state["plants.energy"][0] += 1
        return piece(self)

    return faulty_piece


@pytest.mark.seldom(0.15)
def test_a_desync_names_its_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shard that computed something else: the replay in one process differs in its rows alone."""
    with monkeypatch.context() as patch:
        patch.setattr(Stripe, "piece", faulty(1, 17))
        record_in_shards(tmp_path / "run.tape", "arms-race", 3, TICKS)
    assert run(replayer.commands.main.main, f"verify {tmp_path}/run.tape --dump-folder {tmp_path}/a") == 1
    told = capsys.readouterr().out
    assert "DESYNC at tick 17" in told
    assert "  shard 1 of 3 (rows 16 to 31) recorded other values of plants.energy\n" in told
    assert "  the rows of 2 shards are as recorded\n" in told
    assert run(replayer.commands.main.main, f"verify {tmp_path}/run.tape --json --dump-folder {tmp_path}/b") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["shards"] == [{"shard": 1, "first_row": 16, "last_row": 31, "fields": ["plants.energy"]}]
    (tmp_path / "run.tape").rename(
        tmp_path / "whole"
    )  # It is joined from the shards, and the shard named all the same.
    assert run(replayer.commands.main.main, f"verify {tmp_path}/run.tape.shards --json --dump-folder {tmp_path}/d") == 1
    assert json.loads(capsys.readouterr().out)["shards"] == facts["shards"]
    (tmp_path / "whole").rename(tmp_path / "run.tape")
    (shards_folder(tmp_path / "run.tape") / "manifest.json").unlink()
    assert run(replayer.commands.main.main, f"verify {tmp_path}/run.tape --dump-folder {tmp_path}/c") == 1
    assert "shards: not known: " in capsys.readouterr().out


def damage(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def replace(folder: Path, other: Path) -> None:
    """Put another tape in the place of that of shard 0, with the size and the digest that it has."""
    (folder / "shard-0.tape").write_bytes(other.read_bytes())
    facts = {"bytes": other.stat().st_size, "blake2b": digest_of(other)}
    damage(folder, lambda one: one["tapes"][0].update(facts))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a tape is missing": (lambda folder: (folder / "shard-2.tape").unlink(), r"shard-2\.tape is missing"),
    "a tape is cut": (
        lambda folder: (folder / "shard-0.tape").write_bytes((folder / "shard-0.tape").read_bytes()[:-1]),
        "is not the file that the manifest names",
    ),
    "two tapes are exchanged": (
        lambda folder: (folder / "shard-0.tape").write_bytes((folder / "shard-1.tape").read_bytes()),
        "is not the file that the manifest names",
    ),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "the run did not end"),
    "a run id of text": (lambda folder: damage(folder, lambda one: one.update(run_id="x")), "expected the id of a run"),
    "half a manifest": (lambda folder: (folder / "manifest.json").write_text('{"version": 1,'), "cannot be read"),
    "another version": (
        lambda folder: damage(folder, lambda one: one.update(version=9)),
        "has version 9: expected 1 to 2",
    ),
    "a shard too few": (lambda folder: damage(folder, lambda one: one["tapes"].pop()), "divides the world in another"),
    "cuts of text": (lambda folder: damage(folder, lambda one: one.update(cuts=[0, "a", 3, 4])), "in another way"),
    "other cuts": (lambda folder: damage(folder, lambda one: one.update(cuts=[0, 15, 32, 48])), "in another way"),
    "cuts beyond": (lambda folder: damage(folder, lambda one: one.update(cuts=[0, 16, 32, 10**30])), "in another way"),
    "another halo": (lambda folder: damage(folder, lambda one: one.update(halo=-5)), "in another way"),
    "no tapes": (lambda folder: damage(folder, lambda one: one.update(tapes=[], cuts=[0])), "not a manifest of shards"),
    "tapes in another order": (lambda folder: damage(folder, lambda one: one["tapes"].reverse()), "in another way"),
    "too many shards": (lambda folder: damage(folder, lambda one: one.update(tapes=one["tapes"] * 99)), "another way"),
    "a deep manifest": (lambda folder: (folder / "manifest.json").write_text("[" * 100_000), "cannot be read"),
    "a shard twice, and a digest that fits": (
        lambda folder: replace(folder, folder / "shard-1.tape"),
        "no whole|one run",
    ),
    "the whole as a shard": (
        lambda folder: replace(folder, folder.parent / "run.tape"),
        "not of the shards of one run",
    ),
    "of another run": (lambda folder: damage(folder, lambda one: one.update(last_hash="0")), "belongs to another run"),
}


@pytest.mark.parametrize("what", BAD)
def test_damage_is_one_line(what: str, recorded: Path, tmp_path: Path) -> None:
    """Nothing is concluded from tapes that are not those of the run."""
    path = tmp_path / "run.tape"
    path.write_bytes(recorded.read_bytes())
    folder = shards_folder(path)
    folder.mkdir()
    for one in shards_folder(recorded).iterdir():
        (folder / one.name).write_bytes(one.read_bytes())
    assert ShardParts.beside(path) is not None
    change, why = BAD[what]
    change(folder)
    with pytest.raises(ShardTapesError, match=why) as raised:
        ShardParts.beside(path)
    assert "\n" not in str(raised.value)


def test_a_run_without_tapes_of_shards_has_none(recorded: Path, tmp_path: Path) -> None:
    """As one that was made by one process."""
    (tmp_path / "run.tape").write_bytes(recorded.read_bytes())
    assert ShardParts.beside(tmp_path / "run.tape") is None
