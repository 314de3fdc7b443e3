"""The adversaries of a scenario as it is written: triggers, budgets, what each kind needs."""

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
    """Events of a kind, of one role or of any."""

    kind: EventKind
    role: str | None = None


@attrs.frozen
class AdversaryTrigger:
    """When an adversary begins or a reconfiguration is made: at most one of these; none is at once. It fires once.

    Attributes:
        immediate: at the first round; true, or left out.
        at_tick: at this tick or behind it.
        after_step: when so many rounds are over.
        random: with this chance at each tick.
        on_event: in the round behind one with such an event.
    """

    immediate: bool | None = None
    at_tick: Tick | None = None
    after_step: Tick | None = None
    random: Chance | None = None
    on_event: EventPattern | None = None

    def __attrs_post_init__(self) -> None:
        given = [name for name in ("at_tick", "after_step", "random", "on_event") if getattr(self, name) is not None]
        given += ["immediate"] if self.immediate else []
        if len(given) > 1:
            raise ConfigError("", f"one trigger was expected, found {' and '.join(given)}")
        if self.immediate is False and not given:
            raise ConfigError(
                "immediate", "a trigger that is not immediate has one of at_tick, after_step, random, on_event"
            )


@attrs.frozen
class Budget:
    """How often an adversary may strike.

    Attributes:
        total: at most so often in the whole run.
        kind: activation (every message that it can reach), independent (each with a chance), windowed (at most
            max_per_window in each window), correlated (a chance starts a burst, in which every one is struck).
    """

    total: Count
    kind: BudgetKind = "activation"
    chance: Chance | None = None
    window_ticks: Ticks | None = None
    max_per_window: Count | None = None
    burst_ticks: Ticks | None = None

    def __attrs_post_init__(self) -> None:
        wanted = {
            "activation": (),
            "independent": ("chance",),
            "windowed": ("window_ticks", "max_per_window"),
            "correlated": ("chance", "burst_ticks"),
        }
        check_keys(self, self.kind, wanted[self.kind], ("chance", "window_ticks", "max_per_window", "burst_ticks"))


@attrs.frozen
class Adversary:
    """Somebody who interferes with messages, or stops a role.

    Attributes:
        id: its name.
        budget: obligatory, so that no run is at the mercy of an adversary without bounds.
        senders, receivers, labels: of messages that it can reach; none is all.
        ticks: by which timing_disturbance delays, and by which each copy of repetition comes behind the one before it,
            the first one behind the message.
        copies: how many copies of a message repetition makes.
        role, duration: whom crash stops, and for how many ticks; for ever without.
        withhold, corrupt, delay, ticks: what byzantine_interference does, and how likely; delay by ticks.
        diagnostic: which assumption is in doubt when the budget is used up.
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
            raise ConfigError("budget", "a crash has a budget of kind activation and total 1")
        if self.kind == "crash" and (self.senders or self.receivers or self.labels):
            raise ConfigError("senders", "a crash stops a role: messages cannot be chosen")
        if self.kind == "byzantine_interference":
            if self.withhold is None and self.corrupt is None and self.delay is None:
                raise ConfigError("withhold", "byzantine_interference needs one of withhold, corrupt and delay")
            if (self.delay is None) != (self.ticks is None):
                raise ConfigError("delay", "delay, a chance, and ticks, by how much, go together")

    @property
    def doubt(self) -> str:
        """The assumption that is in doubt when the budget is used up."""
        forged = self.kind in {"corruption", "repetition", "byzantine_interference"}
        return self.diagnostic or ("authentication_evidence" if forged else "fairness")
