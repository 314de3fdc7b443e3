"""What the model knows of one tape: each tick's truth, what was acknowledged, and what damage may have taken."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from whole_model.counted_worlds import RULES, Plain, Rules
from whole_model.damage_account import DamageAccount


class BrokenPromiseError(AssertionError):
    """The library did what it must not do."""


def ensure(condition: object, what: str) -> None:
    """Raise BrokenPromiseError unless the condition holds."""
    if not condition:
        raise BrokenPromiseError(what)


@attrs.define(eq=False)
class Run:
    """One tape and the run on it.

    Attributes:
        kind: name of its simulation.
        path: of the tape.
        options: of the recording.
        states, inputs, hashes: by tick. An attempted tick that may be on the tape is included.
        acknowledged: the last tick that was acknowledged as recorded: it must be readable.
        is_lossy: the recording said that it dropped ticks.
        sealed: it was closed. may_be_sealed: closing it failed, possibly after the seal.
        gone: its files were removed.
        account: of its damage; None while there is none.
        harmed: all damage so far: file, first byte, end. A resume ends an account, and a block is still as damaged.
        spared: the ticks that damage has left; None if there was none. All from safe_from on were recorded after it.
        journal_is_safe: False once the recording said that it keeps no journal.
        was_rewritten: a file was begun again after a sync that failed.
        resumes: how often it was resumed.
        successor: the run that continues in the same file from an earlier tick.
    """

    kind: str
    path: Path
    options: dict[str, Any]
    states: list[Plain] = attrs.field(factory=list)
    inputs: list[int | None] = attrs.field(factory=list)
    hashes: list[int | None] = attrs.field(factory=list)
    acknowledged: int = -1
    is_lossy: bool = False
    sealed: bool = False
    may_be_sealed: bool = False
    gone: bool = False
    account: DamageAccount | None = None
    harmed: list[tuple[str, int, int]] = attrs.field(factory=list)
    spared: frozenset[int] | None = None
    safe_from: int = 0
    journal_is_safe: bool = True
    was_rewritten: bool = False
    resumes: int = 0
    successor: Run | None = None

    @property
    def rules(self) -> Rules:
        """Of its simulation."""
        return RULES[self.kind]

    @property
    def last(self) -> int:
        """The last tick that may be on the tape."""
        return len(self.states) - 1

    @property
    def is_ring(self) -> bool:
        """True if it keeps its last ticks only."""
        return self.options.get("keep") is not None

    @property
    def is_damaged(self) -> bool:
        """True if something was taken from it."""
        return self.spared is not None

    def first_required(self, last: int) -> int:
        """The last tick that may be the first one for a reader that read the files when so many ticks were there."""
        return max(0, last - self.options["keep"]) if self.is_ring else 0

    def is_required(self, tick: int, acknowledged: int, last: int) -> bool:
        """Whether a tick must be readable by a reader of such a moment."""
        if self.is_lossy or not self.first_required(last) <= tick <= acknowledged:
            return False
        return self.spared is None or tick >= self.safe_from or tick in self.spared

    def hit(self, files: Iterable[Path], file: Path, start: int, end: int) -> None:
        """Note that bytes of a file will be changed or cut off. files: all of the tape, as they are before."""
        if self.account is None:
            self.account = DamageAccount(files)
            self.was_rewritten |= self.account.repeats_blocks
            for harm in self.harmed:
                self.account.hit(*harm)
        self.harmed.append((file.name, start, end))
        before = {tick for tick in range(self.last + 1) if self.is_required(tick, self.acknowledged, self.last)}
        self.account.hit(file.name, start, end)
        left = set() if self.was_rewritten else self.account.readable()
        self.spared, self.safe_from = frozenset(before & left), self.last + 1

    def continued_from(self, tick: int) -> Run:
        """The run after a resume at this tick; a full keyframe of it follows. Readers find it when they refresh."""
        run = self
        if tick < self.last:
            run = self.successor = self.branch(self.path)
            self.spared, self.safe_from = frozenset(), self.last + 1  # What follows the tick is written again.
        del run.states[tick + 1 :], run.inputs[tick + 1 :], run.hashes[tick + 1 :]
        run.acknowledged, run.sealed, run.may_be_sealed, run.account = tick, False, False, None
        run.safe_from = min(run.safe_from, tick)
        run.journal_is_safe = True
        run.resumes += 1
        return run

    def add(self, inputs: int) -> None:
        """Note an attempted tick."""
        self.states.append(self.rules.advance(self.states[-1], inputs))
        self.inputs.append(inputs)
        self.hashes.append(None)

    def drop_attempt(self) -> None:
        """The last tick was never reached."""
        del self.states[-1], self.inputs[-1], self.hashes[-1]

    def branch(self, path: Path) -> Run:
        """The same run in another file."""
        return attrs.evolve(
            self,
            path=path,
            states=list(self.states),
            inputs=list(self.inputs),
            hashes=list(self.hashes),
            harmed=list(self.harmed),
            gone=False,
        )

    def ensure_state(self, tick: int, state: Any, state_hash: int | None = None) -> None:
        """Compare a state that was read with the truth."""
        ensure(0 <= tick <= self.last, f"tick {tick} was read, the run has {self.last}")
        found = self.rules.read(state)
        ensure(found == self.states[tick], f"tick {tick}: {found} was read, {self.states[tick]} is right")
        actual = state.hash()
        ensure(self.hashes[tick] in (None, actual), f"tick {tick}: hash {actual:x}, the live run had another")
        ensure(state_hash in (None, actual), f"tick {tick}: hash {actual:x}, the reader reported another")

    def ensure_frame(self, tick: int, frame: Any) -> None:
        """Compare a frame that was read with the truth."""
        ensure(0 < tick <= self.last and frame.tick == tick, f"frame {frame.tick} in place of {tick} of {self.last}")
        ensure(frame.inputs == self.inputs[tick], f"tick {tick}: inputs {frame.inputs}, not {self.inputs[tick]}")
        if frame.state_hash is not None and self.hashes[tick] is not None:
            ensure(frame.state_hash == self.hashes[tick], f"frame {tick} has the hash {frame.state_hash:x}")
