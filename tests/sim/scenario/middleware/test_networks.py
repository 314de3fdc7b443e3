"""The network, reconfigurations and surroundings against literal traces, computed by hand."""

from __future__ import annotations

import zlib
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from staging import NETWORK, RECONFIGURATION, given_to, happened, told, totals
from tiny_roles import Ring

from sim_strategies import philox_block

BUFFERED = ("sent", "sample", "received", "under_way")


# --- the network


@pytest.mark.parametrize(
    ("latency", "tick", "late"),
    [(0, 10, 0), (1, 10, 1), (9.5, 10, 1), (10, 10, 1), (10.5, 10, 2), (25, 10, 3), (30, 10, 3), (3, 0.5, 6)],
)
def test_latency_is_rounded_up_to_ticks(latency: float, tick: float, late: int) -> None:
    """Latency is rounded up to full ticks; without latency there is no delay. The second message is a tick later."""
    lines, _ = happened({"network": {"tick_ms": tick, "latency_ms": latency}}, 8)

    assert [line for line in lines if "received" in line][:2] == [
        f"{1 + late} received b<a 0",
        f"{2 + late} received b<a 1",
    ]
    assert [line for line in lines if line.startswith("1 under_way")] == (
        [f"1 under_way a>b 0 +{late}"] if late else []
    )


def number(seed: int, tick: int, message: int, word: int) -> int:
    """The network's random draw for a message: word 0 for its loss, word 1 for its latency."""
    return philox_block((0, message, tick, NETWORK << 24), (seed, 0))[word]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("latency", "variance"), [(40, 0.5), (2.25, 1), (1000, 0.125)])
def test_variance_against_fractions(seed: int, latency: float, variance: float) -> None:
    """ceil(latency × (1 + variance × u) / tick), u from -1 to 1 by the message's random draw, and at least 1."""
    network = {"tick_ms": 10, "latency_ms": latency, "variance": variance}
    lines, _ = happened({"seed": seed, "network": network}, 30)

    expected = []
    for tick in range(1, 31):
        u = Fraction(number(seed, tick, tick - 1, 1) - (1 << 31), 1 << 31)
        late = Fraction(latency) * (1 + Fraction(variance) * u) / 10
        expected.append(f"{tick} under_way a>b {tick - 1} +{max(1, ceil(late))}")
    assert [line for line in lines if "under_way" in line] == expected
    assert len({line.split("+")[1] for line in expected}) > 1 or latency == 2.25


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", [0, 0.25, 0.75, 1])
def test_loss_is_one_random_draw_per_message(seed: int, loss: float) -> None:
    """A message is lost if its random draw is below the chance; otherwise it arrives at once."""
    lines, _ = happened({"seed": seed, "network": {"loss": loss}}, 30)

    lost = [tick for tick in range(1, 31) if number(seed, tick, tick - 1, 0) < loss * (1 << 32)]
    assert lines == [f"{t} lost a>b {t - 1}" if t in lost else f"{t} received b<a {t - 1}" for t in range(1, 31)]


def test_links_have_a_direction() -> None:
    """a to b takes 2 ticks, b to c takes the network's latency, and messages from c to a are cut."""
    links = [
        {"from": "a", "to": "b", "latency_ms": 2},
        {"from": "c", "to": "a", "enabled": False},
    ]
    lines, _ = happened({"network": {"latency_ms": 1, "links": links}}, 3, Ring("abc"))

    # Messages 0, 1, 2 are a>b, b>c, c>a of tick 1; 3, 4, 5 of tick 2; 6, 7, 8 of tick 3.
    assert lines == [
        "1 under_way a>b 0 +2",
        "1 under_way b>c 1 +1",
        "1 cut c>a 2",
        "2 received c<b 1",
        "2 under_way a>b 3 +2",
        "2 under_way b>c 4 +1",
        "2 cut c>a 5",
        "3 received b<a 0",
        "3 received c<b 4",
        "3 under_way a>b 6 +2",
        "3 under_way b>c 7 +1",
        "3 cut c>a 8",
    ]


