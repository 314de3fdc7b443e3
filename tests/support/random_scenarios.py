"""Random scenarios with all kinds of parts around several worlds; independent checks of budgets and message fates."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
from staging import SavedRing, Tally, staged
from tiny_roles import Ring

from sim.kernel.messages import Event
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD

EVENT_KINDS = ("sent", "received", "faulted")
STRIKES = {"withheld", "delayed", "corrupted", "repeated", "crashed"}
FATES = {
    "received",
    "withheld",
    "lost",
    "cut",
    "split_off",
    "unreachable",
    "incapable",
    "refused",
    "collided",
    "undeliverable",
}


def random_scenario(chance: random.Random, roles: Sequence[str], *, receivers: Sequence[str] = ()) -> dict[str, Any]:
    """A scenario among roles, as plain data. receivers: of messages, if they differ from the roles."""
    plain = {
        "seed": chance.randrange(1000),
        "network": _network(chance, roles),
        "environment": _environment(chance, roles),
        "adversaries": [_adversary(chance, f"x{n}", roles, receivers or roles) for n in range(chance.randrange(5))],
        "reconfigurations": [_reconfiguration(chance, f"r{n}", roles) for n in range(chance.randrange(3))],
        "properties": _properties(chance),
    }
    if tuple(receivers) == ("world",):
        for part in [*plain["adversaries"], *plain["reconfigurations"]]:
            _make_possible(part["trigger"].get("on_event", {}) if "trigger" in part else {})
    return plain


def _make_possible(event: dict[str, Any]) -> None:
    """Adapt a trigger to a world whose inputs are the messages: roles send, and the world receives."""
    if event.get("kind") == "faulted":
        event["kind"] = "sent"
    if event.get("kind") == "received":
        event.pop("role", None)


def _some(chance: random.Random, names: Sequence[str]) -> list[str]:
    return [name for name in names if chance.random() < 0.4]


def _pair(chance: random.Random, roles: Sequence[str]) -> dict[str, str]:
    return {"from": chance.choice(roles), "to": chance.choice(roles)}


def _trigger(chance: random.Random, roles: Sequence[str]) -> dict[str, Any]:
    event: dict[str, Any] = {"kind": chance.choice(EVENT_KINDS)}
    if chance.random() < 0.5:
        event["role"] = chance.choice(roles)
    return chance.choice(
        [
            {},
            {"immediate": True},
            {"at_tick": chance.randrange(10)},
            {"after_step": chance.randrange(10)},
            {"random": chance.choice([0, 0.25, 1])},
            {"on_event": event},
        ]
    )


def _budget(chance: random.Random) -> dict[str, Any]:
    own: dict[str, Any] = chance.choice(
        [
            {},
            {"kind": "independent", "chance": chance.choice([0, 0.5, 1])},
            {"kind": "windowed", "window_ticks": chance.randint(1, 5), "max_per_window": chance.randint(1, 4)},
            {"kind": "correlated", "chance": chance.choice([0, 0.25, 1]), "burst_ticks": chance.randint(1, 4)},
        ]
    )
    return {"total": chance.randint(1, 8), **own}


def _adversary(chance: random.Random, name: str, roles: Sequence[str], receivers: Sequence[str]) -> dict[str, Any]:
    kinds = ["withholding", "timing_disturbance", "corruption", "repetition", "crash", "byzantine_interference"]
    kind = chance.choice(kinds)
    made: dict[str, Any] = {"id": name, "kind": kind, "budget": _budget(chance), "trigger": _trigger(chance, roles)}
    match kind:
        case "crash":
            made |= {"budget": {"total": 1}, "role": chance.choice(roles)}
            return made | ({"duration": chance.randint(1, 5)} if chance.random() < 0.7 else {})
        case "timing_disturbance":
            made["ticks"] = chance.randint(1, 5)
        case "repetition":
            made |= {"copies": chance.randint(1, 3), "ticks": chance.randint(1, 3)}
        case "byzantine_interference":
            made |= {key: chance.choice([0, 0.5, 1]) for key in ("withhold", "corrupt", "delay")}
            made["ticks"] = chance.randint(1, 4)
    return made | {"senders": _some(chance, roles), "receivers": _some(chance, receivers)}


def _network(chance: random.Random, roles: Sequence[str]) -> dict[str, Any]:
    made = {
        "tick_ms": chance.choice([1, 2.5, 10]),
        "latency_ms": chance.choice([0, 0, 1, 12]),
        "variance": chance.choice([0, 0.5, 1]),
        "loss": chance.choice([0, 0, 0.25]),
        "links": [],
        "partition": [[role] for role in _some(chance, roles)] if chance.random() < 0.2 else [],
    }
    for sender in _some(chance, roles):
        link = {"from": sender, "to": chance.choice(roles), "enabled": chance.random() < 0.7, "loss": 0}
        made["links"].append(link | {"latency_ms": chance.randrange(20)})
    return made


def _environment(chance: random.Random, roles: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"width": 8, "height": 8, "bodies": []}
    for role in _some(chance, roles):
        body = {"role": role, **{key: chance.randrange(-8, 8) / 2 for key in ("x", "y", "dx", "dy")}}
        made["bodies"].append(body | chance.choice([{}, {"asleep_every": chance.randint(2, 5), "asleep_ticks": 1}]))
    made |= chance.choice([{}, {"reach": chance.randint(0, 4)}])
    made |= chance.choice([{}, {"admitted": chance.randint(1, 3)}])
    return made | chance.choice([{}, {"contention": 1, "contention_ticks": chance.randint(1, 3)}, {"collision": 3}])


def _reconfiguration(chance: random.Random, name: str, roles: Sequence[str]) -> dict[str, Any]:
    own: dict[str, Any] = chance.choice(
        [
            {"kind": "link", **_pair(chance, roles), "enabled": chance.random() < 0.5, "loss": 0.25},
            {"kind": "delegation", **_pair(chance, roles)},
            {"kind": "handoff", **_pair(chance, roles)},
            {"kind": "federation", "groups": [[role] for role in _some(chance, roles)]},
            {"kind": "mode_transition", "roles": _some(chance, roles), "mode": "calm"},
        ]
    )
    return {"id": name, "trigger": _trigger(chance, roles), "cost": chance.randrange(3), **own}


def _properties(chance: random.Random) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = [
        {"kind": "no_faults"},
        {"kind": "simplex"},
        {"kind": "send_recv_liveness", "bound": chance.randint(1, 5)},
        {"kind": "type_monotonicity"},
        {"kind": "buffer_bound", "max": chance.randrange(4)},
        {"kind": "liveness", "precondition": "tick >= 2", "goal": "in_flight > 3", "bound": chance.randint(1, 5)},
        {"kind": "always", "when": f"in_flight < {chance.randint(1, 6)}"},
        {"kind": "always", "when": "distance_to_equilibrium < 20"},
    ]
    return [{"name": f"p{index}", **keys} for index, keys in enumerate(kinds) if chance.random() < 0.6]


def check_budgets(plain: Mapping[str, Any], events: Iterable[tuple[int, Event]]) -> Counter[str]:
    """Assert that no adversary exceeded its budget, and return the number of strikes of each.

    events: with their ticks, in order. The strikes are counted from their effects, and must agree with the history of
    the budgets.
    """
    declared = {adversary["id"]: adversary for adversary in plain["adversaries"]}
    begun: dict[str, int] = {}
    strikes: Counter[str] = Counter()
    history: Counter[str] = Counter()
    windows: Counter[tuple[str, int]] = Counter()
    over: set[str] = set()
    for tick, event in events:
        name = event.get("by", "")
        if name not in declared:
            continue
        budget = declared[name]["budget"]
        match event["kind"]:
            case "activated":
                assert name not in begun, "activated twice"
                begun[name] = tick
            case "consumed":
                history[name] += 1
                assert (event["consumed"], event["remaining"]) == (history[name], budget["total"] - history[name])
                assert history[name] == strikes[name]
            case "exhausted":
                assert strikes[name] == budget["total"]
                over.add(name)
            case kind if kind in STRIKES:
                assert name in begun, "struck before it began"
                assert name not in over, "struck when its budget was used up"
                strikes[name] += 1
                windows[name, (tick - begun[name]) // budget.get("window_ticks", 1)] += 1
                assert budget.get("chance") != 0
    for name, count in strikes.items():
        assert count <= declared[name]["budget"]["total"]
        assert (name in over) == (count == declared[name]["budget"]["total"])
        assert declared[name]["kind"] != "crash" or count == 1
        assert history[name] == count
    for (name, _), count in windows.items():
        assert count <= declared[name]["budget"].get("max_per_window", count)
    return strikes


def check_fates(events: Iterable[tuple[int, Event]], waiting: int) -> None:
    """Assert that each message sent has exactly one fate, or still waits; so has each copy by an adversary."""
    sent: Counter[int] = Counter()
    copies: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    for _, event in events:
        if event["kind"] == "sent":
            sent[event["message"]] += 1
        elif event["kind"] == "repeated":
            copies[event["message"]] += event["copies"]
        elif event["kind"] in FATES:
            ended[event["message"]] += 1
    assert set(sent.values()) <= {1}
    assert ended <= sent + copies
    assert (sent + copies).total() - ended.total() == waiting


def check_one(seed: int) -> int:
    """Run and check one scenario on a ring, and return the number of strikes."""
    chance = random.Random(seed)
    plain = random_scenario(chance, "abc")
    simulation = staged(plain, Ring("abc"))
    events = []
    for tick in range(1, chance.randint(4, 16)):
        simulation.step(None)
        events += [(tick, event) for event in simulation.events()]
    waiting = simulation._held, simulation._under_way
    check_fates(events, sum(map(len, waiting)) + simulation.inner.buffered_count())
    return check_budgets(plain, events).total()


def check_many(seeds: range) -> int:
    """Check many scenarios and return their strikes; the message of a failure holds the seed."""
    strikes = 0
    for seed in seeds:
        try:
            strikes += check_one(seed)
        except AssertionError as error:
            raise AssertionError(f"scenario {seed}: {error}") from error
    return strikes


# --- the worlds


@attrs.frozen
class Case:
    """A world for random scenarios.

    Attributes:
        inputs: of a tick.
        shape: keys that its scenarios need.
        is_registered: True if the world of a tape is found by its name.
    """

    make: Callable[[], Any]
    roles: tuple[str, ...]
    ticks: int
    inputs: Callable[[int], Any] = lambda _: None
    shape: dict[str, Any] = attrs.field(factory=dict)
    receivers: tuple[str, ...] = ()
    is_registered: bool = False


MEADOW = load_scenario("arms-race").config | {"grid": {"width": 16, "height": 12}, "ticks": 100, "inputs": []}
HERBIVORES = tuple(herbivore["name"] for herbivore in MEADOW["herbivores"])


def played(tick: int) -> dict[str, Any]:
    """Inputs of a meadow's players; a corruption makes some of them invalid."""
    plant = {"kind": "plant", "species": 0, "x": 2, "y": 2}
    swarms = {"kind": "release", "x": 11, "population": 9}
    sent = {name: [{**swarms, "species": n, "y": n + tick}] * (tick % 3) for n, name in enumerate(HERBIVORES)}
    return {"": [plant], **sent}


