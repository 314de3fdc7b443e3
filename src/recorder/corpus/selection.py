"""Select runs of a corpus: by scenario, seed, players, outcome, quality; or by a condition in SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs

from recorder.corpus.database import create_tables, put_runs
from recorder.corpus.run import Run

SQL_STEPS_MAX = (
    20_000_000  # Steps of SQLite's virtual machine, about a second: a condition that needs more is a mistake.
)
SQL_VALUE_BYTES_MAX = 1 << 20  # Of one value: no condition can exhaust the memory.
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


class ConditionError(ValueError):
    """A condition is not valid SQL, or needs too much time or memory."""


@attrs.frozen(kw_only=True)
class Selection:
    """The conditions of a selection; None imposes no condition.

    Attributes:
        scenario, world: the name.
        seeds: allowed seeds.
        players: players that take part, each with its policy; None allows any policy.
        won: the player who won.
        reason: why the run ended.
        quality: allowed tiers.
        status: allowed statuses.
        min_ticks: the least last tick.
        where: a condition in SQL on a row of the table runs; it may query other tables.
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
        """True if the headers of a tape are not enough to decide."""
        return self.won is not None or self.quality is not None or self.where is not None

    def keeps(self, run: Run) -> bool:
        """Return True if a run meets all conditions except the one in SQL."""
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
            all(required is None or required == actual for required, actual in plain)
            and all(allowed is None or actual in allowed for allowed, actual in among)
            and all(self._takes_part(run, name, policy) for name, policy in self.players.items())
            and (self.min_ticks is None or (run.ticks is not None and run.ticks >= self.min_ticks))
        )

    @staticmethod
    def _takes_part(run: Run, name: str, policy: str | None) -> bool:
        return any(player.player == name and policy in {None, player.policy} for player in run.players)

    def choose(self, runs: Sequence[Run]) -> list[Run]:
        """Return the selected runs, in their order. Raises ConditionError."""
        kept = [run for run in runs if self.keeps(run)]
        if self.where is None:
            return kept
        names = _tapes_where(kept, self.where)
        return [run for run in kept if run.tape in names]


def _tapes_where(runs: Sequence[Run], condition: str) -> set[str]:
    """Return the tapes for which the condition is true.

    The query runs on a copy in memory, on a connection that may only read its tables.
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
            problem = "it takes too long" if str(error) == "interrupted" else str(error)
            raise ConditionError(f"{condition}: {problem}") from None


def _authorize(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
