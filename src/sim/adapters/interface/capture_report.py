"""The report of an adapter on a simulation: for each of its parts, the captured attributes and the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from sim.kernel.exactness import Level

KEPT_SHOWN = 3  # More are counted.
NAMES_SHOWN = 6  # Of one part in one line; the complete lists are on the tape.


@attrs.frozen
class Part:
    """One layer: a wrapper, the innermost environment, or an object inside it.

    Attributes:
        name: the prefix of the fields of the state that belong to it.
        captured: attributes that are saved and loaded.
        kept: attributes that stay as they were when the simulation was made: configuration, functions, rendering.
        clocks: attributes that hold times of the day, which a replay cannot reproduce.
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
    """The captured parts of a simulation.

    Attributes:
        adapter: its name.
        subject: the recorded object, in a few words.
        level: the declared level of exactness.
        parts: from the outermost to the innermost.
        notes: further remarks for the user, a sentence each.
        ignored: names of attributes that the user has left out.
    """

    adapter: str
    subject: str
    level: Level
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def line(self, *, is_tested: bool, is_whole: bool = True, found: str = "") -> str:
        """The report as one line: the level, as far as it was tested, the captured parts and the missing attributes.

        is_tested: no trial has compared a restored simulation with a live one if this is False. is_whole: False if a trial
        saw something that is not saved: the order of a set, or what steps change outside of the captured objects. found:
        the differences that a trial found, in a few words.
        """
        level = self.level.value
        if found:
            level += f" by what it captures, but {found}"
        elif not is_tested:
            level += ", untested"
        elif self.level is not Level.INPUTS_ONLY:  # The level is declared; the trial has seen some steps of it.
            level += " in the steps tried"
        return f"{self.subject}: {level}: {self.captured_line(is_whole=is_whole)}"

    def captured_line(self, *, is_whole: bool = True) -> str:
        """The captured parts and the missing attributes, without a level. is_whole: see line."""
        by_verdict: dict[str, list[str]] = {"captured": [], "stateless": [], "unknown": []}
        for part in self.parts:
            by_verdict[part.verdict].append(part.name)
        verdicts = [f"{_outermost(names)} {verdict}" for verdict, names in by_verdict.items() if names]
        if self.level is Level.INPUTS_ONLY:
            not_captured = ["its state is not saved: a seek repeats the inputs since the last reset"]
            names = [f"{part.name}.{name}" for part in self.parts for name in part.unknown]
            not_captured[0] += f" (no seek restores {_several(names)}; a reset has to)" if names else ""
        else:
            not_captured = self._not_captured(is_whole=is_whole)
        return "; ".join([", ".join(verdicts), *not_captured, *self.notes])

    def _not_captured(self, *, is_whole: bool) -> list[str]:
        """What is not captured of these objects. What classes, modules and files hold is none of it."""
        missing = [f"{part.name}.{name} ({kind})" for part in self.parts for name, kind in part.unknown.items()]
        missing += [f"{part.name}.{name} (a time)" for part in self.parts for name in part.clocks]
        texts = [f"not captured: {_several(missing)}"] if missing else []
        texts += [f"left out as asked: {_several(self.ignored)}"] if self.ignored else []
        kept = [f"{part.name}.{name}" for part in self.parts for name in part.kept]
        kept = [name for name in kept if name not in self.ignored]
        if kept:
            named = ", ".join(kept) if len(kept) <= KEPT_SHOWN else f"{len(kept)} attributes"
            texts.append(f"a restore leaves {named} as {'it is' if len(kept) == 1 else 'they are'}")
        return texts or (["no attribute of these objects, and of what they hold, is left out"] if is_whole else [])

    def to_plain(self) -> dict[str, Any]:
        """The report as plain data, as it is written to a tape."""
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


def _outermost(names: list[str]) -> str:
    """The names of parts; those inside of other ones are not listed: a part is captured with everything in it."""
    return _several(name for name in names if not any(name.startswith(f"{other}.") for other in names))


def _several(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return ", ".join(shown[:NAMES_SHOWN]) + more
