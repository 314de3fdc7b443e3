"""Two players in lockstep over TCP: each plays the same game, sends only its orders, and compares a hash of every turn.

Run it in an empty folder:

    python lockstep_tcp.py               # both players in processes of this machine; both record a tape
    python lockstep_tcp.py --cheat 60    # from turn 60 on the guest's game differs: both players notice it at once

Between two machines: `python lockstep_tcp.py host 0.0.0.0:7000` here, `python lockstep_tcp.py guest 192.0.2.7:7000` there.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import socket
import sys
from typing import Any

import recorder

SIZE, TURNS = 20, 200
ROLES = ("host", "guest")
CHEAT_FROM: int | None = None  # Set in the process of one player, this is a game that differs from the other's.


class Arena:
    """Two robots gather stones. New stones appear by chance, so both players need the same random numbers."""

    def __init__(self, seed: int = 3) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a game
        self.robots = {"host": [2, 2], "guest": [SIZE - 3, SIZE - 3]}
        self.stones = [self.place() for _ in range(8)]
        self.score = dict.fromkeys(self.robots, 0)
        self.now = 0

    def place(self) -> list[int]:
        """Return a cell by chance."""
        return [self.random.randrange(SIZE), self.random.randrange(SIZE)]

    def turn(self, moves: dict[str, list[int]]) -> None:
        """Play one turn. moves: a step of each robot, as [dx, dy]."""
        self.now += 1
        for name in ROLES:
            robot = self.robots[name]
            for axis, step in enumerate(moves[name]):
                robot[axis] = min(SIZE - 1, max(0, robot[axis] + step))
            if robot in self.stones:
                self.stones[self.stones.index(robot)] = self.place()
                self.score[name] += 1
        if CHEAT_FROM is not None and self.now >= CHEAT_FROM:
            self.score["guest"] += 1


def choose(arena: Arena, role: str) -> list[int]:
    """Return a step to the nearest stone: what a player does."""
    x, y = arena.robots[role]
    stone = min(arena.stones, key=lambda stone: (abs(stone[0] - x) + abs(stone[1] - y), stone))
    return [(stone[0] > x) - (stone[0] < x), (stone[1] > y) - (stone[1] < y)]


def play(role: str, connection: socket.socket) -> str | None:
    """Play all turns with the peer, and record them. Return the desync that was found, if any."""
    other = ROLES[role == "host"]
    arena = recorder.record(Arena(), f"{role}.tape", step="turn", quiet=True)
    tape = recorder.tape_of(arena)
    # Two files: one that is open for both drops what it has read ahead when something is written.
    sent, received = connection.makefile("w", encoding="utf-8"), connection.makefile("r", encoding="utf-8")
    with tape:
        for _ in range(TURNS):
            mine: dict[str, Any] = {
                "move": choose(arena, role),
                "tick": tape.tick,
                "hash": tape.simulation.state.hash(),
            }
            sent.write(json.dumps(mine) + "\n")
            sent.flush()
            line = received.readline()
            if not line:
                return f"{role}: the {other} has left"
            theirs = json.loads(line)
            try:
                tape.report_hash(theirs["tick"], theirs["hash"])  # Raises before the next turn, if they differ.
            except recorder.PeerDesyncError as desync:
                return f"{role}: {desync}"
            moves = {role: mine["move"], other: theirs["move"]}
            arena.turn({name: moves[name] for name in ROLES})  # In one order, so that both tapes have equal inputs.
    print(f"{role}: {TURNS} turns, score {arena.score}")
    return None


def host(address: tuple[str, int], ready: Any = None) -> None:
    """Wait for the guest and play. ready: a queue for the port that was chosen."""
    with socket.create_server(address) as server:
        if ready is not None:
            ready.put(server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            sys.exit(play("host", connection))


def guest(address: tuple[str, int], cheat: int | None = None) -> None:
    """Go to the host and play. cheat: the turn from which on this player's game differs."""
    global CHEAT_FROM  # noqa: PLW0603 - the planted fault
    CHEAT_FROM = cheat
    with socket.create_connection(address) as connection:
        sys.exit(play("guest", connection))


def play_both(cheat: int | None) -> int:
    """Play with two processes over the loopback interface. Return 0 if both came to the end."""
    context = multiprocessing.get_context("spawn")  # As on two machines: nothing is shared but the socket.
    ready = context.Queue()
    players = [context.Process(target=host, args=(("127.0.0.1", 0), ready))]
    players[0].start()
    players.append(context.Process(target=guest, args=(("127.0.0.1", ready.get()), cheat)))
    players[1].start()
    for player in players:
        player.join()
    return max(int(player.exitcode or 0) for player in players)


def main(arguments: list[str]) -> int:
    """Play as host, as guest, or both."""
    if arguments[:1] in (["host"], ["guest"]):
        name, _, port = arguments[1].rpartition(":")
        {"host": host, "guest": guest}[arguments[0]]((name, int(port)))
    return play_both(int(arguments[1]) if arguments[:1] == ["--cheat"] else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