SWARM = load_scenario("swarm")

CASES = {
    "ring": Case(lambda: Ring("abc", capacity=1), ("a", "b", "c"), 12),
    "saved": Case(lambda: SavedRing(1), ("a", "b", "c"), 8),
    "list": Case(
        Tally,
        ("p", "q"),
        10,
        lambda tick: {"": [tick], "p": [{"kind": "eat", "n": tick}, [tick]], "q": ["text"] * (tick % 3)},
        {"inputs": "list", "roles": ["p", "q"]},
        ("world",),
    ),
    "one": Case(Tally, ("agent",), 10, lambda tick: [tick, 0.5] if tick % 4 else None, {"idle": [0]}, ("world",)),
    "by_role": Case(
        Tally,
        ("p", "q"),
        10,
        lambda tick: {"p": tick, "q": None} if tick % 3 else {"q": [True, tick]},
        {"inputs": "by_role", "roles": ["p", "q"]},
        ("world",),
    ),
    "meadow": Case(lambda: WORLD.make(MEADOW), HERBIVORES, 6, played, receivers=("world",), is_registered=True),
    "choreography": Case(
        lambda: SWARM.world.make(SWARM.config), ("North", "East", "South", "West"), 8, is_registered=True
    ),
}


def any_scenario(name: str, chance: random.Random) -> dict[str, Any]:
    """A random scenario for one of the cases."""
    case = CASES[name]
    return case.shape | random_scenario(chance, case.roles, receivers=case.receivers)
