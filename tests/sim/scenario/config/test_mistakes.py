"""Scenario files with a mistake: record run prints one exact line, exits with 2, and writes nothing."""

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
links = [{ from = "snail", to = "world", latency_ms = 5 }]
partition = [["snail"], ["world"]]
[scenario.environment]
reach = 5
bodies = [{ role = "snail", x = 3 }, { role = "world" }]
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
to = "world"
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
    "idle, absent, checkpoint_interval, extensions"
)
NAME = "expected 1 to 100 letters, digits, dots, underscores and dashes, got"
MISTAKES = [
    # the text to replace, its replacement, the line
    (
        "[scenario]",
        "[scenario]\nsped = 1",
        f"scenario.sped: unknown key; known keys: {SCENARIO_KEYS}; did you mean seed?",
    ),
    (
        'id = "thief"',
        'id = "thief"\nsender = "snail"',
        f"scenario.adversaries[0].sender: unknown key; known keys: {ADVERSARY_KEYS}; did you mean senders?",
    ),
    ("steps = 6", 'steps = "six"', "scenario.steps: expected an integer from 1 to 1099511627775, got 'six'"),
    ("steps = 6", "steps = true", "scenario.steps: expected an integer from 1 to 1099511627775, got True"),
    ("steps = 6", "steps = 0", "scenario.steps: expected an integer from 1 to 1099511627775, got 0"),
    (
        "steps = 6",
        "steps = 1",
        "scenario.steps: expected at least 2, a sample at tick 0 and one after it, got 1",
    ),
    ("steps = 6", "seed = -1", "scenario.seed: expected an integer from 0 to 9223372036854775807, got -1"),
    ("steps = 6", 'roles = "snail"', "scenario.roles: expected a list, got 'snail'"),
    ("steps = 6", 'roles = ["slug"]', "scenario.roles[0]: the world has no role slug; roles: snail"),
    ("steps = 6", 'roles = ["snail", "snail"]', "scenario.roles[1]: snail is used twice"),
    ("steps = 6", 'name = "a/b"', f"scenario.name: {NAME} 'a/b'"),
    ("steps = 6", 'name = ".."', f"scenario.name: {NAME} '..'"),
    ("steps = 6", 'inputs = "all"', "scenario.inputs: expected one of auto, list, one, by_role, got 'all'"),
    (
        "at_tick = 2",
        "at_tick = 2, random = 0.5",
        "scenario.adversaries[0].trigger: expected one trigger, got at_tick and random",
    ),
    (
        "at_tick = 2",
        "at_tick = 2, immediate = true",
        "scenario.adversaries[0].trigger: expected one trigger, got at_tick and immediate",
    ),
    (
        "at_tick = 2",
        "at_tik = 2",
        "scenario.adversaries[0].trigger.at_tik: unknown key; known keys: immediate, at_tick, after_step, random, on_event; did you mean at_tick?",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "said" }',
        "scenario.adversaries[0].trigger.on_event.kind: expected one of sent, received, opened, closed, invoked, halted, faulted, got 'said'",
    ),
    (
        "at_tick = 2",
        'on_event = { kind = "sent", role = "slug" }',
        "scenario.adversaries[0].trigger.on_event.role: slug is not a role; roles: snail",
    ),
    (
        "at_tick = 2",
        "random = 1.5",
        "scenario.adversaries[0].trigger.random: expected a decimal number from 0 to 1, got 1.5",
    ),
    ("budget = { total = 1 }\n", "", "scenario.adversaries[2].budget: this key is missing"),
    (
        'total = 3, kind = "windowed"',
        'total = 0, kind = "windowed"',
        "scenario.adversaries[0].budget.total: expected an integer from 1 to 2147483648, got 0",
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
        "scenario.adversaries[1].budget.chance: expected a decimal number from 0 to 1, got 1.01",
    ),
    (
        "chance = 0.5",
        "chance = -0.5",
        "scenario.adversaries[1].budget.chance: expected a decimal number from 0 to 1, got -0.5",
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
        "scenario.adversaries[0].kind: expected one of withholding, timing_disturbance, corruption, repetition, crash, byzantine_interference, got 'stealing'",
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
        "scenario.adversaries[0].copies: expected an integer from 1 to 1024, got 1025",
    ),
    (
        "ticks = 4\n",
        "ticks = 4\ncopies = 1\n",
        "scenario.adversaries[1].copies: timing_disturbance does not have this key",
    ),
    (
        'backend = "canonical"',
        'scheduler_policy = "round_robin"',
        "scenario.execution.scheduler_policy: expected 'auto', since the world has no scheduler, got 'round_robin'",
    ),
    (
        'backend = "canonical"',
        'scheduler_policy = "fair"',
        "scenario.execution.scheduler_policy: expected one of auto, cooperative, round_robin, priority_aging, priority_token_weighted, progress_aware, got 'fair'",
    ),
    (
        'kind = "withholding"',
        'kind = "byzantine_interference"',
        "scenario.adversaries[0].withhold: byzantine_interference needs one of withhold, corrupt and delay",
    ),
    (
        'kind = "withholding"',
        'kind = "byzantine_interference"\ndelay = 1',
        "scenario.adversaries[0].delay: expected both or neither of delay, a chance, and ticks, the length of the delay",
    ),
    (
        'role = "snail"\nduration',
        'role = "slug"\nduration',
        "scenario.adversaries[2].role: slug is not a role; roles: snail",
    ),
    (
        "budget = { total = 1 }",
        "budget = { total = 2 }",
        "scenario.adversaries[2].budget: expected kind activation and total 1: a crash strikes once",
    ),
    (
        "duration = 2",
        'duration = 2\nlabels = ["x"]',
        "scenario.adversaries[2].senders: not with crash: it stops a role and does not select messages",
    ),
    (
        'senders = ["snail"]',
        'senders = ["snail", "slug"]',
        "scenario.adversaries[0].senders[1]: slug is not a role; roles: snail",
    ),
    ('id = "fog"', 'id = "thief"', "scenario.adversaries[1].id: thief is used twice"),
    ('id = "fog"', 'id = "thick fog"', f"scenario.adversaries[1].id: {NAME} 'thick fog'"),
    ('name = "drained"', 'name = "early"', "scenario.properties[1].name: early is used twice"),
    ("tick_ms = 10", "tick_ms = 0", "scenario.network.tick_ms: expected a time above 0, got 0"),
    (
        "latency_ms = 5",
        "latency_ms = -5",
        "scenario.network.links[0].latency_ms: expected a decimal number from 0 to 1000000, got -5",
    ),
    (
        "latency_ms = 5 }",
        'latency_ms = 5 }, { from = "snail", to = "world" }',
        "scenario.network.links[1]: a second link from snail to world: merge the two",
    ),
    (
        'links = [{ from = "snail"',
        'links = [{ from = "slug"',
        "scenario.network.links[0].from: slug is not a role; roles: snail",
    ),
    (
        'partition = [["snail"], ["world"]]',
        'partition = [["slug"]]',
        "scenario.network.partition[0][0]: slug is not a role; roles: snail",
    ),
    (
        'partition = [["snail"], ["world"]]',
        'partition = [["snail"], ["snail"]]',
        "scenario.network.partition[1][0]: snail is in a group already",
    ),
    (
        'bodies = [{ role = "snail"',
        'bodies = [{ role = "slug"',
        "scenario.environment.bodies[0].role: slug is not a role; roles: snail",
    ),
    ("x = 3 }", 'x = 3 }, { role = "snail" }', "scenario.environment.bodies[1].role: snail has two bodies: remove one"),
    (
        "x = 3",
        "asleep_every = 3",
        "scenario.environment.bodies[0].asleep_every: expected both or neither of asleep_every and asleep_ticks",
    ),
    (
        "x = 3",
        "asleep_every = 3, asleep_ticks = 4",
        "scenario.environment.bodies[0].asleep_ticks: expected at most asleep_every, 3, got 4",
    ),
    (
        "reach = 5",
        "contention = 3\ncollision = 3",
        "scenario.environment.collision: expected more than contention, 3, got 3",
    ),
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
        'from = "snail"\nto = "world"\nenabled = false',
        'groups = [["snail"], ["snail"]]',
        "scenario.reconfigurations[0].from: this key is missing: link needs it",
    ),
    (
        'kind = "link"\nfrom = "snail"\nto = "world"\nenabled = false',
        'kind = "federation"\ngroups = [["snail"], ["snail"]]',
        "scenario.reconfigurations[0].groups[1][0]: snail is in a group already",
    ),
    (
        'when = "tick < 99"',
        'when = "tick is small"',
        "scenario.properties[0].when: expected a comparison such as 'tick < 100', got 'tick is small'",
    ),
    (
        'when = "tick < 99"',
        "when = 99",
        "scenario.properties[0].when: expected a comparison such as 'tick < 100', got 99",
    ),
    ('when = "tick < 99"\n', "", "scenario.properties[0].when: this key is missing: always needs it"),
    (
        'kind = "always"\nwhen = "tick < 99"',
        'kind = "function"',
        "scenario.properties: the function of property early is missing: give the simulation the member properties = {'early': function}, or set it in the function that makes the simulation",
    ),
    ("bound = 9", "bound = 9\nsession = 1", "scenario.properties[1].session: liveness does not have this key"),
    (
        "bound = 9",
        "bound = 0",
        "scenario.properties[1].bound: expected an integer from 1 to 1099511627775, got 0",
    ),
    (
        '"canonical"',
        '"canonical"\nscheduler_concurrency = 2',
        'scenario.execution.scheduler_concurrency: expected 1 unless backend = "threaded", got 2',
    ),
    (
        '"canonical"',
        '"auto"\nworker_threads = 2',
        'scenario.execution.worker_threads: expected 1 unless backend = "threaded", got 2',
    ),
    (
        '"canonical"',
        '"parallel"',
        "scenario.execution.backend: expected one of auto, canonical, threaded, got 'parallel'",
    ),
    (
        '[scenario.execution]\nbackend = "canonical"',
        'checkpoint_interval = 5\n[scenario.execution]\nbackend = "threaded"',
        "scenario.checkpoint_interval: a threaded run writes no checkpoints: remove this key, the keyframes of its tape serve instead",
    ),
    (
        "steps = 6",
        "checkpoint_interval = 0",
        "scenario.checkpoint_interval: expected an integer from 1 to 1099511627775, got 0",
    ),
    ("\nticks = 5", "\nticks = 5\nname = 5", "name: expected text, got 5"),
    (
        "\nticks = 5",
        '\nticks = 5\nseed = "one"',
        "seed: expected an integer from 0 to 9223372036854775807, got 'one'",
    ),
    ("\nticks = 5", '\nticks = 5\nbase = "nothing"', "base: expected a file or one of {shipped}, got 'nothing'"),
    ("\nticks = 5", "\nticks = 5\nbase = 7", "base: expected a file or one of {shipped}, got 7"),
    ("\nticks = 5", '\nticks = 5\nbase = "."', "base: expected a file or one of {shipped}, got '.'"),
    (
        "\nticks = 5",
        '\nticks = 5\nbase = "based.toml"',
        "base: expected a scenario without a base, but based.toml has one",
    ),
    (
        "\nticks = 5",
        '\nticks = 5\nbase = "torn.toml"',
        "torn.toml is not valid TOML: Invalid value (at line 1, column 9)",
    ),
    ('world = "meadow"', "", "world: expected the name of a world, one of {worlds}"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two scenario files that cannot serve as a base."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "based.toml").write_text('base = "arms-race"')
    (tmp_path / "torn.toml").write_text("world = =")
    return tmp_path


def line_of(capsys: pytest.CaptureFixture[str], folder: Path, content: str) -> str:
    """The error that record run prints for a file, without its prefix; fail if anything is written."""
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
    """Each line names the key, the expected value and the actual one."""
    from sim.scenario.scenario_file import shipped_scenarios

    assert GOOD.count(old) == 1, old
    line = line.replace("{shipped}", ", ".join(shipped_scenarios())).replace("{worlds}", ", ".join(world_names()))

    assert line_of(capsys, folder, GOOD.replace(old, new)) == line


def test_without_a_mistake_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The file without a mistake runs: each line above is about its mistake alone."""
    Path("good.toml").write_text(GOOD)

    assert run(recorder.commands.main.main, "run good.toml -q -o a.tape") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("scenario", ["scenario = 5", "scenario = []", "scenario = 'x'"])
def test_a_scenario_that_is_not_a_table(folder: Path, capsys: pytest.CaptureFixture[str], scenario: str) -> None:
    """The message shows the value."""
    value = scenario.removeprefix("scenario = ")
    assert line_of(capsys, folder, f"{scenario}\n{TINY}") == f"scenario: expected a table, got {value}"


@pytest.mark.parametrize(
    ("when", "key"),
    [
        ('kind = "always"\nwhen = "hieght > 3"', "when"),
        ('kind = "liveness"\nprecondition = "hieght > 3"\ngoal = "tick > 5"\nbound = 2', "precondition"),
        ('kind = "liveness"\ngoal = "hieght > 3"\nprecondition = "tick > 5"\nbound = 2', "goal"),
    ],
)
def test_an_unknown_figure(folder: Path, capsys: pytest.CaptureFixture[str], when: str, key: str) -> None:
    """The message lists the known figures: those of the scenario, then those of the world."""
    line = line_of(capsys, folder, f'{TINY}\n[[scenario.properties]]\nname = "p"\n{when}')

    start = f"scenario.properties[0].{key}: unknown figure hieght; figures: tick, buffered, in_flight, "
    assert line.startswith(f"{start}distance_to_equilibrium, ")
    assert ", heads.snail, " in line


@pytest.mark.parametrize(
    ("part", "count", "line"),
    [
        ("roles", 4097, "roles: expected at most 4096, got 4097"),
        ("adversaries", 1025, "adversaries: expected at most 1024, got 1025"),
        ("properties", 1025, "properties: expected at most 1024, got 1025"),
    ],
)
def test_too_many(part: str, count: int, line: str) -> None:
    """The number of parts is limited, because each round checks all of them."""
    parts = {
        "roles": [f"r{n}" for n in range(count)],
        "adversaries": [{"id": f"x{n}", "kind": "corruption", "budget": {"total": 1}} for n in range(count)],
        "properties": [{"name": f"p{n}", "kind": "no_faults"} for n in range(count)],
    }
    with pytest.raises(ConfigError) as caught:
        read_scenario_config({part: parts[part]})
    assert str(caught.value) == line
