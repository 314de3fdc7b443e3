"""Scenario files with a mistake: the exact line that each gets from record run, exit code 2, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

import recorder.commands.main
from sim import ConfigError, world_names
from sim.scenario.config.scenario import read_scenario_config

from oracle.command_lines import TINY, files, run

GOOD = """
world = "meadow"
ticks = 5
diet = [[true]]
[grid]
width = 6
height = 6
[[flora]]
name = "moss"
base_energy = 4
max_energy = 9
growth_percent = 1
survival_threshold = 1
reproduction_interval = 10
seed_cost = 2
[[herbivores]]
name = "snail"
consumption_rate = 1
upkeep = 0.1
energy_min = 2
[scenario]
steps = 6
[scenario.execution]
backend = "canonical"
[scenario.network]
tick_ms = 10
links = [{ from = "snail", to = "snail", latency_ms = 5 }]
partition = [["snail"]]
[scenario.environment]
reach = 5
bodies = [{ role = "snail", x = 3 }]
[[scenario.adversaries]]
id = "thief"
kind = "withholding"
senders = ["snail"]
budget = { total = 3, kind = "windowed", window_ticks = 5, max_per_window = 1 }
trigger = { at_tick = 2 }
[[scenario.adversaries]]
id = "fog"
kind = "timing_disturbance"
ticks = 4
budget = { total = 3, kind = "independent", chance = 0.5 }
[[scenario.adversaries]]
id = "blow"
kind = "crash"
role = "snail"
duration = 2
budget = { total = 1 }
[[scenario.reconfigurations]]
id = "cut"
kind = "link"
from = "snail"
to = "snail"
enabled = false
[[scenario.properties]]
name = "early"
kind = "always"
when = "tick < 99"
[[scenario.properties]]
name = "drained"
kind = "liveness"
precondition = "in_flight > 0"
goal = "in_flight == 0"
bound = 9
"""

ADVERSARY_KEYS = "id, kind, budget, trigger, senders, receivers, labels, ticks, copies, role, duration, withhold, corrupt, delay, diagnostic"
SCENARIO_KEYS = (
    "name, roles, seed, steps, execution, network, environment, adversaries, reconfigurations, properties, inputs, "
    "idle, checkpoint_interval, extensions"
)
NAME = "1 to 100 letters, digits, dots, underscores and dashes were expected, found"
MISTAKES = [
    # what is replaced, by what, the line
    ("[scenario]", "[scenario]\nsped = 1", f"scenario.sped: there is no such key; known: {SCENARIO_KEYS}"),
    (
        'id = "thief"',
        'id = "thief"\nsender = "snail"',
        f"scenario.adversaries[0].sender: there is no such key; known: {ADVERSARY_KEYS}",
    ),
    ("steps = 6", 'steps = "six"', "scenario.steps: a whole number from 1 to 1099511627775 was expected, found 'six'"),
    ("steps = 6", "steps = true", "scenario.steps: a whole number from 1 to 1099511627775 was expected, found True"),
    ("steps = 6", "steps = 0", "scenario.steps: a whole number from 1 to 1099511627775 was expected, found 0"),
    (
        "steps = 6",
        "steps = 1",
        "scenario.steps: expected at least 2, a sample at tick 0 and one after it, got 1",
    ),
    ("steps = 6", "seed = -1", "scenario.seed: a whole number from 0 to 9223372036854775807 was expected, found -1"),
    ("steps = 6", 'roles = "snail"', "scenario.roles: a list was expected, found 'snail'"),
    ("steps = 6", 'roles = ["slug"]', "scenario.roles[0]: the world has no role slug; roles: snail"),
    ("steps = 6", 'roles = ["snail", "snail"]', "scenario.roles[1]: snail is there already"),
    ("steps = 6", 'name = "a/b"', f"scenario.name: {NAME} 'a/b'"),
    ("steps = 6", 'name = ".."', f"scenario.name: {NAME} '..'"),
    ("steps = 6", 'inputs = "all"', "scenario.inputs: one of auto, list, one, by_role was expected, found 'all'"),
    (
        "at_tick = 2",
        "at_tick = 2, random = 0.5",
        "scenario.adversaries[0].trigger: one trigger was expected, found at_tick and random",
    ),
    (
        "at_tick = 2",
        "at_tick = 2, immediate = true",
        "scenario.adversaries[0].trigger: one trigger was expected, found at_tick and immediate",
    ),
    (
        "at_tick = 2",
        "at_tik = 2",
        "scenario.adversaries[0].trigger.at_tik: there is no such key; known: immediate, at_tick, after_step, random, on_event",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "said" }',
        "scenario.adversaries[0].trigger.on_event.kind: one of sent, received, opened, closed, invoked, halted, faulted was expected, found 'said'",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "sent", role = "slug" }',
        "scenario.adversaries[0].trigger.on_event.role: slug is no role; roles: snail",
    ),
    (
        "at_tick = 2",
        "random = 1.5",
        "scenario.adversaries[0].trigger.random: a decimal number from 0 to 1 was expected, found 1.5",
    ),
    ("budget = { total = 1 }\n", "", "scenario.adversaries[2].budget: this key is missing"),
    (
        'total = 3, kind = "windowed"',
        'total = 0, kind = "windowed"',
        "scenario.adversaries[0].budget.total: a whole number from 1 to 2147483648 was expected, found 0",
    ),
    ('total = 3, kind = "windowed"', 'kind = "windowed"', "scenario.adversaries[0].budget.total: this key is missing"),
    (
        ", max_per_window = 1",
        "",
        "scenario.adversaries[0].budget.max_per_window: this key is missing: windowed needs it",
    ),
    (
        "max_per_window = 1",
        "max_per_window = 1, chance = 0.5",
        "scenario.adversaries[0].budget.chance: windowed does not have this key",
    ),
    (
        "chance = 0.5",
        "chance = 1.01",
        "scenario.adversaries[1].budget.chance: a decimal number from 0 to 1 was expected, found 1.01",
    ),
    (
        "chance = 0.5",
        "chance = -0.5",
        "scenario.adversaries[1].budget.chance: a decimal number from 0 to 1 was expected, found -0.5",
    ),
    ("ticks = 4\n", "", "scenario.adversaries[1].ticks: this key is missing: timing_disturbance needs it"),
    (
        "ticks = 4\n",
        'ticks = 4\nrole = "snail"\n',
        "scenario.adversaries[1].role: timing_disturbance does not have this key",
    ),
    (
        'kind = "withholding"',
        'kind = "stealing"',
        "scenario.adversaries[0].kind: one of withholding, timing_disturbance, corruption, repetition, crash, byzantine_interference was expected, found 'stealing'",
    ),
    (
        'kind = "withholding"',
        'kind = "repetition"\nticks = 1',
        "scenario.adversaries[0].copies: this key is missing: repetition needs it",
    ),
    (
        'kind = "withholding"',
        'kind = "repetition"\ncopies = 1',
        "scenario.adversaries[0].ticks: this key is missing: repetition needs it",
    ),
    (
        'kind = "withholding"',
        'kind = "repetition"\nticks = 1\ncopies = 1025',
        "scenario.adversaries[0].copies: a whole number from 1 to 1024 was expected, found 1025",
    ),
    (
        "ticks = 4\n",
        "ticks = 4\ncopies = 1\n",
        "scenario.adversaries[1].copies: timing_disturbance does not have this key",
    ),
    (
        'backend = "canonical"',
        'scheduler_policy = "round_robin"',
        "scenario.execution.scheduler_policy: the world has no scheduler, found 'round_robin'",
    ),
    (
        'backend = "canonical"',
        'scheduler_policy = "fair"',
        "scenario.execution.scheduler_policy: one of auto, cooperative, round_robin, priority_aging, priority_token_weighted, progress_aware was expected, found 'fair'",
    ),
    (
        'kind = "withholding"',
        'kind = "byzantine_interference"',
        "scenario.adversaries[0].withhold: byzantine_interference needs one of withhold, corrupt and delay",
    ),
    (
        'kind = "withholding"',
        'kind = "byzantine_interference"\ndelay = 1',
        "scenario.adversaries[0].delay: delay, a chance, and ticks, by how much, go together",
    ),
    (
        'role = "snail"\nduration',
        'role = "slug"\nduration',
        "scenario.adversaries[2].role: slug is no role; roles: snail",
    ),
    (
        "budget = { total = 1 }",
        "budget = { total = 2 }",
        "scenario.adversaries[2].budget: a crash has a budget of kind activation and total 1",
    ),
    (
        "duration = 2",
        'duration = 2\nlabels = ["x"]',
        "scenario.adversaries[2].senders: a crash stops a role: messages cannot be chosen",
    ),
    (
        'senders = ["snail"]',
        'senders = ["snail", "slug"]',
        "scenario.adversaries[0].senders[1]: slug is no role; roles: snail",
    ),
    ('id = "fog"', 'id = "thief"', "scenario.adversaries[1].id: thief is there already"),
    ('id = "fog"', 'id = "thick fog"', f"scenario.adversaries[1].id: {NAME} 'thick fog'"),
    ('name = "drained"', 'name = "early"', "scenario.properties[1].name: early is there already"),
    ("tick_ms = 10", "tick_ms = 0", "scenario.network.tick_ms: a time above 0 was expected"),
    (
        "latency_ms = 5",
        "latency_ms = -5",
        "scenario.network.links[0].latency_ms: a decimal number from 0 to 1000000 was expected, found -5",
    ),
    (
        "latency_ms = 5 }",
        'latency_ms = 5 }, { from = "snail", to = "snail" }',
        "scenario.network.links[1]: there is a link from snail to snail already",
    ),
    (
        'links = [{ from = "snail"',
        'links = [{ from = "slug"',
        "scenario.network.links[0].from: slug is no role; roles: snail",
    ),
    (
        'partition = [["snail"]]',
        'partition = [["slug"]]',
        "scenario.network.partition[0][0]: slug is no role; roles: snail",
    ),
    (
        'partition = [["snail"]]',
        'partition = [["snail"], ["snail"]]',
        "scenario.network.partition[1][0]: snail is in another group already",
    ),
    (
        'bodies = [{ role = "snail"',
        'bodies = [{ role = "slug"',
        "scenario.environment.bodies[0].role: slug is no role; roles: snail",
    ),
    ("x = 3 }", 'x = 3 }, { role = "snail" }', "scenario.environment.bodies[1].role: snail has a body already"),
    (
        "x = 3",
        "asleep_every = 3",
        "scenario.environment.bodies[0].asleep_every: asleep_every and asleep_ticks go together",
    ),
    (
        "x = 3",
        "asleep_every = 3, asleep_ticks = 4",
        "scenario.environment.bodies[0].asleep_ticks: at most asleep_every was expected",
    ),
    ("reach = 5", "contention = 3\ncollision = 3", "scenario.environment.collision: more than contention was expected"),
    ("enabled = false", "groups = []", "scenario.reconfigurations[0].groups: link does not have this key"),
    (
        "enabled = false",
        "",
        "scenario.reconfigurations[0].enabled: a link needs one of enabled, latency_ms, variance and loss",
    ),
    (
        'kind = "link"\nfrom = "snail"',
        'kind = "link"',
        "scenario.reconfigurations[0].from: this key is missing: link needs it",
    ),
    (
        'from = "snail"\nto = "snail"\nenabled = false',
        'groups = [["snail"], ["snail"]]',
        "scenario.reconfigurations[0].from: this key is missing: link needs it",
    ),
    (
        'kind = "link"\nfrom = "snail"\nto = "snail"\nenabled = false',
        'kind = "federation"\ngroups = [["snail"], ["snail"]]',
        "scenario.reconfigurations[0].groups[1][0]: snail is in another group already",
    ),
    (
        'when = "tick < 99"',
        'when = "tick is small"',
        "scenario.properties[0].when: a comparison such as 'tick < 100' was expected, found 'tick is small'",
    ),
    (
        'when = "tick < 99"',
        "when = 99",
        "scenario.properties[0].when: a comparison such as 'tick < 100' was expected, found 99",
    ),
    ('when = "tick < 99"\n', "", "scenario.properties[0].when: this key is missing: always needs it"),
    (
        'kind = "always"\nwhen = "tick < 99"',
        'kind = "function"',
        "scenario.properties: the property early is a function of yours, which was not given: let the simulation have properties = {'early': function}, or what makes it set them",
    ),
    ("bound = 9", "bound = 9\nsession = 1", "scenario.properties[1].session: liveness does not have this key"),
    (
        "bound = 9",
        "bound = 0",
        "scenario.properties[1].bound: a whole number from 1 to 1099511627775 was expected, found 0",
    ),
    (
        '"canonical"',
        '"canonical"\nscheduler_concurrency = 2',
        'scenario.execution.scheduler_concurrency: only backend = "threaded" has more than 1, found 2',
    ),
    (
        '"canonical"',
        '"auto"\nworker_threads = 2',
        'scenario.execution.worker_threads: only backend = "threaded" has more than 1, found 2',
    ),
    (
        '"canonical"',
        '"parallel"',
        "scenario.execution.backend: one of auto, canonical, threaded was expected, found 'parallel'",
    ),
    (
        '[scenario.execution]\nbackend = "canonical"',
        'checkpoint_interval = 5\n[scenario.execution]\nbackend = "threaded"',
        "scenario.checkpoint_interval: a threaded run makes no checkpoints: its tape's keyframes serve",
    ),
    (
        "steps = 6",
        "checkpoint_interval = 0",
        "scenario.checkpoint_interval: a whole number from 1 to 1099511627775 was expected, found 0",
    ),
    ("\nticks = 5", "\nticks = 5\nname = 5", "name: text was expected, found 5"),
    (
        "\nticks = 5",
        '\nticks = 5\nseed = "one"',
        "seed: a whole number from 0 to 9223372036854775807 was expected, found 'one'",
    ),
    ("\nticks = 5", '\nticks = 5\nbase = "nothing"', "base: a file or one of {shipped} was expected, found 'nothing'"),
    ("\nticks = 5", "\nticks = 5\nbase = 7", "base: a file or one of {shipped} was expected, found 7"),
    ("\nticks = 5", '\nticks = 5\nbase = "."', "base: a file or one of {shipped} was expected, found '.'"),
    ("\nticks = 5", '\nticks = 5\nbase = "based.toml"', "base: based.toml has a base itself"),
    ("\nticks = 5", '\nticks = 5\nbase = "torn.toml"', "torn.toml is no TOML: Invalid value (at line 1, column 9)"),
    ('world = "meadow"', "", "world: the name of a world was expected, such as {worlds}"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some scenarios to stand upon."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "based.toml").write_text('base = "arms-race"')
    (tmp_path / "torn.toml").write_text("world = =")
    return tmp_path


def line_of(capsys: pytest.CaptureFixture[str], folder: Path, content: str) -> str:
    """What record run says of a file that has a mistake, without its beginning; nothing may be written."""
    (folder / "bad.toml").write_text(content)
    before = files(folder)
    assert run(recorder.commands.main.main, "run bad.toml -o a.tape") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert files(folder) == before
    return captured.err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(("old", "new", "line"), MISTAKES, ids=[str(n) for n in range(len(MISTAKES))])
def test_a_mistake_gets_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, line: str
) -> None:
    """Which key, what was expected, what was found."""
    from sim.scenario.scenario_file import shipped_scenarios

    assert GOOD.count(old) == 1, old
    line = line.replace("{shipped}", ", ".join(shipped_scenarios())).replace("{worlds}", ", ".join(world_names()))

    assert line_of(capsys, folder, GOOD.replace(old, new)) == line


def test_without_a_mistake_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """So that each of the lines is about the mistake alone."""
    Path("good.toml").write_text(GOOD)

    assert run(recorder.commands.main.main, "run good.toml -q -o a.tape") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("scenario", ["scenario = 5", "scenario = []", "scenario = 'x'"])
def test_what_is_no_table(folder: Path, capsys: pytest.CaptureFixture[str], scenario: str) -> None:
    """Of the scenario and of parts of it."""
    assert line_of(capsys, folder, f"{scenario}\n{TINY}") == "scenario: a table was expected"


@pytest.mark.parametrize(
    ("when", "key"),
    [
        ('kind = "always"\nwhen = "hieght > 3"', "when"),
        ('kind = "liveness"\nprecondition = "hieght > 3"\ngoal = "tick > 5"\nbound = 2', "precondition"),
        ('kind = "liveness"\ngoal = "hieght > 3"\nprecondition = "tick > 5"\nbound = 2', "goal"),
    ],
)
def test_a_figure_that_there_is_not(folder: Path, capsys: pytest.CaptureFixture[str], when: str, key: str) -> None:
    """The figures that there are: those of the scenario, and then those of the world."""
    line = line_of(capsys, folder, f'{TINY}\n[[scenario.properties]]\nname = "p"\n{when}')

    start = f"scenario.properties[0].{key}: there is no figure hieght; figures: tick, buffered, in_flight, "
    assert line.startswith(f"{start}distance_to_equilibrium, ")
    assert ", heads.snail, " in line


@pytest.mark.parametrize(
    ("part", "count", "line"),
    [
        ("roles", 4097, "roles: at most 4096 were expected, found 4097"),
        ("adversaries", 1025, "adversaries: at most 1024 were expected, found 1025"),
        ("properties", 1025, "properties: at most 1024 were expected, found 1025"),
    ],
)
def test_too_many(part: str, count: int, line: str) -> None:
    """Each would be looked at in every round."""
    made = {
        "roles": [f"r{n}" for n in range(count)],
        "adversaries": [{"id": f"x{n}", "kind": "corruption", "budget": {"total": 1}} for n in range(count)],
        "properties": [{"name": f"p{n}", "kind": "no_faults"} for n in range(count)],
    }
    with pytest.raises(ConfigError) as caught:
        read_scenario_config({part: made[part]})
    assert str(caught.value) == line
