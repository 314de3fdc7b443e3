"""The adversaries of a scenario file: their triggers, their budgets, the keys of each kind."""

from __future__ import annotations

from typing import Literal

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.keys import Chance, Copies, Count, Tick, Ticks, check_keys, check_name

AdversaryKind = Literal[
    "withholding", "timing_disturbance", "corruption", "repetition", "crash", "byzantine_interference"
]
BudgetKind = Literal["activation", "independent", "windowed", "correlated"]
Diagnostic = Literal["quorum_intersection", "authentication_evidence", "fairness", "unsupported_regime"]
EventKind = Literal["sent", "received", "opened", "closed", "invoked", "halted", "faulted"]


@attrs.frozen
class EventPattern:
    """Matches events of one kind, from one role or from any."""

    kind: EventKind
    role: str | None = None


@attrs.frozen
class AdversaryTrigger:
    """The moment at which an adversary begins or a reconfiguration is made. It fires once.

    At most one attribute is set. Without any, the trigger fires at once.

    Attributes:
        immediate: at the first round; true, or left out.
        at_tick: at this tick or after it.
        after_step: when this many rounds are over.
        random: with this chance, at each tick.
        on_event: in the round after one with a matching event.
    """

    immediate: bool | None = None
    at_tick: Tick | None = None
    after_step: Tick | None = None
    random: Chance | None = None
    on_event: EventPattern | None = None

    def __attrs_post_init__(self) -> None:
        set_keys = [name for name in ("at_tick", "after_step", "random", "on_event") if getattr(self, name) is not None]
        set_keys += ["immediate"] if self.immediate else []
        if len(set_keys) > 1:
            raise ConfigError("", f"expected one trigger, got {' and '.join(set_keys)}")
        if self.immediate is False and not set_keys:
            raise ConfigError(
                "immediate", "a trigger that is not immediate needs one of at_tick, after_step, random, on_event"
            )


@attrs.frozen
class Budget:
    """A limit on how often an adversary may strike.

    Attributes:
        total: the most strikes in the entire run.
        kind: the messages that are struck, of those in reach: activation (every message), independent (each with a
            chance), windowed (at most max_per_window in each window), correlated (a chance starts a burst, and every
            message in the burst is struck).
    """

    total: Count
    kind: BudgetKind = "activation"
    chance: Chance | None = None
    window_ticks: Ticks | None = None
    max_per_window: Count | None = None
    burst_ticks: Ticks | None = None

    def __attrs_post_init__(self) -> None:
        needed_keys = {
            "activation": (),
            "independent": ("chance",),
            "windowed": ("window_ticks", "max_per_window"),
            "correlated": ("chance", "burst_ticks"),
        }
        check_keys(self, self.kind, needed_keys[self.kind], ("chance", "window_ticks", "max_per_window", "burst_ticks"))


@attrs.frozen
class Adversary:
    """A source of interference: it changes, delays or withholds messages, or stops a role.

    Attributes:
        id: its name.
        budget: required: every adversary is bounded.
        senders, receivers, labels: of the messages in its reach; an empty list means all.
        ticks: the delay of timing_disturbance; for repetition, the ticks from the message to its first copy and from
            each copy to the next.
        copies: the number of copies that repetition makes of a message.
        role, duration: the role that crash stops, and for how many ticks; without duration, for the rest of the run.
        withhold, corrupt, delay, ticks: the chances of byzantine_interference to do each, and the ticks of its delay.
        diagnostic: the assumption that is in doubt when the budget is used up.
    """

    id: str
    kind: AdversaryKind
    budget: Budget
    trigger: AdversaryTrigger = attrs.field(factory=AdversaryTrigger)
    senders: tuple[str, ...] = ()
    receivers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ticks: Ticks | None = None
    copies: Copies | None = None
    role: str | None = None
    duration: Ticks | None = None
    withhold: Chance | None = None
    corrupt: Chance | None = None
    delay: Chance | None = None
    diagnostic: Diagnostic | None = None

    def __attrs_post_init__(self) -> None:
        check_name("id", self.id)
        own = ("ticks", "copies", "role", "duration", "withhold", "corrupt", "delay")
        needed: dict[str, tuple[str, ...]] = {
            "timing_disturbance": ("ticks",),
            "repetition": ("copies", "ticks"),
            "crash": ("role",),
        }
        allowed: dict[str, tuple[str, ...]] = {
            "crash": ("duration",),
            "byzantine_interference": ("withhold", "corrupt", "delay", "ticks"),
        }
        check_keys(self, self.kind, needed.get(self.kind, ()), own, allowed.get(self.kind, ()))
        if self.kind == "crash" and (self.budget.kind, self.budget.total) != ("activation", 1):
            raise ConfigError("budget", "expected kind activation and total 1: a crash strikes once")
        if self.kind == "crash" and (self.senders or self.receivers or self.labels):
            raise ConfigError("senders", "not with crash: it stops a role and does not select messages")
        if self.kind == "byzantine_interference":
            if self.withhold is None and self.corrupt is None and self.delay is None:
                raise ConfigError("withhold", "byzantine_interference needs one of withhold, corrupt and delay")
            if (self.delay is None) != (self.ticks is None):
                raise ConfigError(
                    "delay", "expected both or neither of delay, a chance, and ticks, the length of the delay"
                )

    @property
    def doubt(self) -> str:
        """The assumption that is in doubt when the budget is used up."""
        forged = self.kind in {"corruption", "repetition", "byzantine_interference"}
        return self.diagnostic or ("authentication_evidence" if forged else "fairness")