def test_a_partition_splits_before_anything_else() -> None:
    """a and b are split, c is in no group and reaches both; a message that is split off is not also cut."""
    network = {
        "partition": [["a"], ["b"]],
        "loss": 0,
        "links": [{"from": "a", "to": "b", "enabled": False}, {"from": "b", "to": "c", "enabled": False, "loss": 1}],
    }
    lines, _ = happened({"network": network}, 2, Ring("abc"))

    assert lines == ["1 split_off a>b 0", "1 cut b>c 1", "2 received a<c 2", "2 split_off a>b 3", "2 cut b>c 4"]


def test_roles_of_one_group_reach_each_other() -> None:
    """A partition stops only messages between groups."""
    lines, _ = happened({"network": {"partition": [["a", "b"], ["c"]]}}, 1, Ring("abc"))

    assert lines == ["1 received b<a 0", "1 split_off b>c 1", "1 split_off c>a 2"]


def test_a_full_buffer_is_tried_again_a_tick_later() -> None:
    """b, stopped in ticks 1 to 4, has room for one message; late messages wait their turn, in order."""
    crash = {"id": "x", "kind": "crash", "role": "b", "duration": 4, "budget": {"total": 1}}
    plain = {"network": {"latency_ms": 1}, "adversaries": [crash]}
    lines, simulation = happened(plain, 7, Ring("ab", capacity=1, quiet="b"), without=("sent", "sample", "under_way"))

    assert [line for line in lines if "b" in line.split(" ", 2)[2] and " x " not in line] == [
        "3 retried a>b 1",
        "4 retried a>b 1",
        "4 retried a>b 2",
        "5 recovered role=b",
        "5 retried a>b 1",
        "5 retried a>b 2",
        "5 retried a>b 3",
        "5 received b<a 0",
        "6 retried a>b 2",
        "6 retried a>b 3",
        "6 retried a>b 4",
        "6 received b<a 1",
        "7 retried a>b 3",
        "7 retried a>b 4",
        "7 retried a>b 5",
        "7 received b<a 2",
    ]
    assert totals(simulation) == [0, 1 + 2 + 3]


# --- reconfigurations


def change(kind: str, *, cost: int = 0, tick: int = 2, **more: Any) -> dict[str, Any]:
    """A reconfiguration called k, in tick 2."""
    return {"id": "k", "kind": kind, "cost": cost, "trigger": {"at_tick": tick}, **more}


def made(kind: str, roles: str, *, cost: int = 0, links: str = "[]", number: int = 0) -> str:
    """The line of a reconfiguration."""
    effect = "transition_choreography" if cost else "pure"
    return f"2 reconfigured k operation={number} action={kind} effect={effect} cost={cost} step=1 roles={list(roles)} links={links}"


def test_a_link_is_cut_and_mended() -> None:
    """Cut in tick 2, open again in tick 3 with a latency of a tick."""
    again = {**change("link", tick=3, enabled=True, latency_ms=1), "id": "m"}
    plain = {"reconfigurations": [change("link", enabled=False), again]}
    plain = {"reconfigurations": [keys | {"from": "a", "to": "b"} for keys in plain["reconfigurations"]]}
    lines, _ = happened(plain, 4)

    assert lines == [
        "1 received b<a 0",
        made("link", "ab", links="[['a', 'b']]"),
        "2 cut a>b 1",
        "3 reconfigured m operation=1 action=link effect=pure cost=0 step=2 roles=['a', 'b'] links=[['a', 'b']]",
        "3 under_way a>b 2 +1",
        "4 received b<a 2",
        "4 under_way a>b 3 +1",
    ]


def test_a_link_that_costs_stops_both_ends() -> None:
    """In ticks 2 and 3, a and b do nothing but reconfigure; then the message is cut."""
    plain = {"reconfigurations": [change("link", cost=2, enabled=False) | {"from": "a", "to": "b"}]}
    lines, simulation = happened(plain, 4, without=("sample",))

    assert lines == [
        "1 sent a>b 0",
        "1 received b<a 0",
        made("link", "ab", cost=2, links="[['a', 'b']]"),
        "4 sent a>b 1",
        "4 cut a>b 1",
    ]
    assert simulation.state["count"].tolist() == [2, 2]


