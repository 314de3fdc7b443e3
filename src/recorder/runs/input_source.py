"""What a run of the commands is fed with: the scenario's own inputs, players, and inputs from a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.exit_codes import UsageError
from sim.kernel.registry import Config, ConfigError, World
from sim.kernel.state import Snapshot, State


@attrs.frozen
class InputSource:
    """What a run is fed with, and how it is shown.

    Attributes:
        inputs: from a tick, and the state before it, to the inputs that lead to it.
        summarize: from a snapshot to a few figures by name.
        sim: module:factory, if that is where the simulation comes from.
        file: where inputs come from, if they come from a file.
        tick_limit_reason: see World.
    """

    inputs: Callable[[int, State], Any]
    summarize: Callable[[Snapshot], Mapping[str, str]]
    sim: str | None = None
    file: Path | None = None
    tick_limit_reason: str = "ticks"


def input_source_of(
    world: World,
    config: Config,
    *,
    sim: str | None = None,
    players: Mapping[str, str] | None = None,
    file: Path | None = None,
    by_role: bool = False,
) -> InputSource:
    """What the scenario of a registered world sends, and then players and a file.

    players: policies by player. file: see read_inputs. by_role: tell whose inputs they are, for a scenario that stands
    between the players and the world. Raises ConfigError, UsageError, OSError.
    """
    if not world.name:
        return input_source_from_file(sim, file)
    scheduled = world.inputs(config)
    playing = {name: _player(world, config, name, policy) for name, policy in (players or {}).items()}
    given = read_inputs(file) if file is not None else {}

    def inputs_at(tick: int, state: State) -> list[Any]:
        sent = scheduled(tick) + [one for player in playing.values() for one in player(tick, state)]
        return sent + given.get(tick, [])

    def inputs_by_role_at(tick: int, state: State) -> dict[str, list[Any]]:
        return {"": scheduled(tick) + given.get(tick, [])} | {
            name: player(tick, state) for name, player in playing.items()
        }

    return InputSource(
        inputs_by_role_at if by_role and playing else inputs_at,
        lambda snapshot: world.summarize(config, snapshot),
        sim,
        file,
        world.tick_limit_reason,
    )


def input_source_from_file(sim: str | None, file: Path | None) -> InputSource:
    """For a simulation of the user's: what a file gives at a tick, see read_plain_inputs; else None."""
    given = read_plain_inputs(file) if file is not None else {}
    return InputSource(lambda tick, _: given.get(tick), lambda _: {}, sim, file)


def _player(world: World, config: Config, name: str, policy: str) -> Callable[[int, State], list[Any]]:
    if world.play is None:
        raise UsageError(f"--player {name}={policy}: the world {world.name} has no players")
    try:
        return world.play(config, name, policy)
    except ConfigError as error:
        raise UsageError(f"--player {name}={policy}: {error}") from None


def read_players(given: Sequence[str]) -> dict[str, str]:
    """Policies by player, from PLAYER=POLICY. Raises UsageError."""
    players: dict[str, str] = {}
    for one in given:
        name, equals, policy = one.partition("=")
        if not equals or not name or not policy:
            raise UsageError(f"--player {one}: PLAYER=POLICY was expected, such as caterpillar=greedy")
        if name in players:
            raise UsageError(f"--player {one}: {name} has a policy already")
        players[name] = policy
    return players


def read_inputs(path: Path) -> dict[int, list[Any]]:
    """Inputs by the tick that they lead to, from a file with a line of JSON for each: {"tick": 5, "inputs": [...]}.

    Lines of one tick add up; empty lines are passed over. Raises UsageError, naming the line, and OSError.
    """
    inputs: dict[int, list[Any]] = {}
    for number, tick, sent in _lines(path, "[...]"):
        if not isinstance(sent, list):
            raise _unfit(path, number, "[...]")
        inputs.setdefault(tick, []).extend(sent)
    return inputs


def read_plain_inputs(path: Path) -> dict[int, Any]:
    """Likewise for simulations that take anything else: a number, a text, an object. Lists of one tick add up.

    Raises UsageError, naming the line, also for a tick that has two lines which are not lists, and OSError.
    """
    inputs: dict[int, Any] = {}
    for number, tick, sent in _lines(path, "..."):
        if tick not in inputs:
            inputs[tick] = sent
        elif isinstance(sent, list) and isinstance(inputs[tick], list):
            inputs[tick] = inputs[tick] + sent
        else:
            raise UsageError(f"{path}, line {number}: tick {tick:,} has inputs already, and only lists add up")
    return inputs


def _lines(path: Path, form: str) -> Iterator[tuple[int, int, Any]]:
    """Number of the line, tick and inputs; form: of the inputs, for a message."""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        match found:
            case {"tick": int(tick), "inputs": sent, **rest} if tick > 0 and found["tick"] is not True and not rest:
                yield number, tick, sent
            case _:
                raise _unfit(path, number, form)


def _unfit(path: Path, number: int, form: str) -> UsageError:
    return UsageError(f'{path}, line {number}: {{"tick": 5, "inputs": {form}}} was expected, with a tick from 1 on')
