"""The modes of a data set (all, winners, balanced) choose agents by the outcomes of the runs' last states."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import recorder.commands.main
import replayer
from replayer.datasets.extract import extract
from replayer.datasets.parts.inspect_tapes import _read, _scores
from replayer.datasets.plan import TapeInput
from replayer.datasets.request import ExtractionError

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.18)

MEADOW = """
world = "meadow"
seed = 3
ticks = 40
diet = [[true], [true]]
[grid]
width = 14
height = 10
[[flora]]
name = "moss"
base_energy = 4
max_energy = 9
growth_percent = 5
survival_threshold = 1
reproduction_interval = 9
seed_cost = 2
[[herbivores]]
name = "snail"
consumption_rate = 0.2
upkeep = 0.05
energy_min = 1
[[herbivores]]
name = "slug"
consumption_rate = 0.2
upkeep = 0.06
energy_min = 1
[[players]]
species = "snail"
budget = 5
income = 0.05
sight = 2
[[players]]
species = "slug"
budget = 5
income = 0.05
sight = 2
[[plants]]
species = "moss"
count = 30
[[swarms]]
species = "snail"
population = 4
count = 2
[[swarms]]
species = "slug"
population = 4
count = 2
"""


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: Any) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "duel.toml").write_text(MEADOW)
    made = [folder / f"run-{seed}.tape" for seed in range(6)]
    players = "--player snail=greedy --player slug=random"
    for seed, path in enumerate(made):
        assert run(recorder.commands.main.main, f"run {folder}/duel.toml -o {path} -q --seed {seed} {players}") == 0
    return made


def outcomes(tapes: list[Path]) -> dict[tuple[str, str], str]:
    """The outcomes by run id and player, computed from the last states."""
    found = {}
    for path in tapes:
        with replayer.open(path) as timeline:
            last = timeline[-1]
            species = last["swarms.species"][last["swarms.id"] != 0]
            heads = last["swarms.population"][last["swarms.id"] != 0]
            scores = [int(heads[species == index].sum()) for index in range(2)]
            for name, mine, other in (("snail", *scores), ("slug", *scores[::-1])):
                found[timeline.tape.run_id, name] = "won" if mine > other else "lost" if mine < other else "drew"
    return found


def whose(folder: Path) -> set[tuple[str, str, str]]:
    table = pq.read_table(folder / "pairs")
    return set(zip(*(table[name].to_pylist() for name in ("run", "agent", "outcome")), strict=True))


@pytest.mark.seldom(0.15)
def test_all_have_the_outcome_of_their_run(tapes: list[Path], tmp_path: Path) -> None:
    extract(tapes, tmp_path / "all", stride=10)
    expected = outcomes(tapes)
    assert whose(tmp_path / "all") == {(*key, outcome) for key, outcome in expected.items()}
    assert len({*expected.values()}) > 1


def test_the_scores_of_a_tape_need_no_replay(tapes: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tapes of record run state what the world computes from their last states."""
    read = [_read(path, None) for path in tapes]
    sources = [one.source for one in read if isinstance(one.source, TapeInput) and not one.lacks_scores]
    computed = [_scores(source) for source in sources]
    monkeypatch.setattr("replayer.datasets.parts.inspect_tapes.Timeline", None)
    assert [source.scores for source in sources] == computed
    assert all(computed)
    assert len(computed) == len(tapes)


@pytest.mark.seldom(0.4)
def test_only_winners(tapes: list[Path], tmp_path: Path) -> None:
    extract(tapes, tmp_path / "won", stride=10, mode="winners", tables=("pairs", "actions"))
    expected = {(*key, outcome) for key, outcome in outcomes(tapes).items() if outcome == "won"}
    assert whose(tmp_path / "won") == expected
    actions = pq.read_table(tmp_path / "won/actions")
    acted = set(zip(actions["run"].to_pylist(), actions["agent"].to_pylist(), strict=True))
    assert acted == {(run_id, agent) for run_id, agent, _ in expected}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_as_many_of_each_outcome(tapes: list[Path], tmp_path: Path, seed: int) -> None:
    one_sided = [tapes[0], *tapes]  # A copy counts once.
    made = extract(one_sided, tmp_path / "even", stride=10, mode="balanced", seed=seed, agents=("snail", "slug"))
    counts = Counter(outcome for *_, outcome in whose(tmp_path / "even"))
    rarest = min(Counter(outcomes(tapes).values()).values())
    assert set(counts.values()) == {rarest}
    assert len(made.manifest["notes"]) == 1


def test_nothing_to_balance(tapes: list[Path], tmp_path: Path) -> None:
    winner = next(agent for (_, agent), outcome in outcomes(tapes[:1]).items() if outcome in ("won", "drew"))
    with pytest.raises(ExtractionError, match="nothing to balance"):
        extract(tapes[0], tmp_path / "none", mode="balanced", agents=winner)


def test_what_the_fog_hides_is_not_in_a_pair(tapes: list[Path], tmp_path: Path) -> None:
    """The columns of a pair equal each player's view at its two ticks, which the live policy got, too."""
    from sim.worlds.meadow.config.meadow import read_config
    from sim.worlds.meadow.players.view import look

    extract(tapes[1], tmp_path / "out", stride=7)
    table = pq.read_table(tmp_path / "out/pairs")
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    with replayer.open(tapes[1]) as timeline:
        config = read_config(timeline.tape.meta["world"]["config"])
        for place in range(table.num_rows):
            agent, begin = table["agent"][place].as_py(), table["tick"][place].as_py()
            for side, tick in (("obs", begin), ("next", begin + table["ticks"][place].as_py())):
                view = look(timeline[tick], config, config.player_of(agent))
                assert columns[f"{side}.swarm_id"][place].as_py() == view.swarm_id.tolist()
                for name in ("seen", "last_seen", "plants", "food", "others", "heads"):
                    found = columns[f"{side}.{name}"].to_numpy_ndarray()[place]
                    assert (found == getattr(view, name)).all()
