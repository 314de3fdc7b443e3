"""Comparison of runs: raw, normalised, different; checked against a comparison of complete runs in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.scenario.results.compare import Divergence, RunComparison, compare_runs
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.protocol.builder import branch, choice, loop, protocol, send

Run = list[tuple[int, dict[str, Any]]]


def event(session: Any, kind: str = "sent", message: int | None = None, **more: Any) -> dict[str, Any]:
    """An event of a session."""
    return {"kind": kind, "session": session, **({"message": message} if message is not None else {}), **more}


A, B = event("a", message=0), event("b", message=1)
A_LATER, B_FIRST = event("a", message=1), event("b", message=0)


def test_equal_runs() -> None:
    """All events and ticks are equal."""
    run = [(1, A), (1, B), (2, A)]
    assert compare_runs(run, list(run)) == RunComparison("exact_raw_match", None, None, (3, 3))
    assert compare_runs([], []) == RunComparison("exact_raw_match", None, None, (0, 0))


def test_a_threaded_run_is_never_an_exact_match() -> None:
    """Equal events of runs that threads ordered are only equivalent."""
    comparison = compare_runs([(1, A)], [(1, A)], exact=False)
    assert comparison == RunComparison("equivalent_under_normalization", None, None, (1, 1), capped=True)


def test_sessions_in_another_order() -> None:
    """Messages are numbered by session; neither ticks nor the numbers of reconfigurations count."""
    change = {"kind": "reconfigured", "by": "x", "operation": 0, "step": 1}
    one: Run = [(1, A), (2, B), (3, change)]
    other: Run = [(1, B_FIRST), (1, A_LATER), (4, {**change, "operation": 3})]
    comparison = compare_runs(one, other)
    assert comparison.verdict == "equivalent_under_normalization"
    assert comparison.raw == Divergence("a", 0, (1, A), (1, B_FIRST))
    assert comparison.normalised is None


def test_reconfigurations_are_compared_by_their_footprint() -> None:
    """Roles, links, effect and cost; not by the step at which an event triggered them, nor by their number among all."""
    change: dict[str, Any] = {"kind": "reconfigured", "by": "x", "operation": 0, "step": 1, "action": "link", "cost": 2}
    change |= {"effect": "transition_choreography", "roles": ["a", "b"], "links": [["a", "b"]]}
    later = {**change, "operation": 1, "step": 7}
    assert compare_runs([(1, change)], [(7, later)]).verdict == "equivalent_under_normalization"
    other: dict[str, Any]
    for other in ({"links": [["b", "a"]]}, {"roles": ["a"]}, {"cost": 1}, {"effect": "pure"}, {"by": "y"}):
        assert compare_runs([(1, change)], [(1, {**change, **other})]).verdict == "safety_visible_divergence", other
    assert any("what they change" in sentence for sentence in compare_runs([], []).normalisation)


def test_the_first_event_that_differs() -> None:
    """The divergence holds the session, the index in it, and the event of each run."""
    wrong = event("b", kind="faulted", message=1)
    comparison = compare_runs([(1, A), (1, B), (2, B)], [(1, B), (1, A), (2, wrong)])
    assert comparison.verdict == "safety_visible_divergence"
    assert comparison.normalised == Divergence("b", 1, (2, B), (2, wrong))
    assert comparison.raw == Divergence("a", 0, (1, A), (1, B))


@pytest.mark.parametrize("swap", [False, True])
def test_an_additional_event(swap: bool) -> None:  # noqa: FBT001
    """The longer run has an event that the other one lacks."""
    runs: list[Run] = [[(1, A), (2, B)], [(1, A)]]
    one, other = reversed(runs) if swap else runs
    comparison = compare_runs(one, other)
    events = (None, (2, B)) if swap else ((2, B), None)
    assert comparison.normalised == Divergence("b", 0, *events)
    assert comparison.raw == Divergence("b", 1, *events)


def said(kind: str, role: str, message: int | None = None, **more: Any) -> dict[str, Any]:
    """An event of a role in session 0."""
    return event(0, kind, message, role=role, **more)


def verdict(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> str:
    """The verdict on two runs with one event a tick."""
    return compare_runs(enumerate(one), enumerate(other)).verdict


def test_observability_comparison_is_insensitive_to_order_over_session_normalised_events() -> None:
    """Two roles of one session that act in either order give equivalent runs; the report names the normalisation."""
    east = [said("opened", "East"), said("sent", "East", 0, to="South")]
    north = [said("opened", "North"), said("sent", "North", 1, to="West")]
    swapped = [{**north[1], "message": 0}, {**east[1], "message": 1}]
    comparison = compare_runs(enumerate([*east, *north]), enumerate([north[0], east[0], *swapped]))
    assert comparison.verdict == "equivalent_under_normalization"
    assert any("role" in sentence for sentence in comparison.normalisation)


def rounds_of(rng: random.Random) -> Iterator[tuple[int, dict[str, Any]]]:
    """A protocol with choices and an end, whose roles act in a drawn order in each round; two sessions."""
    rounds = loop("ring", send("A", "B", "x", payload="number"), send("B", "C", "y"), send("C", "A", "z"), times=3)
    chosen = choice(
        "A", "B", branch("yes", send("B", "C", "told")), branch("no", send("B", "C", "no")), schedule=["no"]
    )
    world = Choreography({
        "protocol": protocol(["A", "B", "C"], rounds, chosen),
        "sessions": 2,
        "scheduler": {"concurrency": 6},
    })  # fmt: skip
    while not world.ended():
        world.step({"order": rng.sample(world.roles, rng.randint(1, 6))})
        yield from ((int(world.state["tick"]), event) for event in world.events())


@given(st.integers(0, 1 << 30))
@settings(max_examples=8, deadline=None)
def test_one_protocol_in_any_order_of_its_roles_is_equivalent(seed: int) -> None:
    """Whatever the order in which the roles act, the runs do not differ; without an event they do."""
    runs = [list(rounds_of(random.Random(f"{seed} {n}"))) for n in range(2)]
    assert compare_runs(*runs).verdict != "safety_visible_divergence"
    without = [entry for entry in runs[1] if entry[1]["kind"] != "chose"]
    assert compare_runs(runs[0], without).verdict == "safety_visible_divergence"


def test_a_session_closes_with_whichever_role_stops_last() -> None:
    """The role of the event closed is that of the last stop; a session that closes one stop earlier differs."""
    stops = [said("halted", "Bob"), said("halted", "Alice"), said("closed", "Alice")]
    other = [said("halted", "Alice"), said("halted", "Bob"), said("closed", "Bob")]
    assert verdict(stops, other) == "equivalent_under_normalization"
    early = [said("halted", "Alice"), said("closed", "Alice"), said("halted", "Bob")]
    assert verdict(stops, early) == "safety_visible_divergence"
    doors = [{"kind": "closed", "role": "north"}], [{"kind": "closed", "role": "south"}]
    assert verdict(*doors) == "safety_visible_divergence"  # Of a world's own, not of a session.


def test_causal_order_must_hold_per_role_session_and_message() -> None:
    """One swap in a role, in a session, of a message's own events, or of two messages on one way is a divergence."""
    role = [said("chose", "Alice"), said("halted", "Alice")]
    assert verdict(role, role[::-1]) == "safety_visible_divergence"
    session = [event(0, "opened"), event(0, "closed")]
    assert verdict(session, session[::-1]) == "safety_visible_divergence"
    message = [said("sent", "Alice", 0, to="Bob"), said("received", "Bob", 0, **{"from": "Alice"})]
    assert verdict(message, message[::-1]) == "safety_visible_divergence"
    way = [said("received", "Bob", n, **{"from": "Alice"}) for n in (0, 1)]
    sent = [said("sent", "Alice", n, to="Bob") for n in (0, 1)]
    assert verdict([*sent, *way], [*sent, *way[::-1]]) == "safety_visible_divergence"
    effects = [said("withheld", "Alice", n, to="Bob", by="fog") for n in (0, 1)]
    assert verdict([*sent, effects[0]], [*sent, effects[1]]) == "safety_visible_divergence"


