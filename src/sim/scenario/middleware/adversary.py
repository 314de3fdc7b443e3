"""The adversaries of a scenario: when they begin, what they do to a message or a role, and what is left of their budgets.

Invariant: no adversary strikes more often than its budget's total, nor more often in a window than it may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sim.kernel.messages import Event, Message
from sim.scenario.config.adversary import Adversary
from sim.scenario.config.keys import key_of
from sim.scenario.middleware.corruption import corrupt
from sim.scenario.middleware.draws import ScenarioDraws, ScenarioPhase
from sim.scenario.middleware.triggers import ScenarioRound, fires

FOR_EVER = -1
WAITING, ACTIVE, OVER = 0, 1, 2  # Before its trigger; while it may strike; when its budget is used up.


@attrs.frozen
class Interception:
    """What becomes of a message.

    Attributes:
        message: as it goes on; None if it was withheld.
        delay_ticks: how much later.
        copies: that come besides, each with how much later than now; they meet no adversary any more.
    """

    message: Message | None
    delay_ticks: int = 0
    copies: Sequence[tuple[int, Message]] = ()


class AdversaryProgram:
    """All adversaries of a run. Its whole state is ``plain``, plain data.

    plain: "strikers" holds for each adversary its stage, how often it struck, since when it is active, the number of
    its window and how often it struck in that, and when its burst ends; "crashed" the tick at which each crashed role
    goes on, or FOR_EVER.
    """

    def __init__(self, adversaries: Sequence[Adversary], chances: ScenarioDraws) -> None:
        self._adversaries = adversaries
        self._chances = chances
        self.plain: dict[str, Any] = {"strikers": [[WAITING, 0, 0, 0, 0, 0] for _ in adversaries], "crashed": {}}

    @property
    def crashed(self) -> frozenset[str]:
        """Roles that are stopped."""
        return frozenset(self.plain["crashed"])

    def begin_round(self, now: ScenarioRound, events: list[Event]) -> None:
        """Let crashed roles go on whose time has come, and begin what is triggered."""
        for role, until in list(self.plain["crashed"].items()):
            if until != FOR_EVER and now.tick >= until:
                del self.plain["crashed"][role]
                events.append({"kind": "recovered", "role": role})
        for adversary, striker in zip(self._adversaries, self.plain["strikers"], strict=True):
            key = key_of(adversary.id)
            if striker[0] != WAITING or not fires(adversary.trigger, now, self._chances, ScenarioPhase.TRIGGER, key):
                continue
            striker[0], striker[2] = ACTIVE, now.tick
            self._note(events, adversary, striker, "activated", adversary.kind)
            if adversary.kind == "crash":
                self._crash(str(adversary.role), adversary.duration, now)
                events.append({"kind": "crashed", "role": adversary.role, "by": adversary.id})
                self._consume(events, adversary, striker, "crash")

    def _crash(self, role: str, duration: int | None, now: ScenarioRound) -> None:
        """Stop a role, no shorter than another crash has stopped it for already."""
        crashed: dict[str, int] = self.plain["crashed"]
        before = crashed.get(role, 0)
        crashed[role] = FOR_EVER if duration is None or before == FOR_EVER else max(before, now.tick + duration)

    def intercept(self, message: Message, tick: int, events: list[Event]) -> Interception:
        """What the adversaries make of a message, one after the other; the longest delay counts.

        Copies are of the message as those before have left it; what those behind do to it is not done to them.
        """
        delay = 0
        copies: list[tuple[int, Message]] = []
        for adversary, striker in zip(self._adversaries, self.plain["strikers"], strict=True):
            if striker[0] != ACTIVE or not _reaches(adversary, message):
                continue
            if not self._may_strike(adversary, striker, message, tick):
                continue
            found = self._strike(adversary, message, tick)
            if found is None:
                continue
            what, message, own_delay = found
            _note_effect(events, what, adversary, message, own_delay)
            self._count(adversary, striker)
            self._consume(events, adversary, striker, what)
            if what == "withheld":
                return Interception(None, copies=copies)
            if what == "repeated":
                copies += [(own_delay * n, message) for n in range(1, (adversary.copies or 0) + 1)]
            else:
                delay = max(delay, own_delay)
        return Interception(message, delay, copies)

    def _may_strike(self, adversary: Adversary, striker: list[int], message: Message, tick: int) -> bool:
        """Whether the budget allows it now. A window begins when the adversary does, the next when it is over."""
        budget = adversary.budget
        match budget.kind:
            case "windowed":
                window = (tick - striker[2]) // (budget.window_ticks or 1)
                if window != striker[3]:
                    striker[3], striker[4] = window, 0
                return striker[4] < (budget.max_per_window or 0)
            case "correlated" if tick < striker[5]:
                return True
            case "independent" | "correlated":
                falls = self._falls(budget.chance or 0, tick, message, adversary, 0)
                if falls and budget.kind == "correlated":
                    striker[5] = tick + (budget.burst_ticks or 1)
                return falls
        return True

    def _strike(self, adversary: Adversary, message: Message, tick: int) -> tuple[str, Message, int] | None:
        """What is done, to what message, and by how much it is delayed; None if there is nothing to be done."""
        match adversary.kind:
            case "withholding":
                return "withheld", message, 0
            case "timing_disturbance":
                return "delayed", message, adversary.ticks or 0
            case "corruption":
                changed = _corrupted(message)
                return ("corrupted", changed, 0) if changed is not message else None
            case "repetition":
                return "repeated", message, adversary.ticks or 0
            case "byzantine_interference":
                if self._falls(adversary.withhold or 0, tick, message, adversary, 1):
                    return "withheld", message, 0
                changed = (
                    _corrupted(message) if self._falls(adversary.corrupt or 0, tick, message, adversary, 2) else message
                )
                late = self._falls(adversary.delay or 0, tick, message, adversary, 3)
                if changed is not message or late:
                    return "corrupted" if changed is not message else "delayed", changed, (adversary.ticks or 0) * late
        return None

    def _falls(self, chance: int, tick: int, message: Message, adversary: Adversary, word: int) -> bool:
        return self._chances.falls(
            chance, ScenarioPhase.ADVERSARY, tick, message.number, block=key_of(adversary.id), word=word
        )

    @staticmethod
    def _count(adversary: Adversary, striker: list[int]) -> None:
        if adversary.budget.kind == "windowed":
            striker[4] += 1

    def _consume(self, events: list[Event], adversary: Adversary, striker: list[int], detail: str) -> None:
        striker[1] += 1
        self._note(events, adversary, striker, "consumed", detail)
        if striker[1] >= adversary.budget.total:
            striker[0] = OVER
            self._note(events, adversary, striker, "exhausted", detail)
            doubts = ("budget_exhaustion", adversary.doubt)
            events.extend({"kind": "diagnostic", "diagnostic": doubt, "by": adversary.id} for doubt in doubts)

    @staticmethod
    def _note(events: list[Event], adversary: Adversary, striker: list[int], what: str, detail: str) -> None:
        left = adversary.budget.total - striker[1]
        events.append({"kind": what, "by": adversary.id, "consumed": striker[1], "remaining": left, "detail": detail})


def _reaches(adversary: Adversary, message: Message) -> bool:
    return (
        (not adversary.senders or message.sender in adversary.senders)
        and (not adversary.receivers or message.receiver in adversary.receivers)
        and (not adversary.labels or message.label in adversary.labels)
    )


def _corrupted(message: Message) -> Message:
    payload = corrupt(message.payload)
    return message if payload is message.payload else attrs.evolve(message, payload=payload)


def _note_effect(events: list[Event], what: str, adversary: Adversary, message: Message, delay: int) -> None:
    event = {"kind": what, "by": adversary.id, **message_facts(message)}
    if what == "repeated":
        event["copies"] = adversary.copies
    if delay:
        event["ticks"] = delay
    events.append(event)


def message_facts(message: Message) -> Event:
    """What events say of a message."""
    return {"role": message.sender, "to": message.receiver, "label": message.label, "message": message.number}
