"""The meadow's part in the interface of sim.sharding: the plan of a division, and the step of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import Config, Readable
from sim.kernel.schema import Schema
from sim.kernel.state import Snapshot, State
from sim.sharding.shard_plan import Exchange, Piece
from sim.sharding.stripes import Stripes
from sim.worlds.meadow.config.meadow import MeadowConfig, read_config
from sim.worlds.meadow.phases.flow_field import run_flow_field
from sim.worlds.meadow.phases.inputs import read_inputs
from sim.worlds.meadow.shards import parts
from sim.worlds.meadow.shards.assembly import assemble_state
from sim.worlds.meadow.shards.stripe import HALO, Stripe
from sim.worlds.meadow.shards.stripe_inputs import run_inputs
from sim.worlds.meadow.shards.stripe_interaction import run_interaction
from sim.worlds.meadow.shards.stripe_lifecycle import run_lifecycle
from sim.worlds.meadow.shards.stripe_signalling import run_signalling


@attrs.frozen
class StepOrder:
    """What a shard is told of a tick.

    Attributes:
        inputs: of the whole meadow.
        wants_events: collect the events of the step.
    """

    inputs: Any
    wants_events: bool = False


@attrs.frozen
class MeadowPlan:
    """See ShardPlan.

    Attributes:
        encoded: the configuration, as encode_plain writes it.
        has_ledger: note all flows of energy.
    """

    encoded: bytes
    has_ledger: bool = False

    @staticmethod
    def of(plain: Config, *, has_ledger: bool = False) -> MeadowPlan:
        """Return the plan of a configuration, as plain data."""
        return MeadowPlan(encode_plain(dict(plain)), has_ledger)

    @property
    def config(self) -> MeadowConfig:
        """The configuration."""
        return read_config(decode_plain(self.encoded))

    def stripes(self, count: int) -> Stripes:
        """See ShardPlan."""
        return Stripes.divide(self.config.grid.height, count, HALO)

    def shard(self, number: int, stripes: Stripes) -> MeadowShard:
        """See ShardPlan."""
        return MeadowShard(Stripe(number, stripes, self.config, has_ledger=self.has_ledger))

    def assemble(self, state: State, stripes: Stripes, pieces: Sequence[Piece]) -> None:
        """See ShardPlan."""
        assemble_state(state, stripes, pieces)

    def part_schema(self, whole: Readable, stripes: Stripes, shard: int) -> Schema:
        """See PartedPlan."""
        return parts.part_schema(self.config, whole, stripes, shard)

    def write_part(self, whole: Readable, stripes: Stripes, shard: int, part: State) -> None:
        """See PartedPlan."""
        parts.write_part(whole, stripes, shard, part)

    def join_parts(self, parts_of_all: Sequence[Readable]) -> State:
        """See PartedPlan."""
        return parts.join_parts(self.config, parts_of_all)

    def differing_fields(self, part: Readable, other: Readable) -> list[str]:
        """See PartedPlan."""
        return parts.differing_fields(part, other)


class MeadowShard:
    """See Shard."""

    def __init__(self, stripe: Stripe) -> None:
        self.stripe = stripe

    def load(self, whole: Snapshot) -> None:
        """See Shard."""
        self.stripe.load(whole)

    def step(self, inputs: StepOrder) -> Exchange:
        """See Shard."""
        stripe = self.stripe
        checked = read_inputs(stripe.config, inputs.inputs)
        stripe.begin_tick(wants_events=inputs.wants_events)
        yield from run_inputs(stripe, checked)
        stripe.close_phase("inputs")
        run_flow_field(stripe.context)
        stripe.close_phase("flow_field")
        yield from run_lifecycle(stripe)
        stripe.close_phase("lifecycle")
        yield from run_interaction(stripe)
        stripe.close_phase("interaction")
        yield from run_signalling(stripe)

    def piece(self) -> Piece:
        """See Shard."""
        return self.stripe.piece()
