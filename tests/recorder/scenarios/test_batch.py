"""Many runs: the same results in the same order for any number of workers, and after the death of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
import tomli_w
from batch_work import always_dies, dies_once, dies_with_a_begun_tape, tapes_in

from recorder.scenarios.batch import Job, RunRecord, job_of, run_job, run_many, worker_count
from recorder.scenarios.batch_manifest import LINES_NAME, MANIFEST_NAME, read_manifest
from recorder.scenarios.harness import run_harness
from recorder.scenarios.sweep import (
    Axis,
    RunChange,
    compare_sweeps,
    read_axis,
    run_batch,
    set_parameter,
    sweep_jobs,
)
from sim.kernel.registry import ConfigError
from sim.scenario.scenario_file import load_scenario

TINY = """
world = "meadow"
name = "tiny"
seed = 1
ticks = 5
diet = [[true]]
[grid]
width = 6
height = 6
[[flora]]
name = "grass"
base_energy = 5
max_energy = 20
growth_percent = 10
survival_threshold = 1
reproduction_interval = 5
seed_cost = 1
seed_distance_min = 1
seed_distance_max = 2
[[herbivores]]
name = "snail"
consumption_rate = 1
upkeep = 0.5
energy_min = 2
[[plants]]
species = "grass"
count = 12
[[swarms]]
species = "snail"
population = 3
count = 2
[scenario]
properties = [{ name = "snails", kind = "always", when = "heads.snail > 4" }]
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Write the file of a small meadow."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def jobs_of(tiny: Path, count: int, folder: Path | None = None) -> list[Job]:
    """Make jobs with seeds from 0."""
    if folder is not None:
        folder.mkdir(exist_ok=True)
    return sweep_jobs(load_scenario(str(tiny)), [Axis("seed", tuple(range(count)))], folder)