def test_a_run_that_got_further_is_told_from_one_that_differs() -> None:
    """Further events are a difference, but of the length alone."""
    run = [said("sent", "Alice", 0, to="Bob"), said("halted", "Alice")]
    cut = compare_runs(enumerate(run), enumerate(run[:1]))
    assert (cut.verdict, cut.only_length) == ("safety_visible_divergence", True)
    other = compare_runs(enumerate(run), enumerate([said("sent", "Alice", 0, to="Carol"), run[1]]))
    assert (other.verdict, other.only_length) == ("safety_visible_divergence", False)
    assert other.normalised is not None
    assert other.normalised.of == "role Alice"


def test_an_effect_on_a_message_is_recorded_after_its_round() -> None:
    """A message that is corrupted and received in one round, or received in a later one, has the same history."""
    sent, corrupted = said("sent", "Alice", 0, to="Bob"), said("corrupted", "Alice", 0, to="Bob", by="fog")
    received = said("received", "Bob", 0, **{"from": "Alice"})
    assert verdict([sent, received, corrupted], [sent, corrupted, received]) == "equivalent_under_normalization"


def test_samples_count_raw_only() -> None:
    """The figures of a round depend on the session that advanced in it."""
    sample = {"kind": "sample", "step": 1, "role": "a", "values": [1]}
    comparison = compare_runs([(1, sample)], [(1, {**sample, "values": [2]})])
    assert comparison.verdict == "equivalent_under_normalization"