def test_a_shorter_change_does_not_end_a_longer_one() -> None:
    """A change in tick 2 takes 4 ticks, one in tick 3 takes 1: a and b continue in tick 6."""
    plain = {
        "reconfigurations": [
            change("mode_transition", cost=4, roles=["a", "b"], mode="slow"),
            change("mode_transition", cost=1, roles=["a", "b"], mode="fast", tick=3) | {"id": "m"},
        ]
    }
    lines, _ = happened(plain, 6, without=("sample", "reconfigured", "received"))

    assert lines == ["1 sent a>b 0", "6 sent a>b 1"]


def test_messages_of_a_role_count_as_those_of_its_delegate() -> None:
    """From tick 2 on, messages of b count as sent by c: links from b no longer apply, links from c do."""
    plain = {
        "network": {"links": [{"from": "b", "to": "a", "enabled": False}]},
        "reconfigurations": [change("delegation") | {"from": "b", "to": "c"}],
    }
    lines, _ = happened(plain, 3, Ring("bac", quiet="ac"))

    assert lines == ["1 cut b>a 0", made("delegation", "bc"), "2 received a<c 1", "3 received a<c 2"]


def acting(pairs: list[str]) -> str:
    """The roles that a, b, c and d count as, after these delegations, one per tick."""
    changes = [
        {**change("delegation", tick=tick), "id": f"k{tick}", "from": pair[0], "to": pair[1]}
        for tick, pair in enumerate(pairs, 1)
    ]
    lines, _ = happened({"reconfigurations": changes, "network": {"loss": 1}}, len(pairs), Ring("abcd"))
    return "".join(line.split()[2][0] for line in lines if line.startswith(f"{len(pairs)} lost"))


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["ab", "bc"], "cccd"),  # Messages of a count as b's, and so as c's.
        (["bc", "ab"], "cccd"),
        (["ab", "bc", "cd"], "dddd"),
        (["ab", "bc", "bd"], "ddcd"),  # The newer delegation of b counts, also for a.
        (["ab", "ba"], "aacd"),  # a acts for itself again, and b for a.
        (["ab", "bc", "ca"], "aaad"),  # A circle of three opens at the same point: at the target of the newest.
        (["ab", "bc", "cb"], "bbbd"),
        (["ab", "aa"], "abcd"),  # A delegation to the role itself ends the earlier one.
        (["ab", "bc", "bb"], "bbcd"),
    ],
)
def test_delegations_form_chains_without_circles(pairs: list[str], expected: str) -> None:
    """expected: the senders of the messages of a, b, c and d, in this order, which are lost in the last round."""
    assert acting(pairs) == expected


def test_a_handoff_redirects_messages_in_flight() -> None:
    """Messages to b that an adversary or the network holds go to c; messages sent to b later go to b."""
    adversary = {"id": "x", "kind": "timing_disturbance", "ticks": 2, "budget": {"total": 1}}
    plain = {
        "network": {"latency_ms": 2},
        "adversaries": [adversary],
        "reconfigurations": [change("handoff", tick=3) | {"from": "b", "to": "c"}],
    }
    lines, _ = happened(plain, 5, Ring("abc", quiet="bc"))

    # 0 is held from tick 1 to 3 and then takes 2 more ticks; 1 arrives in tick 4; 2, sent in tick 3, reaches b in 5.
    assert [line for line in lines if "received" in line or "reconfigured" in line or "under_way" in line] == [
        "2 under_way a>b 1 +2",
        made("handoff", "bc").replace("2 rec", "3 rec").replace("step=1", "step=2"),
        "3 under_way a>c 0 +2",
        "3 under_way a>b 2 +2",
        "4 received c<a 1",
        "4 under_way a>b 3 +2",
        "5 received b<a 2",
        "5 received c<a 0",
        "5 under_way a>b 4 +2",
    ]


def test_messages_arrive_in_the_order_of_sending() -> None:
    """This applies to messages due in the same tick, even if one was redirected or retried."""
    plain = {
        "network": {"latency_ms": 2, "links": [{"from": "b", "to": "c", "latency_ms": 1}]},
        "reconfigurations": [change("handoff", tick=3) | {"from": "b", "to": "c"}],
    }
    # Tick 1: 0 a>b due 3, 1 b>c due 2. Tick 2: 2 a>b due 4, 3 b>c due 3. The handoff in tick 3 redirects 0 and 2 to c.
    lines, _ = happened(plain, 3, Ring("abc", quiet="c"))

    assert [line for line in lines if "received" in line] == [
        "2 received c<b 1",
        "3 received c<a 0",
        "3 received c<b 3",
    ]


