"""Manifests of shards that were made to mislead: one line, or the true state."""

from __future__ import annotations

import json
import random
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sharded_runs import record_in_shards

from recorder.errors import RecordingError
from recorder.scenarios.shards.checked_manifest import ShardTapesError
from recorder.scenarios.shards.shard_checkpoints import ShardCheckpoints, discover_shard_checkpoints, state_of
from replayer import Tape
from replayer.timeline.shards.shard_parts import ShardParts
from replayer.timeline.shards.whole_tape import write_whole
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow

TICKS, CASES = 3, 60
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2,
    7,
    1 << 70,
    1.5,
    float("nan"),
    "",
    "x",
    "../../x",
    "0" * 32,
    [],
    [0],
    {},
    [[]],
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in two shards, and a checkpoint of two shards at its first tick."""
    place = tmp_path_factory.mktemp("written")
    record_in_shards(place / "run.tape", "boom-and-crash", 2, TICKS)
    (place / "run.tape").rename(place / "whole")
    meadow = ShardedMeadow(load_scenario("boom-and-crash").config, 2)
    (place / "parts").mkdir()
    meta = {"world": meadow.origin.described(), "notes": {}}
    ShardCheckpoints(place / "parts", 1, None, pytest.fail).write_if_due(meadow.shards, meadow.state, 0, meta)
    return place


def mislead(manifest: dict[str, Any], chance: Random) -> None:
    """Change a value, remove it, or exchange two."""
    at: Any = manifest
    key = chance.choice(sorted(at))
    while chance.random() < 0.6 and isinstance(at[key], list | dict) and at[key]:
        at = at[key]
        key = chance.choice(sorted(at) if isinstance(at, dict) else range(len(at)))
    if chance.random() < 0.2:
        del at[key]
    else:
        at[key] = chance.choice(VALUES)


def test_a_misleading_manifest_is_one_line_or_gives_the_true_state(written: Path, tmp_path: Path) -> None:
    chance = Random(random.randrange(1 << 32))
    run_path, checkpoint_path = (
        next(written.glob(f"{where}/**/manifest.json")) for where in ("run.tape.shards", "parts")
    )
    true_state = Meadow(load_scenario("boom-and-crash").config).state
    with Tape(written / "whole") as whole:
        hashes = [whole.state_hash(tick) for tick in range(TICKS + 1)]
    good = {path: path.read_text() for path in (run_path, checkpoint_path)}
    for case in range(CASES):
        path = chance.choice(sorted(good))
        manifest = json.loads(good[path])
        for _ in range(chance.randint(1, 2)):
            if manifest:
                mislead(manifest, chance)
        path.write_text(json.dumps(manifest))
        where, refusal = f"case {case}: {manifest}", ""
        try:
            if path == checkpoint_path:
                found = discover_shard_checkpoints(written / "parts")
                assert len(found.checkpoints) + len(found.ignored) == 1, where
                assert all("\n" not in why for why in found.ignored.values()), where
                assert all((state_of(one).arena == true_state.arena).all() for one in found.checkpoints), where
            else:
                joined = tmp_path / f"{case}.tape"
                write_whole(*ShardParts.alone(run_path.parent), joined)
                with Tape(joined) as tape:
                    ticks = range(tape.first_tick, tape.last_tick + 1)
                    assert [tape.state_hash(tick) for tick in ticks] == [hashes[tick] for tick in ticks], where
        except (ShardTapesError, RecordingError, OSError) as error:
            refusal = str(error)
        except Exception as error:
            raise AssertionError(where) from error
        finally:
            path.write_text(good[path])
        assert "\n" not in refusal, where
