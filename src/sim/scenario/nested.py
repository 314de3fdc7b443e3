"""Several simulations, the sites, as one: an outer step advances some of them by some rounds each.

How many advance at once and by how many rounds is the contract of the run: it decides the states. It is saved with them,
and a state of another contract is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from sim.kernel.hooks import HasTelemetry, hook
from sim.kernel.plain_data import DECODE_ERRORS, decode_plain, encode_plain
from sim.kernel.schema import make_layout
from sim.kernel.simulation import Simulation, as_simulation, end_of, inner_of, request_events, restore
from sim.kernel.state import Snapshot

OUTER, SITE_PREFIX = "outer", "site."
STEPPED = "site_stepped"
ROUNDS_MAX = 1 << 20


@attrs.frozen
class NestedContract:
    """The part of a nested run that decides its states.

    Attributes:
        concurrency: the sites that advance in an outer step; with fewer that have not ended, all of them.
        inner_rounds: the steps that a site makes then, unless it ends before.
    """

    concurrency: int = 1
    inner_rounds: int = 1

    def __attrs_post_init__(self) -> None:
        for name in ("concurrency", "inner_rounds"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= ROUNDS_MAX:
                raise ValueError(f"{name}={value!r}: expected an integer from 1 to {ROUNDS_MAX}")


class NestedSimulation:
    """A simulation, with save and load, of named sites, each a simulation of its own.

    Outer steps pick the sites one after the other, in their order, without those that have ended. ``step`` takes None, or
    {site: inputs of each inner round, in a list}. Events are those of the sites, with the keys ``site`` and ``round``, and
    one of kind site_stepped for each site that was picked.

    Attributes:
        sites: the simulations by name.
        contract: see NestedContract.
        rounds: the inner steps that each site has made.
    """

    def __init__(self, sites: Mapping[str, Any], contract: NestedContract | None = None) -> None:
        """sites: at tick 0; from now on used only by this object.

        Raises TypeError for anything but simulations, ValueError for no sites or a name that is not one.
        """
        if not sites:
            raise ValueError("sites: expected at least one")
        names: list[Any] = list(sites)
        bad = next(
            (name for name in names if not (isinstance(name, str) and name.replace(".", "") == name != "")), None
        )
        if bad is not None:
            raise ValueError(f"sites: expected names without dots, got {bad!r}")
        self.sites: dict[str, Simulation] = {name: as_simulation(site) for name, site in sites.items()}
        self.contract = contract if contract is not None else NestedContract()
        self.rounds = dict.fromkeys(self.sites, 0)
        self._cursor = self._tick = 0
        self._emit = {name: request_events(site) for name, site in self.sites.items()}
        self._events: list[dict[str, Any]] = []

    def step(self, inputs: Any) -> None:
        """Advance the next sites. Raises ValueError for inputs of another form; nothing has happened then."""
        given = self._read(inputs)
        self._events = []
        self._tick += 1
        for name in self._pick():
            made = 0
            for number in range(self.contract.inner_rounds):
                if self.ended_of(name) is not None:
                    break
                of_site = given.get(name, ())
                self.sites[name].step(of_site[number] if number < len(of_site) else None)
                made += 1
                self.rounds[name] += 1
                self._take_events(name)
            self._events.append({"kind": STEPPED, "site": name, "rounds": made})

    def _read(self, inputs: Any) -> Mapping[str, Sequence[Any]]:
        if inputs is None:
            return {}
        if not isinstance(inputs, Mapping) or set(inputs) - set(self.sites):
            raise ValueError(f"expected inputs by site, of {', '.join(self.sites)}, got {str(inputs)[:80]}")
        for name, rounds in inputs.items():
            if not isinstance(rounds, list | tuple) or len(rounds) > self.contract.inner_rounds:
                wanted = f"a list of at most {self.contract.inner_rounds}, one for each inner round"
                raise ValueError(f"inputs of {name}: expected {wanted}, got {str(rounds)[:80]}")
        return inputs

    def _pick(self) -> list[str]:
        names = list(self.sites)
        ordered = [names[(self._cursor + number) % len(names)] for number in range(len(names))]
        picked = [name for name in ordered if self.ended_of(name) is None][: self.contract.concurrency]
        if picked:
            self._cursor = (names.index(picked[-1]) + 1) % len(names)
        return picked

    def _take_events(self, name: str) -> None:
        emit = self._emit[name]
        for event in emit() if emit is not None else ():
            self._events.append({**event, "site": name, "round": self.rounds[name]})

    def ended_of(self, name: str) -> tuple[str, str] | None:
        """The reason why a site is over; None if it is not, or if it never says so."""
        site = self.sites[name]
        return end_of(site) or end_of(inner_of(site))

    # --- outputs

    def events(self) -> Sequence[dict[str, Any]]:
        """The events of the last step, site by site."""
        return tuple(self._events)

    def telemetry(self) -> dict[str, int | float]:
        """The rounds of each site, and its own figures."""
        figures: dict[str, int | float] = {}
        for name, site in self.sites.items():
            figures[f"{name}.rounds"] = self.rounds[name]
            reporting = hook(inner_of(site), HasTelemetry)
            own = reporting.telemetry() if reporting is not None else {}
            figures |= {f"{name}.{figure}": value for figure, value in own.items()}
        return figures

    def ended(self) -> tuple[str, str] | None:
        """The end of the run: all sites are over."""
        if any(self.ended_of(name) is None for name in self.sites):
            return None
        return "sites", "all sites are over"

    # --- the state

    def save(self) -> dict[str, Any]:
        """The contract, the outer state, and the state of each site."""
        outer = [self.contract.concurrency, self.contract.inner_rounds, self._tick, self._cursor, *self.rounds.values()]
        saved: dict[str, Any] = {OUTER: np.array(outer, np.int64)}
        for name, site in self.sites.items():
            state = site.state
            plain = {"capacities": dict(state.layout.capacities), "arena": state.arena.tobytes()}
            saved[f"{SITE_PREFIX}{name}"] = encode_plain(plain)
        return saved

    def load(self, saved: Mapping[str, Any]) -> None:
        """Enter a saved state. Raises ValueError for one of another contract, or with other sites."""
        contract = NestedContract(*saved[OUTER][:2].tolist())
        expected = {OUTER, *(f"{SITE_PREFIX}{name}" for name in self.sites)}
        if set(saved) != expected or len(saved[OUTER]) != 4 + len(self.sites):
            raise ValueError(f"expected the state of the sites {', '.join(self.sites)}")
        if contract != self.contract:
            raise ValueError(f"expected a state of {self.contract}, got one of {contract}")
        self._tick, self._cursor = saved[OUTER][2:4].tolist()
        self.rounds = dict(zip(self.sites, saved[OUTER][4:].tolist(), strict=True))
        for name, site in self.sites.items():
            try:
                plain = decode_plain(saved[f"{SITE_PREFIX}{name}"])
                layout = make_layout(site.state.layout.schema, plain["capacities"])
                arena = np.frombuffer(plain["arena"], np.uint8).copy()
                restore(site, Snapshot(layout, arena))
            except (*DECODE_ERRORS, KeyError) as error:
                raise ValueError(f"the state of site {name}: {error}") from None
        self._events = []