def test_a_retried_message_keeps_its_place() -> None:
    """With a latency of two ticks, the next message is in flight when one is retried: it stays second."""
    crash = {"id": "x", "kind": "crash", "role": "b", "duration": 5, "budget": {"total": 1}}
    plain = {"network": {"latency_ms": 2}, "adversaries": [crash]}
    lines, _ = happened(plain, 7, Ring("ab", capacity=1, quiet="b"), without=("sent", "sample", "under_way"))

    assert [line for line in lines if "retried" in line or "received" in line] == [
        "4 retried a>b 1",
        "5 retried a>b 1",
        "5 retried a>b 2",
        "6 retried a>b 1",
        "6 retried a>b 2",
        "6 retried a>b 3",
        "6 received b<a 0",
        "7 retried a>b 2",
        "7 retried a>b 3",
        "7 retried a>b 4",
        "7 received b<a 1",
    ]


def test_federations_split_and_unite() -> None:
    """Roles are split from tick 2 to 3 and united from tick 4 on; without groups, all roles are affected."""
    unite = {**change("federation", tick=4, groups=[]), "id": "m"}
    plain = {"reconfigurations": [change("federation", groups=[["a"], ["b"]]), unite]}
    lines, _ = happened(plain, 4, Ring("abc", quiet="bc"))

    assert lines == [
        "1 received b<a 0",
        made("federation", "ab"),
        "2 split_off a>b 1",
        "3 split_off a>b 2",
        "4 reconfigured m operation=1 action=federation effect=pure cost=0 step=3 roles=['a', 'b', 'c'] links=[]",
        "4 received b<a 3",
    ]


def test_a_federation_that_costs_stops_its_members() -> None:
    """a and b stop in ticks 2 and 3, c does not."""
    plain = {"reconfigurations": [change("federation", cost=2, groups=[["a"], ["b"]])]}
    lines, simulation = happened(plain, 4, Ring("abc", quiet="bc"))

    assert lines == ["1 received b<a 0", made("federation", "ab", cost=2), "4 split_off a>b 1"]
    assert simulation.state["count"].tolist() == [2, 2, 4]


def test_modes_are_kept() -> None:
    """The mode of each role is state; the event lists roles in the world's order."""
    plain = {"reconfigurations": [change("mode_transition", roles=["c", "a"], mode="calm")]}
    lines, simulation = happened(plain, 2, Ring("abc", quiet="abc"))

    assert lines == [made("mode_transition", "ac")]
    assert simulation._changes.plain["modes"] == {"c": "calm", "a": "calm"}


@pytest.mark.parametrize("seed", range(4))
def test_a_reconfigurations_random_trigger_has_separate_random_draws(seed: int) -> None:
    """They differ from those of an adversary's trigger with the same name."""
    chance = 0.125
    reconfiguration = change("mode_transition", roles=["a"], mode="m") | {"trigger": {"random": chance}}
    tick, key = 1, zlib.crc32(reconfiguration["id"].encode())
    while philox_block((0, key, tick, RECONFIGURATION << 24), (seed, 0))[0] >= chance * (1 << 32):
        tick += 1
    lines, _ = happened(
        {"seed": seed, "reconfigurations": [reconfiguration]}, tick + 1, without=("sent", "received", "sample")
    )

    assert [line.split()[0] for line in lines] == [str(tick)]


# --- surroundings


def bodies(**places: tuple[float, float]) -> list[dict[str, Any]]:
    """The bodies of roles at these positions."""
    return [{"role": role, "x": x, "y": y} for role, (x, y) in places.items()]


@pytest.mark.parametrize(
    ("sender", "receiver", "reach", "arrives"),
    [
        ((0, 0), (3, 4), 5, True),
        ((0, 0), (3, 4), 4.75, False),
        ((0, 0), (9, 0), 1, True),  # Around the edge: the field is 10 wide and 20 high.
        ((0, 0), (0, 19), 1, True),
        ((0, 0), (9, 19), 1, False),
        ((-1, 0), (19, 0), 0, True),
        ((0, 0), (5, 10), 11, False),
        ((0, 0), (5, 10), 11.25, True),
    ],
)
def test_reach_on_the_torus(sender: tuple[int, int], receiver: tuple[int, int], reach: float, *, arrives: bool) -> None:
    """The shorter way around counts, and the bound is inclusive."""
    environment = {"width": 10, "height": 20, "reach": reach, "bodies": bodies(a=sender, b=receiver)}
    lines, _ = happened({"environment": environment}, 1)

    assert lines == ["1 received b<a 0" if arrives else "1 unreachable a>b 0"]


