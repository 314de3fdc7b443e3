"""Adversaries against literal traces, computed by hand: each kind, each trigger, each kind of budget."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from staging import ADVERSARY, TRIGGER, given_to, happened, totals
from tiny_roles import Ring

from sim_strategies import philox_block

ONE = {"total": 1}
LONE_STRIKE = ("consumed x 1/0 {}", "exhausted x 1/0 {}", "diagnostic x budget_exhaustion", "diagnostic x {}")


def adversary(kind: str, budget: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A scenario with one adversary, called x."""
    return {"adversaries": [{"id": "x", "kind": kind, "budget": budget or ONE, **more}]}


def spent(tick: int, effect: str, doubt: str = "fairness") -> list[str]:
    """The lines after the only strike of a budget of 1."""
    return [f"{tick} {line.format(effect if 'diagnostic' not in line else doubt)}" for line in LONE_STRIKE]


BYZANTINE = "byzantine_interference"
KINDS: dict[str, tuple[dict[str, Any], int, list[str], list[int]]] = {
    # name: scenario, ticks, expected lines, the sums that a and b have received. a sends n as message n - 1 in tick n.
    "withholding": (
        adversary("withholding", {"total": 2}, trigger={"at_tick": 2}),
        4,
        [
            "1 received b<a 0",
            "2 activated x 0/2 withholding",
            "2 withheld x a>b 1",
            "2 consumed x 1/1 withheld",
            "3 withheld x a>b 2",
            "3 consumed x 2/0 withheld",
            "3 exhausted x 2/0 withheld",
            "3 diagnostic x budget_exhaustion",
            "3 diagnostic x fairness",
            "4 received b<a 3",
        ],
        [0, 1 + 4],
    ),
    "timing_disturbance": (
        adversary("timing_disturbance", ticks=2),
        4,
        [
            "1 activated x 0/1 timing_disturbance",
            "1 delayed x a>b 0 +2",
            *spent(1, "delayed"),
            "2 received b<a 1",
            "3 received b<a 0",
            "3 received b<a 2",
            "4 received b<a 3",
        ],
        [0, 1 + 2 + 3 + 4],
    ),
    "corruption": (
        adversary("corruption"),
        2,
        [
            "1 activated x 0/1 corruption",
            "1 received b<a 0",
            "1 corrupted x a>b 0",
            *spent(1, "corrupted", "authentication_evidence"),
            "2 received b<a 1",
        ],
        [0, (1 + 1) + 2],
    ),
    "repetition": (
        adversary("repetition", {"total": 2}, copies=2, ticks=2),
        7,
        [
            "1 activated x 0/2 repetition",
            "1 received b<a 0",
            "1 repeated x a>b 0 +2 copies=2",
            "1 consumed x 1/1 repeated",
            "2 received b<a 1",
            "2 repeated x a>b 1 +2 copies=2",
            "2 consumed x 2/0 repeated",
            "2 exhausted x 2/0 repeated",
            "2 diagnostic x budget_exhaustion",
            "2 diagnostic x authentication_evidence",
            "3 received b<a 0",
            "3 received b<a 2",
            "4 received b<a 1",
            "4 received b<a 3",
            "5 received b<a 0",
            "5 received b<a 4",
            "6 received b<a 1",
            "6 received b<a 5",
            "7 received b<a 6",
        ],
        [0, (1 + 2 + 3 + 4 + 5 + 6 + 7) + 2 * (1 + 2)],
    ),
    "crash for 2 ticks": (
        adversary("crash", role="a", duration=2, trigger={"at_tick": 2}),
        5,
        [
            "1 received b<a 0",
            "2 activated x 0/1 crash",
            "2 crashed x role=a",
            *spent(2, "crash"),
            "4 recovered role=a",
            "4 received b<a 1",
            "5 received b<a 2",
        ],
        [0, 1 + 2 + 3],
    ),
    "crash for ever": (
        adversary("crash", role="b", trigger={"at_tick": 3}),
        6,
        [
            "1 received b<a 0",
            "2 received b<a 1",
            "3 activated x 0/1 crash",
            "3 crashed x role=b",
            *spent(3, "crash"),
        ],
        [0, 1 + 2],
    ),
    "byzantine withholds": (
        adversary(BYZANTINE, withhold=1, corrupt=1, delay=1, ticks=5),
        2,
        [
            f"1 activated x 0/1 {BYZANTINE}",
            "1 withheld x a>b 0",
            *spent(1, "withheld", "authentication_evidence"),
            "2 received b<a 1",
        ],
        [0, 2],
    ),
    "byzantine corrupts": (
        adversary(BYZANTINE, withhold=0, corrupt=1),
        2,
        [
            f"1 activated x 0/1 {BYZANTINE}",
            "1 received b<a 0",
            "1 corrupted x a>b 0",
            *spent(1, "corrupted", "authentication_evidence"),
            "2 received b<a 1",
        ],
        [0, 2 + 2],
    ),
    "byzantine delays": (
        adversary(BYZANTINE, delay=1, ticks=1),
        2,
        [
            f"1 activated x 0/1 {BYZANTINE}",
            "1 delayed x a>b 0 +1",
            *spent(1, "delayed", "authentication_evidence"),
            "2 received b<a 0",
            "2 received b<a 1",
        ],
        [0, 1 + 2],
    ),
    "byzantine corrupts and delays in one strike": (
        adversary(BYZANTINE, corrupt=1, delay=1, ticks=1),
        2,
        [
            f"1 activated x 0/1 {BYZANTINE}",
            "1 corrupted x a>b 0 +1",
            *spent(1, "corrupted", "authentication_evidence"),
            "2 received b<a 0",
            "2 received b<a 1",
        ],
        [0, 2 + 2],
    ),
    "byzantine does nothing": (
        adversary(BYZANTINE, withhold=0, corrupt=0, delay=0, ticks=1),
        2,
        [f"1 activated x 0/1 {BYZANTINE}", "1 received b<a 0", "2 received b<a 1"],
        [0, 1 + 2],
    ),
    "a declared doubt": (
        adversary("withholding", diagnostic="quorum_intersection"),
        1,
        ["1 activated x 0/1 withholding", "1 withheld x a>b 0", *spent(1, "withheld", "quorum_intersection")],
        [0, 0],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_adversary(name: str) -> None:
    """Its effects, its consumption, and the assumption in doubt after its exhaustion."""
    plain, ticks, expected, sums = KINDS[name]

    lines, simulation = happened(plain, ticks)

    assert lines == expected
    assert totals(simulation) == sums


def two(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """A scenario with two adversaries in order, with a budget of 1 each."""
    return {"adversaries": [{"id": "x", "budget": ONE, **first}, {"id": "y", "budget": ONE, **second}]}


COPYING = {"kind": "repetition", "copies": 1, "ticks": 1}


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        # The second adversary strikes the message, not the copy, which the first one made.
        (two(COPYING, {"kind": "withholding"}), ["2 0", "2 1", "3 2"]),
        (two({"kind": "withholding"}, COPYING), ["2 1", "3 1", "3 2"]),  # In tick 1 there was nothing to repeat.
        (two(COPYING, {"kind": "timing_disturbance", "ticks": 2}), ["2 0", "2 1", "3 0", "3 2"]),
    ],
)
def test_a_repetition_with_another_adversary(plain: dict[str, Any], expected: list[str]) -> None:
    """The ticks at which b receives each message of a."""
    lines, _ = happened(plain, 3)

    assert [f"{line.split()[0]} {line.split()[-1]}" for line in lines if " received " in line] == expected


@pytest.mark.parametrize(("first", "copied"), [("corruption", 2), ("repetition", 1)])
def test_a_copy_is_of_the_message_that_earlier_adversaries_left(first: str, copied: int) -> None:
    """a's first message, 1, is corrupted to 2, and so is a copy that is made after the corruption."""
    parts = {"corruption": {"kind": "corruption"}, "repetition": COPYING}
    plain = two(parts[first], next(part for kind, part in parts.items() if kind != first))
    _, simulation = happened(plain, 2)

    assert totals(simulation) == [0, 2 + copied + 2]


def test_copies_go_through_the_network() -> None:
    """Copies are delayed and lost like any message that is sent when they are due."""
    latency = adversary("repetition", copies=1, ticks=3) | {"network": {"latency_ms": 2}}
    lines, _ = happened(latency, 6)
    assert [line for line in lines if line.endswith(("a>b 0 +2", "b<a 0"))] == [
        "1 under_way a>b 0 +2",
        "3 received b<a 0",
        "4 under_way a>b 0 +2",
        "6 received b<a 0",
    ]
    lines, simulation = happened(adversary("repetition", copies=3, ticks=1) | {"network": {"loss": 1}}, 6)
    assert [line for line in lines if line.endswith("a>b 0")] == [f"{tick} lost a>b 0" for tick in (1, 2, 3, 4)]
    assert totals(simulation) == [0, 0]


def test_inputs_are_repeated() -> None:
    """A list gets the copies too; a single value is the newest input, or a copy if there is none."""
    listed = adversary("repetition", copies=2, ticks=1) | {"inputs": "list", "roles": ["p"]}
    sent = [{"p": [1, 2]}, {"p": [3]}, None, None]
    assert given_to(listed, sent) == [[1, 2], [1, 3], [1], []]
    single = adversary("repetition", copies=3, ticks=1) | {"inputs": "one", "idle": 9}
    assert given_to(single, [5, None, 6, None, None]) == [5, 5, 6, 5, 9]
    by_role = adversary("repetition", copies=1, ticks=2, senders=["q"]) | {"inputs": "by_role", "roles": ["p", "q"]}
    assert given_to(by_role, [{"p": 1, "q": 2}, {"p": 3}, {"p": 4}]) == [
        {"p": 1, "q": 2},
        {"p": 3, "q": None},
        {"p": 4, "q": 2},
    ]


def test_copies_of_a_message_count_once_for_a_property() -> None:
    """Message 0 arrives twice, message 1 never: of two messages sent, only one counts as received."""
    plain = adversary("repetition", copies=1, ticks=1)
    plain["adversaries"].append(
        {"id": "y", "kind": "withholding", "budget": {"total": 9}, "trigger": {"at_tick": 2}},
    )
    plain["properties"] = [{"name": "all", "kind": "send_recv_liveness", "bound": 2}]
    lines, _ = happened(plain, 6)

    violated = [line for line in lines if " violation " in line]
    assert violated == ["4 violation property=all details=2 messages were sent 2 ticks ago or before, 1 were received"]


def test_a_crashed_role_receives_its_messages_later() -> None:
    """While b is stopped, messages wait in its buffer: 1, 2 and 3, and 4 from the tick in which b recovers."""
    lines, simulation = happened(adversary("crash", role="b", duration=3), 4)

    assert lines[-5:] == ["4 recovered role=b", *(f"4 received b<a {number}" for number in range(4))]
    assert totals(simulation) == [0, 1 + 2 + 3 + 4]


def test_a_message_that_is_due_when_its_receiver_stops_is_delivered_to_its_buffer() -> None:
    """Deliveries do not ask who is paused: the message of tick 1 is due in tick 3, in which b stops for two ticks."""
    plain = adversary("crash", role="b", duration=2, trigger={"at_tick": 3}) | {"network": {"latency_ms": 2}}
    lines, simulation = happened(plain, 3)
    assert not [line for line in lines if "received" in line]
    assert simulation.inner.buffered_count() == 1
    lines, _ = happened(plain, 5)
    assert [line for line in lines if "received" in line] == [f"5 received b<a {number}" for number in range(3)]


@pytest.mark.parametrize(
    ("chosen", "struck"),
    [
        ({"senders": ["b"]}, [1]),
        ({"receivers": ["b"]}, [0]),
        ({"senders": ["a"], "receivers": ["c"]}, []),
        ({"labels": ["count"], "senders": ["c", "a"]}, [0, 2]),
        ({"labels": ["other"]}, []),
    ],
)
def test_only_chosen_messages_are_struck(chosen: dict[str, Any], struck: list[int]) -> None:
    """In a ring of three the messages 0, 1 and 2 of tick 1 go a>b, b>c and c>a."""
    lines, _ = happened(adversary("withholding", {"total": 9}, **chosen), 1, Ring("abc"))

    withheld = [line.split()[-1] for line in lines if line.startswith("1 withheld")]
    assert withheld == [str(number) for number in struck]


# --- triggers


def first_hit(seed: int, phase: int, key: int, chance: float) -> int:
    """The first tick at which the random draw of a key in a phase is below the chance, by the tests' own Philox."""
    tick = 1
    while philox_block((0, key, tick, phase << 24), (seed, 0))[0] >= chance * (1 << 32):
        tick += 1
    return tick


@pytest.mark.parametrize(
    ("trigger", "tick"),
    [
        ({}, 1),
        ({"immediate": True}, 1),
        ({"immediate": False, "at_tick": 3}, 3),
        ({"at_tick": 0}, 1),
        ({"at_tick": 4}, 4),
        ({"after_step": 0}, 1),
        ({"after_step": 4}, 5),
        ({"random": 1}, 1),
        ({"random": 0}, None),
        ({"on_event": {"kind": "sent"}}, 2),
        ({"on_event": {"kind": "received", "role": "b"}}, 2),
        ({"on_event": {"kind": "sent", "role": "b"}}, None),
        ({"on_event": {"kind": "faulted"}}, None),
    ],
)
def test_each_trigger(trigger: dict[str, Any], tick: int | None) -> None:
    """a sends and b receives in every tick. An event triggers in the next round; each trigger fires once."""
    lines, _ = happened(adversary("withholding", {"total": 99}, trigger=trigger, senders=["b"]), 8)

    assert [line for line in lines if "activated" in line] == (
        [] if tick is None else [f"{tick} activated x 0/99 withholding"]
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_random_trigger_is_one_keyed_random_draw_per_tick(seed: int) -> None:
    """It fires at the first tick whose random draw is below the chance; a second adversary has separate random draws."""
    plain = adversary("withholding", {"total": 1}, trigger={"random": 0.2}, senders=["b"])
    plain["adversaries"].append({**plain["adversaries"][0], "id": "y"})
    fires = [first_hit(seed, TRIGGER, zlib.crc32(name), 0.2) for name in (b"x", b"y")]

    lines, _ = happened({"seed": seed, **plain}, max(fires) + 3)

    expected = sorted((tick, name) for tick, name in zip(fires, "xy", strict=True))
    assert [line for line in lines if "activated" in line] == [
        f"{tick} activated {name} 0/1 withholding" for tick, name in expected
    ]


def test_a_fault_triggers_in_the_next_round() -> None:
    """b faults in tick 1, on a payload that is not a number: x begins in tick 2."""
    ring = Ring("ab", quiet="b")
    ring._send("a", "b", "text")  # In b's buffer before the first round.
    lines, _ = happened(adversary("crash", role="a", trigger={"on_event": {"kind": "faulted", "role": "b"}}), 2, ring)

    assert lines == [
        "1 received b<a 0",
        "1 faulted role=b reason=no number",
        "1 received b<a 1",
        "2 activated x 0/1 crash",
        "2 crashed x role=a",
        *spent(2, "crash"),
    ]


# --- budgets


def struck_ticks(plain: dict[str, Any], ticks: int) -> list[int]:
    """The ticks with a withheld message: message n - 1 in tick n."""
    lines, _ = happened(plain, ticks)
    return [int(line.split()[0]) for line in lines if " withheld x " in line]


@pytest.mark.parametrize(
    ("budget", "ticks"),
    [
        ({"total": 3}, [2, 3, 4]),
        ({"total": 3, "kind": "independent", "chance": 1}, [2, 3, 4]),
        ({"total": 3, "kind": "independent", "chance": 0}, []),
        # Windows start with the adversary: ticks 2 to 4, 5 to 7, 8 to 10.
        ({"total": 99, "kind": "windowed", "window_ticks": 3, "max_per_window": 1}, [2, 5, 8]),
        ({"total": 99, "kind": "windowed", "window_ticks": 3, "max_per_window": 2}, [2, 3, 5, 6, 8, 9]),
        ({"total": 99, "kind": "windowed", "window_ticks": 3, "max_per_window": 3}, list(range(2, 11))),
        ({"total": 4, "kind": "windowed", "window_ticks": 3, "max_per_window": 2}, [2, 3, 5, 6]),
        ({"total": 5, "kind": "correlated", "chance": 1, "burst_ticks": 2}, [2, 3, 4, 5, 6]),
        ({"total": 5, "kind": "correlated", "chance": 0, "burst_ticks": 2}, []),
    ],
)
def test_each_budget(budget: dict[str, Any], ticks: list[int]) -> None:
    """An adversary begins in tick 2 and could strike one message per tick, until tick 10."""
    assert struck_ticks(adversary("withholding", budget, trigger={"at_tick": 2}), 10) == ticks


def random_draw(seed: int, tick: int, message: int) -> int:
    """The random draw for a message: the budget of adversary x allows a strike if it is below the chance."""
    return philox_block((zlib.crc32(b"x"), message, tick, ADVERSARY << 24), (seed, 0))[0]


@pytest.mark.parametrize("seed", range(5))
def test_an_independent_budget_has_a_random_draw_per_message(seed: int) -> None:
    """Exactly the messages whose random draw is below the chance are struck."""
    budget = {"total": 999, "kind": "independent", "chance": 0.25}
    expected = [tick for tick in range(1, 41) if random_draw(seed, tick, tick - 1) < 1 << 30]

    assert struck_ticks({"seed": seed} | adversary("withholding", budget), 40) == expected
    assert expected


def test_random_draws_depend_on_the_name() -> None:
    """An earlier adversary does not affect the random draws of a later one: removing it changes nothing else."""
    budget = {"total": 999, "kind": "independent", "chance": 0.25}
    plain = adversary("withholding", budget)
    idle = {"id": "idle", "kind": "corruption", "budget": {"total": 1, "kind": "independent", "chance": 0}}
    with_idle = {**plain, "adversaries": [idle, *plain["adversaries"]]}

    assert struck_ticks(plain, 40) == struck_ticks(with_idle, 40) != []


@pytest.mark.parametrize("seed", range(5))
def test_a_burst_ends_and_needs_a_new_random_draw(seed: int) -> None:
    """A burst is three ticks in which every message is struck; during a burst there are no random draws."""
    budget = {"total": 999, "kind": "correlated", "chance": 0.125, "burst_ticks": 3}
    expected: list[int] = []
    tick = 1
    while tick <= 60:
        if random_draw(seed, tick, tick - 1) < 1 << 29:
            expected += [tick, tick + 1, tick + 2]
            tick += 2
        tick += 1

    assert struck_ticks({"seed": seed} | adversary("withholding", budget), 60) == [t for t in expected if t <= 60]
    assert expected


def test_a_strike_without_effect_costs_nothing() -> None:
    """An empty message cannot be corrupted: the budget is kept for a message that can."""

    class Mute(Ring):
        """Sends nothing but empty messages in its first two ticks."""

        def _send(self, sender: str, receiver: str, payload: Any) -> None:
            super()._send(sender, receiver, payload if payload > 2 else None)

    budget = {"total": 1, "kind": "windowed", "window_ticks": 9, "max_per_window": 1}
    lines, _ = happened(adversary("corruption", budget), 3, Mute("ab", quiet="b"))

    assert [line for line in lines if " x " in line] == [
        "1 activated x 0/1 corruption",
        "3 corrupted x a>b 2",
        *spent(3, "corrupted", "authentication_evidence"),
    ]


# --- several on one message


def several(*adversaries: dict[str, Any]) -> dict[str, Any]:
    """A scenario with adversaries x, y, z, each with a budget of 1."""
    named = zip("xyz", adversaries, strict=False)
    return {"adversaries": [{"id": name, "budget": ONE} | keys for name, keys in named]}


WITHHOLDS, CORRUPTS = {"kind": "withholding"}, {"kind": "corruption"}


def delays(ticks: int) -> dict[str, Any]:
    """The keys of an adversary that delays."""
    return {"kind": "timing_disturbance", "ticks": ticks}


@pytest.mark.parametrize(
    ("adversaries", "struck", "arrives"),
    [
        # The first one drops it; the second one strikes the next message.
        ((WITHHOLDS, delays(2)), ["1 withheld x a>b 0", "2 delayed y a>b 1 +2"], {4: [2, 4]}),
        ((delays(2), WITHHOLDS), ["1 delayed x a>b 0 +2", "1 withheld y a>b 0"], {2: [2], 3: [3], 4: [4]}),
        ((delays(1), delays(3)), ["1 delayed x a>b 0 +1", "1 delayed y a>b 0 +3"], {4: [1, 4]}),
        ((delays(3), delays(1)), ["1 delayed x a>b 0 +3", "1 delayed y a>b 0 +1"], {4: [1, 4]}),
        (
            (CORRUPTS, delays(2), CORRUPTS),
            ["1 corrupted x a>b 0", "1 delayed y a>b 0 +2", "1 corrupted z a>b 0"],
            {3: [3, 3]},
        ),
    ],
)
def test_several_adversaries_on_one_message(
    adversaries: tuple[dict[str, Any], ...], struck: list[str], arrives: dict[int, list[int]]
) -> None:
    """They strike in order until the message is dropped; the longest delay counts. arrives: payloads of b by tick."""
    plain = several(*adversaries)
    lines, _ = happened(plain, 4)
    effects = [line for line in lines if line.split()[1] in {"withheld", "delayed", "corrupted"}]
    assert effects == struck

    for tick, payloads in arrives.items():
        before, at = (totals(happened(plain, end)[1])[1] for end in (tick - 1, tick))
        assert at - before == sum(payloads)
        assert sum(line.startswith(f"{tick} received") for line in lines) == len(payloads)


def test_two_crashes_of_one_role_end_with_the_later_one() -> None:
    """A second crash does not wake a role: x stops a for ever, y for two ticks, and a never recovers."""
    crash = {"kind": "crash", "role": "a"}
    for_ever = several(crash, {**crash, "duration": 2, "trigger": {"at_tick": 2}})
    long = several({**crash, "duration": 5}, {**crash, "duration": 2, "trigger": {"at_tick": 2}})
    short = several({**crash, "duration": 2}, {**crash, "duration": 5, "trigger": {"at_tick": 2}})

    assert [line for line in happened(for_ever, 9)[0] if "recovered" in line] == []
    assert [line for line in happened(long, 9)[0] if "recovered" in line] == ["6 recovered role=a"]
    assert [line for line in happened(short, 9)[0] if "recovered" in line] == ["7 recovered role=a"]