def test_values_that_do_not_compare() -> None:
    """NaN equals itself here, and -0.0 is not 0.0."""
    nan, zero, minus = ({"kind": "seen", "value": value} for value in (float("nan"), 0.0, -0.0))
    assert compare_runs([(1, nan)], [(1, {**nan, "value": float("nan")})]).verdict == "exact_raw_match"
    assert compare_runs([(1, zero)], [(1, minus)]).verdict == "safety_visible_divergence"


def normal_form(run: Run) -> list[str]:
    """The definition of the comparison for events without a role: those of each session in order, numbered within it."""
    by_session: dict[Any, list[str]] = {}
    numbers: dict[Any, dict[int, int]] = {}
    for _, entry in run:
        session = entry["session"]
        session_numbers = numbers.setdefault(session, {})
        message = session_numbers.setdefault(entry["message"], len(session_numbers))
        lines = by_session.setdefault(session, [])
        lines.append(f"{session} {len(lines)} {entry['kind']} {message}")
    return sorted(line for lines in by_session.values() for line in lines)


@st.composite
def pairs_of_runs(draw: st.DrawFn) -> tuple[Run, Run]:
    """A run, and a copy with its sessions interleaved differently and perhaps a few events changed."""
    kinds = st.sampled_from(["sent", "received"])
    one = [
        (n, event(draw(st.sampled_from("abc")), draw(kinds), draw(st.integers(0, 4))))
        for n in range(draw(st.integers(0, 12)))
    ]
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    queues: dict[str, list[dict[str, Any]]] = {}
    for _, entry in one:
        queues.setdefault(entry["session"], []).append(entry)
    other: Run = []
    while queues:
        session = chance.choice(sorted(queues))
        other.append((len(other), queues[session].pop(0)))
        if not queues[session]:
            del queues[session]
    for _ in range(draw(st.integers(0, 2))):
        if other:
            index = chance.randrange(len(other))
            other[index] = (other[index][0], {**other[index][1], "kind": draw(kinds)})
    return one, other


@given(pairs_of_runs())
@settings(max_examples=400, deadline=None)
@pytest.mark.seldom(0.18)
def test_against_the_definition(runs: tuple[Run, Run]) -> None:
    """The streaming comparison gives the verdict of the definition."""
    one, other = runs
    if one == other:
        expected = "exact_raw_match"
    else:
        same = normal_form(one) == normal_form(other)
        expected = "equivalent_under_normalization" if same else "safety_visible_divergence"
    assert compare_runs(iter(one), iter(other)).verdict == expected