def test_bodies_move_at_the_end_of_a_round() -> None:
    """b moves by 2 per round: in round n it has made n - 1 moves. A role without a body is always within reach."""
    environment = {"width": 8, "height": 8, "reach": 2, "bodies": [*bodies(a=(0, 0)), {"role": "b", "dx": 2}]}
    lines, _ = happened({"environment": environment}, 5)

    half, places = 65536, [2, 4, 6, 0, 2]
    moves = [f"{tick} moved role=b place=[{x * half}, 0]" for tick, x in enumerate(places, start=1)]
    assert lines == [
        *("1 received b<a 0", moves[0]),  # At 0.
        *("2 received b<a 1", moves[1]),  # At 2.
        *("3 unreachable a>b 2", moves[2]),  # At 4.
        *("4 received b<a 3", moves[3]),  # At 6, which is 2 around the edge.
        *("5 received b<a 4", moves[4]),
    ]
    alone = {"environment": {"reach": 0, "bodies": bodies(a=(5, 5))}}
    assert happened(alone, 1)[0] == ["1 received b<a 0"]


@pytest.mark.parametrize("sleeper", ["a", "b"])
def test_a_sleeping_role_neither_sends_nor_receives(sleeper: str) -> None:
    """It sleeps in the first 2 of every 3 rounds: in 1, 2, 4 and 5."""
    body = {"role": sleeper, "asleep_every": 3, "asleep_ticks": 2}
    lines, _ = happened({"environment": {"bodies": [body]}}, 6)

    assert lines == [
        "1 incapable a>b 0",
        "2 incapable a>b 1",
        f"2 woke role={sleeper}",
        "3 received b<a 2",
        f"3 fell_asleep role={sleeper}",
        "4 incapable a>b 3",
        "5 incapable a>b 4",
        f"5 woke role={sleeper}",
        "6 received b<a 5",
        f"6 fell_asleep role={sleeper}",
    ]


INPUTS = {"inputs": "list", "roles": ["p", "q"]}


def sent_as(plain: dict[str, Any], *sent: Any) -> tuple[list[Any], list[list[str]]]:
    """The inputs of the world, and by tick the events of hindered messages."""
    from staging import Tally, staged

    simulation = staged(INPUTS | plain, Tally())
    stories = []
    for inputs in sent:
        simulation.step(inputs)
        hindered = {"refused", "contended", "collided"}
        stories.append([told(event) for event in simulation.events() if event["kind"] in hindered])
    return given_to(INPUTS | plain, sent), stories


def test_the_messages_of_a_role_are_limited() -> None:
    """Two of each role per round are admitted; each round counts from 0."""
    given, stories = sent_as({"environment": {"admitted": 2}}, {"p": [1, 2, 3], "q": [4]}, {"p": [5]})

    assert given == [[1, 2, 4], [5]]
    assert stories == [["refused p>world 2 input"], []]


def test_a_contended_medium_delays_messages() -> None:
    """Two arrive at once, the others 2 ticks later, when they are not counted again."""
    plain = {"environment": {"contention": 2, "contention_ticks": 2}}
    given, stories = sent_as(plain, {"p": [1, 2, 3], "q": [4]}, {}, {"p": [5]})

    assert given == [[1, 2], [], [3, 4, 5]]
    assert stories == [["contended p>world 2 input +2", "contended q>world 3 input +2"], [], []]


def test_messages_collide() -> None:
    """The third message to one receiver, and all later ones of the round, are lost."""
    plain = {"environment": {"collision": 3, "contention": 1}}
    given, stories = sent_as(plain, {"p": [1, 2, 3], "q": [4]}, {"p": [5]})

    assert given == [[1], [2, 5]]
    assert stories == [["contended p>world 1 input +1", "collided p>world 2 input", "collided q>world 3 input"], []]
