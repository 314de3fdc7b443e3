"""Record games of python-chess, which has no adapter, in the save/load form.

The state of a board is its list of moves. The position alone is not enough: repetitions would be lost after a load. The
inputs are numbers. Each picks one of the legal moves, or begins a new game if the game is over.

Needs chess. Run it in an empty folder: python record_chess.py
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import chess

import recorder
import replayer


class Game:
    """A series of games."""

    def __init__(self) -> None:
        self.board, self.games = chess.Board(), 1

    def step(self, inputs: Any) -> list[Any]:
        """Play one move. Returns the position, and True if it occurred three times."""
        if self.board.is_game_over():
            self.board.reset()
            self.games += 1
        else:
            moves = list(self.board.legal_moves)
            self.board.push(moves[int(inputs or 0) % len(moves)])
        return [self.board.fen(), self.board.is_repetition(3)]

    def save(self) -> dict[str, bytes]:
        """Return the moves of this game, and its number."""
        moves = " ".join(move.uci() for move in self.board.move_stack)
        return {"moves": moves.encode(), "games": b"%d" % self.games}

    def load(self, saved: dict[str, bytes]) -> None:
        """Play the saved moves again."""
        self.board.reset()
        for move in saved["moves"].decode().split():
            self.board.push_uci(move)
        self.games = int(saved["games"])


def random_inputs(seed: int) -> Any:
    """Return a function that gives the inputs of the next step, drawn by a seed."""
    draws = random.Random(seed)  # noqa: S311 - inputs, not secrets
    return lambda: draws.randrange(1 << 16)


def main() -> None:
    """Record 2,000 moves and go back to one of them."""
    with tempfile.TemporaryDirectory() as folder:
        path, play = Path(folder) / "chess.tape", random_inputs(1)
        with recorder.Recorder(path, Game()) as tape:
            for _ in range(2000):
                tape.step(play())
        with replayer.open(path, world=Game) as run:
            run.seek(1234)
            print(f"move 1234, in game {run.simulation.games}:\n{run.simulation.board}")
            print(
                f"all {len(run):,} states are the same: {run.verify().ok}; {path.stat().st_size / 2000:.0f} bytes a step"
            )


if __name__ == "__main__":
    main()
