"""The field models against exact fractions, by their call counts, and by the quantities they conserve."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.worlds.choreography import Choreography
from sim.worlds.choreography.field_models import FieldModel, normalise
from sim.worlds.choreography.protocol.builder import again, loop, protocol, send
from sim.worlds.choreography.q32 import ONE

SHARES = st.lists(st.integers(-ONE, 2 * ONE), min_size=2, max_size=6)
STATE: dict[str, Any] = {"payload": "fixed", "register": 2}
EXCHANGE = loop("l", send("A", "B", "mine", **STATE), send("B", "A", "yours", **STATE), again("l"))
PAIR_EXCHANGE = loop(
    "l",
    send("A", "B", "position", **STATE),
    send("B", "A", "position", **STATE),
    send("A", "B", "seen"),
    send("B", "A", "seen"),
    again("l"),
)


def exact(world: Choreography, role: str) -> list[Fraction]:
    """A role's state as fractions."""
    return [Fraction(number, ONE) for number in world.sample(role)]


def make(step: dict[str, Any], field: dict[str, Any]) -> Choreography:
    """A choreography of A and B, which both advance in each round."""
    return Choreography({"protocol": protocol(["A", "B"], step), "field": field, "scheduler": {"concurrency": 2}})


@given(SHARES)
def test_shares_add_up_to_exactly_one(shares: list[int]) -> None:
    """Each share is clamped and within a few units of its part of the sum; the largest takes the rounding error."""
    clamped = [max(0, min(ONE, share)) for share in shares]
    normalised = normalise(shares)
    if not any(clamped):
        assert normalised == clamped
        return
    assert sum(normalised) == ONE
    assert min(normalised) >= 0
    for share, part in zip(clamped, normalised, strict=True):
        assert abs(Fraction(share, sum(clamped)) * ONE - part) < len(shares)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 99), st.integers(-40, 40))
def test_the_mean_field_follows_its_equation(percent: int, beta_tenths: int) -> None:
    """m = v0 - v1, v0 += (tanh(βm) - m)·dt, v1 the opposite, against fractions within a few units per call."""
    state = [f"{percent / 100:.2f}", f"{1 - percent / 100:.2f}"]
    model = FieldModel(
        kind="mean_field", beta=f"{beta_tenths / 10:.1f}", species=2, initial_state=tuple(state), step="0.01"
    )
    registers = [0, 0, *model.initial_registers(0)]
    v0, v1 = (Fraction(text) for text in state)
    for call in range(1, 51):
        assert model.act(registers, call)
        m = v0 - v1
        x = Fraction(beta_tenths, 10) * m
        tanh = x * (27 + x * x) / (27 + 9 * x * x) if abs(x) < 3 else Fraction(1 if x > 0 else -1)
        drift = (tanh - m) / 100
        v0, v1 = (max(Fraction(0), min(Fraction(1), v)) for v in (v0 + drift, v1 - drift))
        v0, v1 = (v.limit_denominator(1 << 80) for v in (v0 / (v0 + v1), v1 / (v0 + v1)))
        assert sum(registers[2:]) == ONE
        assert abs(registers[2] - v0 * ONE) < 32 * call
    assert registers[:2] == [0, 0]


def test_the_mean_field_grows_above_beta_1_and_decays_below() -> None:
    """A small majority grows to consensus, or vanishes."""
    for beta, grows in (("1.5", True), ("0.5", False)):
        world = make(
            EXCHANGE,
            {"kind": "mean_field", "beta": beta, "species": 2, "initial_state": ["0.55", "0.45"], "step": "0.05"},
        )
        for _ in range(300):
            world.step(None)
            assert sum(world.sample("A")) == sum(world.sample("B")) == ONE
        assert (exact(world, "A")[0] > Fraction(55, 100)) == grows