def without_place(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return records as plain data, without tape paths and attempts."""
    return [attrs.asdict(attrs.evolve(record, tape=None, attempts=1)) for record in records]


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("count", [16, pytest.param(64, marks=pytest.mark.long)])
def test_the_number_of_workers_does_not_matter(tiny: Path, tmp_path: Path, count: int) -> None:
    """The records are the same on 1, 2 and 4 workers, in threads of this process, and one by one."""
    truth = [run_job(job) for job in jobs_of(tiny, count)]
    assert [record.index for record in truth] == list(range(count))
    assert [dict(record.bindings) for record in truth] == [{"seed": seed} for seed in range(count)]
    assert len({record.final_hash for record in truth}) == count
    assert {record.error for record in truth} == {None}
    for workers in (1, 2, 4):
        assert run_many(jobs_of(tiny, count), workers=workers) == truth
    with ThreadPoolExecutor(3) as threads:
        assert run_many(jobs_of(tiny, 6), executor=threads) == truth[:6]
        assert threads.submit(int).result() == 0  # It was not shut down.
    taped = run_many(jobs_of(tiny, 5, tmp_path / "tapes"), workers=2)
    assert without_place(taped) == without_place(truth[:5])
    assert len(tapes_in(tmp_path / "tapes")) == 5


@pytest.mark.seldom(0.15)
def test_a_worker_that_is_killed(tiny: Path, tmp_path: Path) -> None:
    """Its job runs again; if it kills the worker again, its record has the error; the other records are unchanged."""
    jobs = jobs_of(tiny, 5, tmp_path / "tapes")
    truth = without_place([run_job(job) for job in jobs_of(tiny, 5)])

    found = run_many(jobs, workers=2, work=dies_once)
    assert without_place(found) == truth
    assert found[3].attempts == 2

    dead = run_many(jobs_of(tiny, 5), workers=2, work=always_dies)
    assert dead[3].error == "its worker died 2 times, the last time while running no other job"
    assert without_place([*dead[:3], *dead[4:]]) == [*truth[:3], *truth[4:]]


@pytest.mark.seldom(0.18)
def test_a_partial_tape_of_a_dead_worker(tiny: Path, tmp_path: Path) -> None:
    """A partial tape of the dead worker's run is deleted and only that run repeated; files of other programs stay."""
    jobs = jobs_of(tiny, 3, tmp_path / "tapes")
    assert jobs[2].tape is not None
    jobs[2].tape.write_text("foreign")
    found = run_many(jobs, workers=2, work=dies_with_a_begun_tape)

    assert without_place(found[:2]) == without_place([run_job(job) for job in jobs_of(tiny, 2)])
    assert [record.attempts for record in found] == [1, 2, 1]
    assert found[2].error is not None
    assert found[2].error.startswith("FileExistsError")
    assert jobs[2].tape.read_text() == "foreign"


def test_a_run_that_fails_does_not_end_the_others(tiny: Path) -> None:
    """A job whose world cannot be made has an error; the others have none."""
    jobs = jobs_of(tiny, 3)
    jobs[1] = attrs.evolve(jobs[1], config={**jobs[1].config, "flora": []})
    records = run_many(jobs, workers=1)

    assert records[1].error == "ConfigError: flora: expected 1 to 16 species, got 0"
    assert [record.error for record in (records[0], records[2])] == [None, None]


def test_a_batch_is_continued(tiny: Path, tmp_path: Path) -> None:
    """Finished runs are not repeated, a half-written line does not count, different jobs are refused."""
    folder = tmp_path / "runs"
    jobs = sweep_jobs(load_scenario(str(tiny)), [Axis("seed", (0, 1, 2, 3))], folder)
    ran: list[int] = []

    def work(job: Job) -> RunRecord:
        ran.append(job.index)
        return run_job(job)

    whole = run_batch(jobs, folder, workers=1, work=work)
    assert ran == [0, 1, 2, 3]
    lines = (folder / LINES_NAME).read_text().splitlines(keepends=True)
    (folder / LINES_NAME).write_text("".join(lines[:3]) + lines[3][:40])
    (folder / MANIFEST_NAME).unlink()
    ran.clear()
    shown: list[int] = []
    again = run_batch(
        jobs, folder, workers=1, work=work, finished=lambda record: shown.append(record.index), more={"axes": ["seed"]}
    )

    assert ran == [2, 3]
    assert shown == [0, 1, 2, 3]
    assert without_place(again) == without_place(whole) == without_place(read_manifest(folder))
    assert json.loads((folder / MANIFEST_NAME).read_text())["axes"] == ["seed"]
    for other in (
        sweep_jobs(load_scenario(str(tiny)), [Axis("seed", (0, 1, 2, 7))], folder),
        sweep_jobs(load_scenario(str(tiny)), [Axis("seed", (0, 1, 2, 3))], folder, ticks=13),
        jobs[:3],
    ):
        with pytest.raises(ValueError, match="holds a different batch"):
            run_batch(other, folder, workers=1, work=work)


def test_a_species_that_never_lived(tiny: Path) -> None:
    """It is not extinct at tick 0 and has no survival curve; a species that dies out has one."""
    slug = '[[herbivores]]\nname = "slug"\nconsumption_rate = 1\nupkeep = 0.5\nenergy_min = 2\n[[plants]]'
    tiny.write_text(TINY.replace("diet = [[true]]", "diet = [[true], [true]]").replace("[[plants]]", slug, 1))
    (record,) = run_many(jobs_of(tiny, 1), workers=1)
    assert record.error is None
    assert sorted(record.extinctions) == ["grass", "snail"]
    hungry = TINY.replace("upkeep = 0.5", "upkeep = 90").replace("ticks = 5", "ticks = 40")
    tiny.write_text(hungry)
    (record,) = run_many(jobs_of(tiny, 1), workers=1)
    assert isinstance(record.extinctions["snail"], int)
    assert 0 < record.extinctions["snail"] < 40


def test_axes_that_do_nothing(tiny: Path) -> None:
    """Each is refused with its path; an effective axis is accepted."""
    plain = load_scenario(str(tiny))
    stepped = attrs.evolve(plain, provocation={**(plain.provocation or {}), "steps": 4})
    assert [job.ticks for job in sweep_jobs(plain, [read_axis("ticks=2,3")], None)] == [2, 3]
    assert [job.ticks for job in sweep_jobs(stepped, [read_axis("scenario.steps=2,3")], None)] == [1, 2]
    for loaded, axes, ticks, text in (
        (stepped, ["ticks=5,10"], None, "ticks: scenario.steps sets the length of this scenario"),
        (plain, ["scenario.steps=3,4", "ticks=5"], None, "ticks: scenario.steps sets the length of this scenario"),
        (plain, ["ticks=5,10"], 7, "ticks: the length of the runs is already set: 7 ticks"),
        (stepped, ["scenario.steps=5,10"], 7, "scenario.steps: the length of the runs is already set"),
        (plain, ["world=meadow,choreography"], None, "world: a sweep is of one world"),
        (plain, ["seed=1..2", "name=a,b"], None, "name: 'a' and 'b' give the same run"),
        (plain, ["scenario.name=a,b"], None, "scenario.name: 'a' and 'b' give the same run"),
        (plain, ["scenario.checkpoint_interval=2,3"], None, "scenario.checkpoint_interval: 2 and 3 give the same run"),
    ):
        with pytest.raises(ConfigError, match=text):
            sweep_jobs(loaded, [read_axis(axis) for axis in axes], None, ticks=ticks)


@pytest.mark.parametrize("seeds", ["0,abc", "0,-1", "0,", "0,1.5", "0,true", "3,9223372036854775808,5"])
def test_all_seeds_are_checked(tiny: Path, seeds: str) -> None:
    """All seeds are checked, not only the first."""
    with pytest.raises(ConfigError, match="seed: expected an integer from 0"):
        sweep_jobs(load_scenario(str(tiny)), [read_axis(f"seed={seeds}")], None)


def test_axes_in_order(tiny: Path) -> None:
    """All combinations; the last axis varies fastest; a new key is set; an error names the path."""
    loaded = load_scenario(str(tiny))
    axes = [read_axis("scenario.network.loss=0,0.5"), read_axis("seed=7..8")]
    with pytest.raises(ConfigError, match=r"scenario.network.loss: there is no scenario.network in the scenario"):
        sweep_jobs(loaded, axes, None)
    loaded = attrs.evolve(loaded, provocation={**(loaded.provocation or {}), "network": {}})
    jobs = sweep_jobs(loaded, axes, None)
    assert [list(job.bindings.values()) for job in jobs] == [[0, 7], [0, 8], [0.5, 7], [0.5, 8]]
    assert [(job.config["seed"], job.scenario["seed"], job.scenario["network"]) for job in jobs if job.scenario] == [
        (7, 7, {"loss": 0}),
        (8, 8, {"loss": 0}),
        (7, 7, {"loss": 0.5}),
        (8, 8, {"loss": 0.5}),
    ]
    with pytest.raises(ConfigError, match=r"network.loss: expected a decimal number from 0 to 1, got 2"):
        sweep_jobs(loaded, [read_axis("scenario.network.loss=2")], None)


@pytest.mark.parametrize(
    ("text", "path", "values"),
    [
        ("seed=0..3", "seed", (0, 1, 2, 3)),
        ("seed=-1..-1", "seed", (-1,)),
        ("a.b[0].c=1,2.5,true,word", "a.b[0].c", (1, 2.5, True, "word")),
        ('a=1,true,"1"', "a", (1, True, "1")),
    ],
)
def test_axes_as_text(text: str, path: str, values: tuple[Any, ...]) -> None:
    """An axis is a range or a list."""
    assert read_axis(text) == Axis(path, values)


@pytest.mark.parametrize(
    "text",
    ["seed", "seed=", "=1", "a..b=1", "a[x]=1", "seed=3..1", "seed=0..100000", "seed=1,1", "a=1,1.0", "a=[1],[1]"],
)
def test_axes_that_are_none(text: str) -> None:
    """The error states the expected form."""
    with pytest.raises(ConfigError, match="expected"):
        read_axis(text)


def test_set_parameter() -> None:
    """Values are set in tables and lists, at any depth."""
    plain: dict[str, Any] = {"a": {"b": [{"c": 1}, {"c": 2}]}}
    set_parameter(plain, "a.b[1].c", 5)
    set_parameter(plain, "a.d", [1])
    set_parameter(plain, "a.d[0]", 2)
    assert plain == {"a": {"b": [{"c": 1}, {"c": 5}], "d": [2]}}
    for path in ("a.b[2].c", "a.b.c", "x.y", "a.d[1]", "a.b[0].c.d"):
        with pytest.raises(ConfigError, match="there is no"):
            set_parameter(plain, path, 0)


def test_comparing_sweeps() -> None:
    """Runs are compared by index; a run in only one sweep counts as changed."""
    one = [RunRecord(i, "x", {"seed": i}, final_hash="aa", productive=4) for i in range(4)]
    other = [
        one[0],
        attrs.evolve(one[1], final_hash="bb", productive=6),
        attrs.evolve(one[2], bindings={"seed": 9}, violations=[["p", 3, "text"]], error="oh", regime="threaded_exact"),
        RunRecord(4, "x", {}),
    ]
    assert compare_sweeps(one, one) == []
    assert compare_sweeps(one, other) == [
        RunChange(1, ("hash", "productive"), 2),
        RunChange(2, ("bindings", "error", "regime", "violations")),
        RunChange(3, ("missing",)),
        RunChange(4, ("missing",)),
    ]


def test_a_manifest_holds_progress_and_capacity_of_each_run_and_sums_for_reconfigurations(tmp_path: Path) -> None:
    """The bounds at the end of each run, the transition budget; a comparison of two sweeps compares them."""
    change = {"kind": "mode_transition", "roles": ["Coordinator.0"], "mode": "calm"}
    costs = {"free": 0, "dear": 3, "more": 2}
    changes = [{"id": name, "cost": cost, **change} for name, cost in costs.items()]
    text = """base = "two-phase-vote"
[scenario]
name = "vote"
steps = 64
[[scenario.reconfigurations]]
""" + "[[scenario.reconfigurations]]\n".join(tomli_w.dumps(one) for one in changes)
    (tmp_path / "vote.toml").write_text(text)
    loaded = load_scenario(str(tmp_path / "vote.toml"))
    sweeps = []
    for name, capacities in (("one", [1, 2]), ("other", [1, 3])):
        jobs = sweep_jobs(loaded, [Axis("buffer_capacity", capacities)], tmp_path / name)
        run_batch(jobs, tmp_path / name, workers=1)
        sweeps.append(read_manifest(tmp_path / name))

    for record in sweeps[0]:
        assert record.reconfigurations == {"applied": 3, "pure": 1, "transition": 2, "transition_budget": 5}
        assert record.progress is not None
        assert record.progress["initial_w"] == 2 * record.progress["depth_budget"]
        assert record.progress["critical_capacity_phase"] in {"below", "at"}
        assert record.progress["buffer_phase"] in {"below", "at", "above"}
    assert [change.index for change in compare_sweeps(*sweeps)] == [1]
    looser = attrs.evolve(sweeps[0][1], progress={**(sweeps[0][1].progress or {}), "buffer_phase": "above"})
    tighter = attrs.evolve(looser, progress={**(looser.progress or {}), "buffer_phase": "below"}, reconfigurations={})
    assert compare_sweeps([looser], [tighter]) == [RunChange(1, ("progress", "reconfigurations"))]
    earlier = attrs.evolve(looser, progress=None, reconfigurations=None)  # Of a manifest of an earlier version.
    assert compare_sweeps([earlier], [tighter]) == []


def test_how_many_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as requested, one if CI is set, else one per processor."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.delenv("CI", raising=False)
    assert (worker_count(5), worker_count()) == (5, 3)
    monkeypatch.setenv("CI", "true")
    assert (worker_count(5), worker_count()) == (5, 1)


def test_a_host(tmp_path: Path) -> None:
    """All scenarios of another project run in processes, with its additional rule; an unknown scenario is refused."""
    found = run_harness("batch_work:Rings", workers=2, tapes=tmp_path / "tapes")

    assert [one.record.name for one in found] == ["plain", "slow", "short"]
    assert found[0].failures == ()
    assert found[1].failures == ("quiet was violated at tick 2: in_flight < 4 does not hold: it is 6",)
    assert found[2].failures == ("short has 2 rounds",)
    assert [one.record.ticks for one in found] == [one.record.final_tick for one in found] == [20, 20, 2]
    assert sorted(tapes_in(tmp_path / "tapes")) == ["plain.tape", "short.tape", "slow.tape"]
    with pytest.raises(ValueError, match="has no scenario fast; scenarios: plain, slow, short"):
        run_harness("batch_work:Rings", names=["fast"])
    with pytest.raises(TypeError, match="expected a HostAdapter"):
        run_harness("batch_work:Path")


def test_a_foreign_scenario_has_no_job(tmp_path: Path) -> None:
    """A worker cannot make a simulation without a registered world."""
    path = tmp_path / "foreign.toml"
    path.write_text("[scenario]\nsteps = 3\n")
    with pytest.raises(ValueError, match="foreign: runs in processes need a registered world"):
        job_of(load_scenario(str(path)), 0)
