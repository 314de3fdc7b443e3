"""The adversaries of a run: their triggers, their strikes on messages and roles, and their budgets.

Invariant: no adversary strikes more often than the total of its budget, or more often in a window than max_per_window.
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
    """The result of interference with a message.

    Attributes:
        message: as it is passed on; None if it was withheld.
        delay_ticks: the delay of the message.
        copies: further copies, each with its delay from now; no adversary intercepts them.
    """

    message: Message | None
    delay_ticks: int = 0
    copies: Sequence[tuple[int, Message]] = ()


class AdversaryProgram:
    """All adversaries of a run. The entire state is ``plain``, plain data.

    plain: "strikers" holds for each adversary its stage, its strikes, the tick at which it became active, the number of
    its window, the strikes in that window, and the tick at which its burst ends. "crashed" holds the tick at which each
    crashed role recovers, or FOR_EVER.
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
        """Let crashed roles recover when they are due, and activate the adversaries whose trigger fires."""
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
        """Stop a role. A longer stop by an earlier crash stays in force."""
        crashed: dict[str, int] = self.plain["crashed"]
        before = crashed.get(role, 0)
        crashed[role] = FOR_EVER if duration is None or before == FOR_EVER else max(before, now.tick + duration)

    def intercept(self, message: Message, tick: int, events: list[Event]) -> Interception:
        """Pass a message through all adversaries in order; the longest delay counts.

        A copy is of the message as the earlier adversaries left it. Later adversaries do not change copies.
        """
        delay = 0
        copies: list[tuple[int, Message]] = []
        for adversary, striker in zip(self._adversaries, self.plain["strikers"], strict=True):
            if striker[0] != ACTIVE or not _reaches(adversary, message):
                continue
            if not self._may_strike(adversary, striker, message, tick):
                continue
            strike = self._strike(adversary, message, tick)
            if strike is None:
                continue
            effect, message, own_delay = strike
            _note_effect(events, effect, adversary, message, own_delay)
            self._count(adversary, striker)
            self._consume(events, adversary, striker, effect)
            if effect == "withheld":
                return Interception(None, copies=copies)
            if effect == "repeated":
                copies += [(own_delay * n, message) for n in range(1, (adversary.copies or 0) + 1)]
            else:
                delay = max(delay, own_delay)
        return Interception(message, delay, copies)

    def _may_strike(self, adversary: Adversary, striker: list[int], message: Message, tick: int) -> bool:
        """Return True if the budget allows a strike now. Windows follow one another from the adversary's activation on."""
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
                happens = self._happens(budget.chance or 0, tick, message, adversary, 0)
                if happens and budget.kind == "correlated":
                    striker[5] = tick + (budget.burst_ticks or 1)
                return happens
        return True

    def _strike(self, adversary: Adversary, message: Message, tick: int) -> tuple[str, Message, int] | None:
        """The effect, the message after it, and the delay in ticks; None if the strike has no effect."""
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
                if self._happens(adversary.withhold or 0, tick, message, adversary, 1):
                    return "withheld", message, 0
                changed = (
                    _corrupted(message)
                    if self._happens(adversary.corrupt or 0, tick, message, adversary, 2)
                    else message
                )
                late = self._happens(adversary.delay or 0, tick, message, adversary, 3)
                if changed is not message or late:
                    return "corrupted" if changed is not message else "delayed", changed, (adversary.ticks or 0) * late
        return None

    def _happens(self, chance: int, tick: int, message: Message, adversary: Adversary, word: int) -> bool:
        return self._chances.happens(
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
    def _note(events: list[Event], adversary: Adversary, striker: list[int], kind: str, detail: str) -> None:
        left = adversary.budget.total - striker[1]
        events.append({"kind": kind, "by": adversary.id, "consumed": striker[1], "remaining": left, "detail": detail})


def _reaches(adversary: Adversary, message: Message) -> bool:
    return (
        (not adversary.senders or message.sender in adversary.senders)
        and (not adversary.receivers or message.receiver in adversary.receivers)
        and (not adversary.labels or message.label in adversary.labels)
    )


def _corrupted(message: Message) -> Message:
    payload = corrupt(message.payload)
    return message if payload is message.payload else attrs.evolve(message, payload=payload)


def _note_effect(events: list[Event], effect: str, adversary: Adversary, message: Message, delay: int) -> None:
    event = {"kind": effect, "by": adversary.id, **message_facts(message)}
    if effect == "repeated":
        event["copies"] = adversary.copies
    if delay:
        event["ticks"] = delay
    events.append(event)


def message_facts(message: Message) -> Event:
    """The facts of a message that its events hold."""
    return {"role": message.sender, "to": message.receiver, "label": message.label, "message": message.number}