def test_the_continuum_by_hand_and_its_sum() -> None:
    """v += k(peer - v)dt on every second call, after an exchange of values: the sum stays exact to the last bit."""
    world = make(EXCHANGE, {"kind": "continuum", "coupling": "0.5", "fields": [8, "-2.5"], "step": "0.25"})
    a, b = Fraction(8), Fraction(-5, 2)
    moves = 0
    for _ in range(200):
        before = exact(world, "A")[0]
        world.step(None)
        acted = {one["role"]: one["acted"] for one in world.events() if one["kind"] == "invoked"}
        if acted.get("A"):
            moves += 1
            assert before == Fraction(world.state["roles.registers"][0, 2].item(), ONE) - (b - a) / 8 or moves > 5
            a, b = a + (b - a) / 8, b + (a - b) / 8
        if (
            int(world.state["field.calls"][0]) == int(world.state["field.calls"][1])
            and not int(world.state["field.calls"][0]) % 2
        ):
            assert sum(world.sample("A")) + sum(world.sample("B")) == 11 * ONE // 2  # Nothing gained or lost.
    assert moves > 40
    assert abs(exact(world, "A")[0] - a) < Fraction(moves, 1 << 28)


def test_the_hamiltonian_keeps_its_energy_and_momentum() -> None:
    """A spring over 400 steps of leapfrog: less than 15 % drift, momenta opposite to the last bit, and oscillation."""
    config = {"kind": "hamiltonian", "k": 1, "mass": 1, "positions": [1, -1], "momenta": [0, 0], "step": "0.05"}
    world = make(PAIR_EXCHANGE, config)
    energies, positions = [], []
    acted = 0
    while acted < 800:
        world.step(None)
        acted += sum(one["acted"] for one in world.events() if one["kind"] == "invoked")
        if acted and set(world.state["field.calls"].tolist()) == {acted * 2}:  # Both have made equally many steps.
            (q1, p1), (q2, p2) = exact(world, "A"), exact(world, "B")
            assert (q1 + q2, p1 + p2) == (0, 0)
            energies.append((p1 * p1 + p2 * p2) / 2 + (q1 - q2) ** 2 / 2)
            positions.append(q1)
    assert len(energies) > 300
    assert max(abs(energy - 2) for energy in energies) < Fraction(15, 100) * 2
    assert min(positions) < -Fraction(9, 10) < Fraction(9, 10) < max(positions)


def test_the_leapfrog_by_hand() -> None:
    """With exactly representable numbers: half a kick, drift, then full kicks."""
    config = {"k": 2, "mass": 4, "positions": (1, 3), "momenta": (0, "-1"), "step": "0.5"}
    model = FieldModel(kind="hamiltonian", **config)
    registers = [0, 3 * ONE, *model.initial_registers(0)]
    seen = []
    for call in range(1, 13):
        model.act(registers, call)
        if call % 4 == 0:
            seen.append([number / ONE for number in registers[2:]])
    # p: 2·(3 - 1)·¼ = 1; q: 1 + ¼·½. Then p += 2·(3 - 1.125)·½ = 1.875 …
    assert seen == [[1.125, 1.0], [1.484375, 2.875], [2.033203125, 4.390625]]
    assert [number / ONE for number in model.initial_registers(1)] == [3, -1]


def test_a_model_acts_only_on_its_calls() -> None:
    """Every call, every second, or every fourth; there is a call for each message sent or received, in order."""
    for step, field, every in (
        (EXCHANGE, {"kind": "mean_field", "beta": 1, "species": 2, "initial_state": ["0.6", "0.4"], "step": "0.1"}, 1),
        (EXCHANGE, {"kind": "continuum", "coupling": 1, "fields": [0, 1], "step": "0.1"}, 2),
        (
            PAIR_EXCHANGE,
            {"kind": "hamiltonian", "k": 1, "mass": 1, "positions": [0, 1], "momenta": [0, 0], "step": 1},
            4,
        ),
    ):
        world = make(step, field)
        calls = {"A": 0, "B": 0}
        for _ in range(30):
            before = {role: world.sample(role) for role in calls}
            world.step(None)
            productive = [one["role"] for one in world.events() if one["kind"] in ("sent", "received")]
            invoked = [one for one in world.events() if one["kind"] == "invoked"]
            assert [one["role"] for one in invoked] == productive
            for one in invoked:
                calls[one["role"]] += 1
                assert one["acted"] == (calls[one["role"]] % every == 0)
                assert one["model"] == field["kind"]
            for role in calls:
                if not any(one["acted"] for one in invoked if one["role"] == role):
                    assert world.sample(role) == before[role]
        assert world.state["field.calls"].tolist() == list(calls.values())
