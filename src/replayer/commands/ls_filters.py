"""The filters of ``replay ls``, as options of the command line."""

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
    """Filters of runs. A run is listed if it passes all of them.

    Attributes:
        scenario, world, seed, player, won, reason, quality, status, min_ticks, where: see their help.
    """

    scenario: Annotated[str | None, Parameter(help="Only runs of this scenario.")] = None
    world: Annotated[str | None, Parameter(help="Only runs of this world.")] = None
    seed: Annotated[
        str | None, Parameter(help="Only runs with these seeds: a range such as 0..9, or numbers separated by commas.")
    ] = None
    player: Annotated[
        list[str] | None,
        Parameter(negative="", help="NAME or NAME=POLICY: only runs in which this player takes part. May be repeated."),
    ] = None
    won: Annotated[str | None, Parameter(help="Only runs that this player won.")] = None
    reason: Annotated[str | None, Parameter(help="Only runs that ended for this reason.")] = None
    quality: Annotated[
        str | None,
        Parameter(help="Only runs of these tiers, separated by commas: unrated, idle, random, scripted, human."),
    ] = None
    status: Annotated[
        str | None,
        Parameter(
            help="Only tapes in these states, separated by commas: 'not checked', incomplete, corrupt, unreadable."
        ),
    ] = None
    min_ticks: Annotated[NotNegative | None, Parameter(help="Only runs of at least N ticks.")] = None
    where: Annotated[
        str | None,
        Parameter(
            help='Only runs for which this SQL condition holds, such as "ticks < 500 and seed % 2 = 0". docs/generate.md '
            "describes the tables runs, players, outcomes and quality."
        ),
    ] = None

    def selection(self) -> Selection:
        """Return the filters as a selection. Raises UsageError, ConfigError."""
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
    if not all(isinstance(value, int) for value in values):
        raise UsageError(f"--seed {text}: expected a range such as 0..9, or integers separated by commas")
    return frozenset(values)


def _players(arguments: Sequence[str]) -> dict[str, str | None]:
    players: dict[str, str | None] = {}
    for argument in arguments:
        name, equals, policy = argument.partition("=")
        if not name or (equals and not policy):
            raise UsageError(f"--player {argument}: expected NAME or NAME=POLICY, such as caterpillar=greedy")
        if name in players:
            raise UsageError(f"--player {argument}: {name} was given already: name each player once")
        players[name] = policy or None
    return players


def _among(option: str, argument: str | None, known: Sequence[str]) -> Collection[str] | None:
    if argument is None:
        return None
    unknown = next((name for name in argument.split(",") if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{option} {argument}: expected some of {', '.join(known)}, got {unknown!r}")
    return argument.split(",")
