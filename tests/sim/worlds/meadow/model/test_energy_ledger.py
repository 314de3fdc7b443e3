"""The energy ledger: over thousands of ticks every unit is accounted for, and an unnoted flow is detected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kernel.changes.row_changes import AuditedChanges
from sim.kernel.simulation import restore
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.model.energy_ledger import Flow, Ledger, LedgerError
from sim.worlds.meadow.phases import lifecycle

from sim_strategies import idle_flora, meadow_inputs, meadows, small_meadow

pytestmark = pytest.mark.share(0.18)

FIRST_POISONED = 502  # The first tick of the arms race at which toxins kill.


@pytest.mark.parametrize(
    ("name", "ticks"),
    [
        *(("quiet-meadow", 150), ("boom-and-crash", 150), ("arms-race", 150)),
        *(
            pytest.param(name, ticks, marks=pytest.mark.long)
            for name, ticks in (("quiet-meadow", 2000), ("boom-and-crash", 2000), ("arms-race", 1500))
        ),
    ],
)
def test_the_ledgers_of_the_shipped_scenarios_balance(name: str, ticks: int) -> None:
    """The sums agree after every phase, every write is marked, and all kinds of flows occur, with players' inputs."""
    config, ledger = load_scenario(name).config, Ledger()
    meadow, inputs_at = Meadow(config, ledger=ledger), WORLD.inputs(config)
    audit = AuditedChanges(meadow.state)
    assert WORLD.play is not None
    players = [WORLD.play(config, player["species"], "random") for player in config.get("players", [])]
    for tick in range(1, ticks + 1):
        audit.reset(meadow.state.snapshot())
        meadow.step(inputs_at(tick) + [sent for player in players for sent in player(tick, meadow.state)])
        audit.changed_rows()

    flows = {flow for (_, flow), amount in ledger.entries.items() if amount}
    expected = {Flow.GROWTH, Flow.GRAZING, Flow.UPKEEP, Flow.STARVATION, Flow.SEEDS, Flow.SEEDLINGS, Flow.LINKS}
    expected |= {Flow.DEFENCE} if name == "arms-race" else set()
    expected |= {Flow.POISON} if ticks >= FIRST_POISONED and name == "arms-race" else set()
    assert flows >= expected
    plants, swarms = (int(meadow.state[f"{table}.energy"].sum()) for table in ("plants", "swarms"))
    assert plants == sum(flow.value[1] * amount for (_, flow), amount in ledger.entries.items())
    assert swarms == sum(flow.value[2] * amount for (_, flow), amount in ledger.entries.items())


@settings(deadline=None, max_examples=12)
@given(st.data(), st.integers(1, 60))
@pytest.mark.seldom(0.18)
def test_the_ledger_of_any_meadow_balances(data: st.DataObject, ticks: int) -> None:
    """The sums agree for any configuration and any inputs."""
    plain = data.draw(meadows())
    meadow = Meadow(plain, ledger=Ledger())
    for _ in range(ticks):
        meadow.step(data.draw(st.lists(meadow_inputs(plain), max_size=2)))


def test_an_unnoted_flow_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names tick, phase, owner and amount."""
    grow = lifecycle.grow_all

    def grow_secretly(context: Any) -> Any:
        result = grow(context)
        rows = np.flatnonzero(context.state["plants.id"])
        context.state.set("plants.energy", rows, context.state["plants.energy"][rows] + 3)
        return result

    monkeypatch.setattr(lifecycle, "grow_all", grow_secretly)
    meadow = Meadow(small_meadow(plants=[{"species": "moss", "x": 1, "y": 1}]), ledger=Ledger())
    with pytest.raises(LedgerError, match=r"tick 1, phase lifecycle: the plants have \+3/65536 energy that no flow"):
        meadow.step(None)


def test_a_negative_flow_is_refused() -> None:
    """Flows in the opposite direction have different names."""
    with pytest.raises(LedgerError, match="GROWTH of -1"):
        Ledger().note(Flow.GROWTH, -1)


def test_the_ledger_restarts_with_a_restored_state() -> None:
    """A restored state may have a different balance; that is not an error."""
    plants = [{"species": "moss", "x": 1, "y": 1}]
    rich = Meadow(small_meadow(plants=plants, flora=[idle_flora("moss", base_energy=20)]))
    meadow = Meadow(small_meadow(plants=plants), ledger=Ledger())
    restore(meadow, rich.state.snapshot())
    meadow.step(None)
    assert meadow.state["plants.energy"][0] == 20 << 16
