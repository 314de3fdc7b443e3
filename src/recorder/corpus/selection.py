"""Which runs of a corpus are meant: by scenario, seed, players, outcome, quality; or by a condition in SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs

from recorder.corpus.database import create_tables, put_runs
from recorder.corpus.run import Run

SQL_STEPS_MAX = 20_000_000  # Of SQLite's machine, about a second: a condition that needs more has got out of hand.
SQL_VALUE_BYTES_MAX = 1 << 20  # Of one value, so that no condition can fill the memory.
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


class ConditionError(ValueError):
    """A condition in SQL is none, or asks for too much."""


@attrs.frozen(kw_only=True)
class Selection:
    """What runs must be to be meant; whatever is None may be anything.

    Attributes:
        scenario, world: by name.
        seeds: one of them.
        players: these take part; with these policies, where one is given.
        won: the player who won.
        reason: why the run ended.
        quality: one of these tiers.
        status: one of these.
        min_ticks: the last tick at least.
        where: a condition in SQL on a row of the table runs; it may ask other tables.
    """

    scenario: str | None = None
    world: str | None = None
    seeds: Collection[int] | None = None
    players: Mapping[str, str | None] = attrs.field(factory=dict)
    won: str | None = None
    reason: str | None = None
    quality: Collection[str] | None = None
    status: Collection[str] | None = None
    min_ticks: int | None = None
    where: str | None = None

    @property
    def needs_examination(self) -> bool:
        """Whether a glance at a tape does not tell whether it is meant."""
        return self.won is not None or self.quality is not None or self.where is not None

    def keeps(self, run: Run) -> bool:
        """Whether a run is meant, as far as the condition in SQL does not matter."""
        plain = (
            (self.scenario, run.scenario),
            (self.world, run.world),
            (self.reason, run.reason),
            (self.won, run.winner),
        )
        among = (
            (self.seeds, run.seed),
            (self.status, run.status),
            (self.quality, run.quality.tier if run.quality is not None else None),
        )
        return (
            all(wanted is None or wanted == found for wanted, found in plain)
            and all(wanted is None or found in wanted for wanted, found in among)
            and all(self._takes_part(run, name, policy) for name, policy in self.players.items())
            and (self.min_ticks is None or (run.ticks is not None and run.ticks >= self.min_ticks))
        )

    @staticmethod
    def _takes_part(run: Run, name: str, policy: str | None) -> bool:
        return any(one.player == name and policy in {None, one.policy} for one in run.players)

    def choose(self, runs: Sequence[Run]) -> list[Run]:
        """Those that are meant, in their order. Raises ConditionError."""
        kept = [run for run in runs if self.keeps(run)]
        if self.where is None:
            return kept
        names = _tapes_where(kept, self.where)
        return [run for run in kept if run.tape in names]


def _tapes_where(runs: Sequence[Run], condition: str) -> set[str]:
    """The tapes of which the condition is true.

    It is asked of a copy in memory, on a connection that may do nothing but read its tables.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        create_tables(connection)
        put_runs(connection, runs)
        connection.commit()
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, SQL_VALUE_BYTES_MAX)
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(lambda: 1, SQL_STEPS_MAX)
        try:
            return {row[0] for row in connection.execute(f"SELECT tape FROM runs WHERE ({condition}\n)")}  # noqa: S608 - see above
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            said = "it takes too long" if str(error) == "interrupted" else str(error)
            raise ConditionError(f"{condition}: {said}") from None


def _authorize(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
