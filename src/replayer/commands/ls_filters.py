"""Which runs ``replay ls`` is asked for: its filters, as options of a command."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import NotNegative
from recorder.corpus.run import STATUSES, TIERS
from recorder.corpus.selection import Selection
from recorder.exit_codes import UsageError
from recorder.scenarios.sweep import read_axis


@attrs.frozen(kw_only=True)
class RunFilters:
    """Filters of runs; all that are given must fit.

    Attributes:
        scenario, world, seed, player, won, reason, quality, status, min_ticks, where: see their help.
    """

    scenario: Annotated[str | None, Parameter(help="Only runs of this scenario.")] = None
    world: Annotated[str | None, Parameter(help="Only runs of this world.")] = None
    seed: Annotated[
        str | None, Parameter(help="Only runs with these seeds: a range such as 0..9, or numbers with commas.")
    ] = None
    player: Annotated[
        list[str] | None,
        Parameter(negative="", help="NAME or NAME=POLICY: only runs in which this player takes part; may be repeated."),
    ] = None
    won: Annotated[str | None, Parameter(help="Only runs that this player won.")] = None
    reason: Annotated[str | None, Parameter(help="Only runs that ended for this reason.")] = None
    quality: Annotated[
        str | None, Parameter(help="Only runs of these tiers: unrated, idle, random, scripted, human; with commas.")
    ] = None
    status: Annotated[
        str | None, Parameter(help="Only tapes that are intact, incomplete, corrupt, unreadable; with commas.")
    ] = None
    min_ticks: Annotated[NotNegative | None, Parameter(help="Only runs that came so far.")] = None
    where: Annotated[
        str | None,
        Parameter(
            help='Only runs for which this condition in SQL holds, such as "ticks < 500 and seed % 2 = 0"; the tables '
            "runs, players, outcomes and quality are described in docs/generate.md."
        ),
    ] = None

    def selection(self) -> Selection:
        """What runs must be. Raises UsageError, ConfigError."""
        return Selection(
            scenario=self.scenario,
            world=self.world,
            seeds=None if self.seed is None else _seeds(self.seed),
            players=_players(self.player or ()),
            won=self.won,
            reason=self.reason,
            quality=_among("--quality", self.quality, TIERS),
            status=_among("--status", self.status, STATUSES),
            min_ticks=self.min_ticks,
            where=self.where,
        )


def _seeds(text: str) -> Collection[int]:
    values = read_axis(f"seed={text}").values
    if not all(isinstance(one, int) for one in values):
        raise UsageError(f"--seed {text}: a range such as 0..9, or whole numbers with commas, were expected")
    return frozenset(values)


def _players(given: Sequence[str]) -> dict[str, str | None]:
    players: dict[str, str | None] = {}
    for one in given:
        name, equals, policy = one.partition("=")
        if not name or (equals and not policy):
            raise UsageError(f"--player {one}: NAME or NAME=POLICY was expected, such as caterpillar=greedy")
        if name in players:
            raise UsageError(f"--player {one}: {name} was asked for already")
        players[name] = policy or None
    return players


def _among(option: str, given: str | None, known: Sequence[str]) -> Collection[str] | None:
    if given is None:
        return None
    wrong = next((one for one in given.split(",") if one not in known), None)
    if wrong is not None:
        raise UsageError(f"{option} {given}: some of {', '.join(known)} were expected")
    return given.split(",")
