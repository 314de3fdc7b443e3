"""What an adapter has found in a simulation: for each of its parts what is captured and what is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from sim.kernel.exactness import Level

NAMES_SHOWN = 6  # Of one part in one line; the whole lists are on the tape.


@attrs.frozen
class Part:
    """One layer: a wrapper, the innermost environment, an object inside of it.

    Attributes:
        name: as the fields of the state are named after it.
        captured: attributes that are saved and loaded.
        kept: attributes that are left as they were when the simulation was made: configuration, functions, rendering.
        clocks: attributes that hold times of the day, which no replay can give again.
        unknown: attributes that are not saved although a step may read them, with their types.
    """

    name: str
    captured: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    unknown: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def verdict(self) -> str:
        """``captured``, ``stateless`` or ``unknown``."""
        if self.unknown:
            return "unknown"
        return "captured" if self.captured else "stateless"


@attrs.frozen
class Report:
    """What is captured of a simulation.

    Attributes:
        adapter: its name.
        subject: what is recorded, in a few words.
        level: what is declared.
        parts: from the outermost to the innermost.
        notes: what else a user should know, a sentence each.
    """

    adapter: str
    subject: str
    level: Level
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    def line(self) -> str:
        """One line: what is captured and what is not."""
        by_verdict: dict[str, list[str]] = {"captured": [], "stateless": [], "unknown": []}
        for part in self.parts:
            by_verdict[part.verdict].append(part.name)
        said = [f"{_several(names)} {verdict}" for verdict, names in by_verdict.items() if names]
        missing = [f"{part.name}.{name} ({kind})" for part in self.parts for name, kind in part.unknown.items()]
        missing += [f"{part.name}.{name} (a time)" for part in self.parts for name in part.clocks]
        not_captured = f"not captured: {_several(missing)}" if missing else "nothing is left out"
        if self.level is Level.INPUTS_ONLY:
            not_captured = "its state is not saved: a seek repeats the inputs since the last reset"
        return "; ".join([f"{self.subject}: {self.level.value}: {', '.join(said)}", not_captured, *self.notes])

    def to_plain(self) -> dict[str, Any]:
        """As it is written to a tape."""
        return {
            "adapter": self.adapter,
            "subject": self.subject,
            "level": self.level.value,
            "parts": [
                {
                    "name": part.name,
                    "verdict": part.verdict,
                    "captured": list(part.captured),
                    "kept": list(part.kept),
                    "clocks": list(part.clocks),
                    "unknown": dict(part.unknown),
                }
                for part in self.parts
            ],
            "notes": list(self.notes),
        }


def _several(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return ", ".join(shown[:NAMES_SHOWN]) + more
