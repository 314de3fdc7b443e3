"""A second interpreter of choreographies, written from docs/choreography.md: it never projects anything.

It walks over the global type as plain data, notes the acts of each role, and then runs these plain lists: no merging,
no programs, no state. Choices must have a schedule, or the caller gives a list of picks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

ONE = 1 << 32
ACTS_MAX = 400  # An endless protocol is followed up to here.


class _Again(Exception):  # noqa: N818 - not an error
    pass


class _Over(Exception):  # noqa: N818
    pass


class _Enough(Exception):  # noqa: N818
    pass


class Acts:
    """The acts of each role, in order: ("send" | "choose" | "receive" | "offer", other role, label, carried).

    complete: True if the protocol ended before ACTS_MAX. picks_used: number of choices made.
    """

    def __init__(self, protocol: dict[str, Any], picks: Sequence[int] | None = None) -> None:
        self.roles = protocol["roles"]
        self.of: dict[str, list[tuple[str, str, str, dict[str, Any]]]] = {role: [] for role in self.roles}
        self.picks = picks
        self.made: dict[int, int] = {}
        self.picks_used = 0
        self.complete = True
        try:
            self._walk(protocol["steps"])
        except _Over:
            pass
        except _Enough:
            self.complete = False

    def _walk(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if "send" in step:
                self._act(step["from"], step["to"], step["send"], step, "send", "receive")
            elif "choice" in step:
                branch = self._pick(step)
                self._act(step["choice"], step["to"], branch["label"], branch, "choose", "offer")
                self._walk(branch.get("steps", []))
            elif "times" in step:
                for _ in range(step["times"]):
                    self._walk(step["steps"])
            elif "loop" in step:
                while True:
                    try:
                        self._walk(step["steps"])
                        break
                    except _Again as again:
                        if again.args[0] != step["loop"]:
                            raise
            elif "continue" in step:
                raise _Again(step["continue"])
            else:
                raise _Over

    def _act(self, sender: str, receiver: str, label: str, carried: dict[str, Any], out: str, into: str) -> None:
        self.of[sender].append((out, receiver, label, carried))
        self.of[receiver].append((into, sender, label, carried))
        if sum(map(len, self.of.values())) > ACTS_MAX:
            raise _Enough

    def _pick(self, step: dict[str, Any]) -> dict[str, Any]:
        branches = step["branches"]
        self.picks_used += 1
        if self.picks is not None:
            return branches[self.picks[self.picks_used - 1] if self.picks_used <= len(self.picks) else 0]
        count = self.made.get(id(step), 0)
        self.made[id(step)] = count + 1
        label = step["schedule"][count % len(step["schedule"])]
        return next(branch for branch in branches if branch["label"] == label)


def all_paths(protocol: dict[str, Any]) -> Iterator[Acts]:
    """Yield the acts of the protocol for each combination of choices."""
    open_picks: list[list[int]] = [[]]
    while open_picks:
        picks = open_picks.pop()
        acts = Acts(protocol, picks)
        if acts.picks_used > len(picks):
            open_picks.extend([*picks, pick] for pick in range(3) if _exists(protocol, [*picks, pick]))
        else:
            yield acts


def _exists(protocol: dict[str, Any], picks: list[int]) -> bool:
    try:
        Acts(protocol, picks)
    except IndexError:
        return False
    return True


class NaiveRun:
    """Lists of acts, run with bounded queues; the only memory is register 1, the counters, and the initial registers."""

    def __init__(self, acts: Acts, capacity: int, registers: dict[str, list[int]]) -> None:
        self.acts, self.capacity = acts, capacity
        self.done = dict.fromkeys(acts.roles, 0)
        self.opened: set[str] = set()
        self.counted = dict.fromkeys(acts.roles, 0)
        self.registers = registers
        self.queues: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        self.sent = 0

    def exhausted(self) -> bool:
        """Return True if a role has done all acts that were followed of an endless protocol."""
        return not self.acts.complete and any(self.done[role] >= len(self.acts.of[role]) for role in self.acts.roles)

    def round(self, order: list[str]) -> list[dict[str, Any]]:
        """Run a round and return its events."""
        events: list[dict[str, Any]] = []
        for role in order:
            if self.done[role] < len(self.acts.of[role]):
                self._advance(role, events)
        return events

    def _advance(self, role: str, events: list[dict[str, Any]]) -> None:
        if role not in self.opened:
            self.opened.add(role)
            events.append({"kind": "opened", "role": role, "session": 0})
        kind, other, label, carried = self.acts.of[role][self.done[role]]
        if kind in ("send", "choose"):
            queue = self.queues.setdefault((role, other), [])
            if len(queue) == self.capacity:
                return
            payload = self._make(role, carried)
            queue.append((self.sent, payload))
            done = {"kind": "sent" if kind == "send" else "chose", "role": role, "session": 0, "to": other}
            events.append({**done, "label": label, "message": self.sent, "payload": payload})
            self.sent += 1
        else:
            queue = self.queues.setdefault((other, role), [])
            if not queue:
                return
            number, payload = queue.pop(0)
            self._keep(role, carried, payload)
            done = {"kind": "received" if kind == "receive" else "offered", "role": role, "session": 0, "from": other}
            events.append({**done, "label": label, "message": number, "payload": payload})
        self.done[role] += 1
        if self.done[role] == len(self.acts.of[role]) and self.acts.complete:
            events.append({"kind": "halted", "role": role, "session": 0})
            if all(self.done[each] == len(self.acts.of[each]) for each in self.acts.roles):
                events.append({"kind": "closed", "role": role, "session": 0})

    def _make(self, role: str, carried: dict[str, Any]) -> Any:
        payload = self._value(role, carried)
        if _uses_counter(carried):
            self.counted[role] += 1
        return payload

    def _value(self, role: str, carried: dict[str, Any]) -> Any:
        registers = self.registers[role]
        kind, constant = carried.get("payload", "unit"), carried.get("constant")
        if kind == "unit":
            return None
        if kind == "pair":
            return {"pair": [self._value(role, carried["first"]), self._value(role, carried["second"])]}
        if kind == "vector":
            return {"vector": [registers[register] for register in carried.get("registers", range(2, len(registers)))]}
        if kind == "fixed":
            return {"fixed": registers[carried.get("register", 2)] if constant is None else constant * ONE}
        if constant is not None:
            return constant
        if kind == "boolean":
            return registers[carried["register"]] > 0
        return registers[carried["register"]] // ONE if "register" in carried else self.counted[role]

    def _keep(self, role: str, carried: dict[str, Any], payload: Any) -> None:
        numbers = _numbers(payload)
        if "into" in carried:
            self.registers[role][carried["into"] : carried["into"] + len(numbers)] = numbers
        elif numbers:
            self.registers[role][1] = numbers[0]


def _uses_counter(carried: dict[str, Any]) -> bool:
    if carried.get("payload") == "pair":
        return _uses_counter(carried["first"]) or _uses_counter(carried["second"])
    return carried.get("payload") == "number" and "constant" not in carried and "register" not in carried


def _numbers(payload: Any) -> list[int]:
    if isinstance(payload, bool):
        return [ONE * payload]
    if isinstance(payload, int):
        return [min(max(payload * ONE, -(1 << 63)), (1 << 63) - 1)]
    if isinstance(payload, dict):
        inner = payload.get("pair")
        return [n for half in inner for n in _numbers(half)] if inner else payload.get("vector") or [payload["fixed"]]
    return []


def most_waiting(acts: Acts) -> int:
    """Return the most messages that can wait in one queue, by a search over all orders of steps."""
    seen = {(0,) * len(acts.roles)}
    open_places = list(seen)
    most = 0
    while open_places:
        places = open_places.pop()
        counts: dict[tuple[str, str], int] = {}
        for role, place in zip(acts.roles, places, strict=True):
            for kind, other, *_ in acts.of[role][:place]:
                out = kind in ("send", "choose")
                key = (role, other) if out else (other, role)
                counts[key] = counts.get(key, 0) + (1 if out else -1)
        most = max(most, *counts.values(), 0)
        for index, role in enumerate(acts.roles):
            if places[index] < len(acts.of[role]):
                kind, other, *_ = acts.of[role][places[index]]
                after = (*places[:index], places[index] + 1, *places[index + 1 :])
                if (kind in ("send", "choose") or counts.get((other, role), 0) > 0) and after not in seen:
                    seen.add(after)
                    open_places.append(after)
    return most
