"""Scenarios with a mistake: one clear line that names the key and what is expected, exit code 2, no tape."""

from __future__ import annotations

from pathlib import Path

import pytest

import recorder.commands.main

from oracle.command_lines import assert_one_line, run

GOOD = """
world = "meadow"
diet = [[true]]
[grid]
width = 6
height = 6
[links]
cost = 1
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
[[substances]]
name = "alarm"
kind = "signal"
[[triggers]]
flora = "moss"
substance = "alarm"
when = { herbivore = "snail", heads = 2 }
[[plants]]
species = "moss"
count = 3
[termination]
population_max = 50
"""
MORE_FLORA = "".join(
    f'[[flora]]\nname = "moss{n}"\nbase_energy = 4\nmax_energy = 9\ngrowth_percent = 1\nsurvival_threshold = 1\n'
    "reproduction_interval = 10\nseed_cost = 2\n"
    for n in range(16)
)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('species = "moss"', 'species = "fern"', "plants[0].species: expected one of moss, got 'fern'"),
        ("cost = 1", "cost = -1", "links.cost: expected a decimal number from 0 to 1000000, got -1"),
        ("[[true]]", "[[true, false]]", "diet: expected 1 rows (herbivores) of 1 values (flora)"),
        ("[[plants]]", MORE_FLORA + "[[plants]]", "flora: expected 1 to 16 species, got 17"),
        ("max = 50", 'max = "many"', "termination.population_max: expected an integer from 0"),
        ("heads = 2", "heads = 2.5", "triggers[0].when.heads: expected an integer from 1"),
        (
            'herbivore = "snail"',
            'herbivore = "slug"',
            "triggers[0].when.herbivore: expected one of snail, got 'slug'",
        ),
        (", heads = 2", "", "triggers[0].when.heads: this key is missing"),
        ('kind = "signal"', 'kind = "smell"', "substances[0].kind: expected one of signal, toxin, got 'smell'"),
        ('kind = "signal"', 'kind = "signal"\nlethality = 1', "substances[0].lethality: only a toxin has this key"),
        ("[grid]", "[gird]\n[grid]", "gird: unknown key; known keys: grid, flora"),
    ],
)
def test_a_mistake_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, text: str
) -> None:
    """The same scenario without the mistake runs."""
    monkeypatch.chdir(tmp_path)
    assert GOOD.count(old) == 1 or old == "[[plants]]"
    Path("bad.toml").write_text(GOOD.replace(old, new))
    assert run(recorder.commands.main.main, "run bad.toml -o a.tape") == 2
    assert_one_line(capsys.readouterr(), text)
    assert not Path("a.tape").exists()
    Path("good.toml").write_text(GOOD)
    assert run(recorder.commands.main.main, "run good.toml -q --ticks 3 -o a.tape") == 0
