"""Sources of inputs for runs of the commands: the scenario's schedule, players, and a file."""

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
    """The inputs of a run, and its description for output.

    Attributes:
        inputs: maps a tick, and the state before it, to the inputs of the step that produces the tick.
        summarize: maps a snapshot to a few figures by name.
        sim: module:factory of the simulation; None for a registered world.
        file: the file of inputs; None if there is none.
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
    """Combine the scheduled inputs of a registered world with those of players and of a file.

    players: policies by player. file: see read_inputs. by_role: group the inputs by player, for a scenario that wraps
    the world. Raises ConfigError, UsageError, OSError.
    """
    if not world.name:
        return input_source_from_file(sim, file)
    scheduled = world.inputs(config)
    playing = {name: _player(world, config, name, policy) for name, policy in (players or {}).items()}
    from_file = read_inputs(file) if file is not None else {}

    def inputs_at(tick: int, state: State) -> list[Any]:
        sent = scheduled(tick) + [item for player in playing.values() for item in player(tick, state)]
        return sent + from_file.get(tick, [])

    def inputs_by_role_at(tick: int, state: State) -> dict[str, list[Any]]:
        return {"": scheduled(tick) + from_file.get(tick, [])} | {
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
    """Make the source for a user's simulation: the inputs of a file (see read_plain_inputs), None at all other ticks."""
    from_file = read_plain_inputs(file) if file is not None else {}
    return InputSource(lambda tick, _: from_file.get(tick), lambda _: {}, sim, file)


def _player(world: World, config: Config, name: str, policy: str) -> Callable[[int, State], list[Any]]:
    if world.play is None:
        raise UsageError(f"--player {name}={policy}: the world {world.name} has no players: leave --player out")
    try:
        return world.play(config, name, policy)
    except ConfigError as error:
        raise UsageError(f"--player {name}={policy}: {error}") from None


def read_players(arguments: Sequence[str]) -> dict[str, str]:
    """Read policies by player from arguments PLAYER=POLICY. Raises UsageError."""
    players: dict[str, str] = {}
    for argument in arguments:
        name, equals, policy = argument.partition("=")
        if not equals or not name or not policy:
            raise UsageError(f"--player {argument}: expected PLAYER=POLICY, such as caterpillar=greedy")
        if name in players:
            raise UsageError(f"--player {argument}: {name} has a policy already: name each player once")
        players[name] = policy
    return players


def read_inputs(path: Path) -> dict[int, list[Any]]:
    """Read inputs by tick from a file with one line of JSON per tick: {"tick": 5, "inputs": [...]}.

    Lines of one tick add up; empty lines are skipped. Raises OSError, and UsageError with the line number.
    """
    inputs: dict[int, list[Any]] = {}
    for number, tick, sent in _lines(_text_of(path), str(path), "[...]"):
        if not isinstance(sent, list):
            raise _unfit(str(path), number, "[...]")
        inputs.setdefault(tick, []).extend(sent)
    return inputs


def read_plain_inputs(path: Path) -> dict[int, Any]:
    """Read inputs by tick for simulations whose inputs are any JSON value. Lists of one tick add up.

    Raises OSError, and as parse_plain_inputs does.
    """
    return parse_plain_inputs(_text_of(path), str(path))


def parse_plain_inputs(text: str, source: str) -> dict[int, Any]:
    """The inputs by tick that lines of JSON state. source: where they are from, for messages.

    Raises UsageError with the line number, also if a tick has two lines that are not both lists.
    """
    inputs: dict[int, Any] = {}
    for number, tick, sent in _lines(text, source, "..."):
        if tick not in inputs:
            inputs[tick] = sent
        elif isinstance(sent, list) and isinstance(inputs[tick], list):
            inputs[tick] = inputs[tick] + sent
        else:
            raise UsageError(
                f"{source}, line {number}: tick {tick:,} has inputs already, and only lists add up: "
                "give one line for each tick"
            )
    return inputs


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _lines(text: str, source: str, form: str) -> Iterator[tuple[int, int, Any]]:
    """Yield line number, tick and inputs. source, form: where they are from and their form, for a message."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        match entry:
            case {"tick": int(tick), "inputs": sent, **rest} if tick > 0 and entry["tick"] is not True and not rest:
                yield number, tick, sent
            case _:
                raise _unfit(source, number, form)


def _unfit(source: str, number: int, form: str) -> UsageError:
    return UsageError(f'{source}, line {number}: expected {{"tick": 5, "inputs": {form}}} with a tick from 1 on')
