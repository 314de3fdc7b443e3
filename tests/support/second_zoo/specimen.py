"""The specimens: their sources and their declared truth, and how one is laid out in a folder."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

SECOND = Path(__file__).parent
THIRD = SECOND.with_name("third_zoo")
FOURTH = SECOND.with_name("fourth_zoo")
FIFTH = SECOND.with_name("fifth_zoo")
SIXTH = SECOND.with_name("sixth_zoo")
SEVENTH = SECOND.with_name("seventh_zoo")
EIGHTH = SECOND.with_name("eighth_zoo")
NINTH = SECOND.with_name("ninth_zoo")
TENTH = SECOND.with_name("tenth_zoo")
MARKER = "# <- here"
DEFAULT_TICKS, DEFAULT_KEYFRAMES = 40, 10
ENV_ACTION = "tick * 7 % 5 % 2"


@attrs.frozen
class Conditions:
    """How a specimen is recorded, or replayed.

    Attributes:
        env: environment variables. Others are as in the calling process.
        options: of ``record()`` or ``Recorder()``.
        run: Python code that changes the folder before the replay.
        edit: a text and its replacement, made in the file ``edited`` before the replay.
        edited: the file to edit; the specimen's own by default.
        old: True if the unedited files are kept in a folder ``old``.
        explain: further arguments of ``replay explain``.
        place: the folder, below the specimen's own, in which it is replayed.
    """

    env: dict[str, str] = attrs.field(factory=dict)
    options: dict[str, Any] = attrs.field(factory=dict)
    run: str = ""
    edit: tuple[str, ...] = ()
    edited: str = ""
    old: bool = False
    explain: tuple[str, ...] = ()
    place: str = ""


@attrs.frozen(eq=False)
class Specimen:
    """One program, and what is true of it.

    Attributes:
        name: of the specimen, its module, and its table in the TOML file.
        family: the name of the TOML file.
        summary: the defect, or why a sound program looks suspicious.
        is_sound: True if it has no defect.
        source: the module. Its function or class ``make`` makes the program.
        kind: ``object`` and ``env`` go to ``record()``, ``own`` to ``Recorder``; ``peers`` are two recordings. ``scripted``
            ones have scripts of their own, and the commands below.
        ticks, keyframes: the length of the run, and the keyframe interval, in ticks.
        step: the name of the method that makes a step.
        inputs, other_inputs: an expression of ``tick`` and of the module's name, for each step; of the second peer, or,
            for a single program, what the plain loop replays.
        reset: the statement that resets an environment at the first tick.
        between: code that runs before each step, outside of it, with ``game``, ``tick`` and the module's name; of an
            environment with ``result``, too: what its last step returned.
        catches: the name of an exception that the loop catches.
        other_code: True if the second peer runs the edited source.
        record, replay: the conditions.
        needs: a package without which the specimen is skipped.
        machine: True if the defect shows on some processors, or with some versions of NumPy, only.
        restores: False if pickle cannot keep its state: the plain loop then replays it as a whole.
        plain_from: the first tick from which the plain loop replays; before it chance is an input.
        tick: the first ticks that may be reported. Empty for a sound program.
        paths: regular expressions; one of them matches what differs.
        truths: the kinds of causes that may be claimed, see ``verdict.CLAIMS``.
        causes: regular expressions; all of them match what is printed, source lines left out.
        false: regular expressions of sentences that are not so of this specimen.
        why: why it is missed, for the page, if it is.
        has_line: True if a line of the source is to be named: one that ends in MARKER.
        files: other files of the folder, by name.
        recorded: of a scripted one: the commands that record it, each with its environment (``cmd``, ``env``).
        asked: the commands that ask about it, each with what is run in the folder ``before`` and ``after`` it.
    """

    name: str
    family: str
    summary: str
    is_sound: bool
    source: str
    kind: str = "object"
    ticks: int = DEFAULT_TICKS
    keyframes: int = DEFAULT_KEYFRAMES
    step: str = "step"
    inputs: str = ""
    other_inputs: str = ""
    reset: str = "game.reset(seed=7)"
    between: str = ""
    catches: str = ""
    other_code: bool = False
    record: Conditions = attrs.field(factory=Conditions)
    replay: Conditions = attrs.field(factory=Conditions)
    needs: str = ""
    machine: bool = False
    restores: bool = True
    plain_from: int = 0
    tick: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    why: str = ""
    has_line: bool = False
    files: dict[str, str] = attrs.field(factory=dict)
    recorded: tuple[dict[str, Any], ...] = ()
    asked: tuple[dict[str, Any], ...] = ()

    @property
    def is_stepped_by_recorder(self) -> bool:
        """True if a Recorder steps it with inputs, and not a method of an object that record() returns."""
        return self.kind == "own" or (self.kind == "peers" and "State(" in self.source)

    @property
    def marked_lines(self) -> frozenset[tuple[str, int]]:
        """The lines that may be named, as (file name, line number)."""
        texts = [(f"{self.name}.py", self.source), *self.files.items()]
        if self.other_code:  # A line of the second peer's version, too.
            texts.append((f"{self.name}.py", self.source.replace(*self.replay.edit)))
        return frozenset(
            (name.rpartition("/")[2], number)
            for name, text in texts
            for number, line in enumerate(text.splitlines(), start=1)
            if line.rstrip().endswith(MARKER)
        )

    @property
    def source_lines(self) -> frozenset[str]:
        """All lines of its files, stripped: what is quoted of them is not an explanation."""
        texts = [self.source, self.between, *self.files.values()]
        if self.replay.edit:
            texts += [text.replace(*self.replay.edit) for text in texts]
        return frozenset(
            line.partition(MARKER)[0].strip() for text in texts for line in text.splitlines() if line.strip()
        )

    def lay_out(self, folder: Path, other: Path | None = None) -> None:
        """Write its files into a folder, without the markers; those of a second peer with other code into ``other``."""
        write_files(folder, {f"{self.name}.py": self.source, **self.files})
        if self.replay.old:
            write_files(folder / "old", {f"{self.name}.py": self.source, **self.files})
        if other and self.other_code:
            write_files(other, {f"{self.name}.py": self.source.replace(*self.replay.edit), **self.files})

    def edit(self, folder: Path) -> None:
        """Edit the source as the declared replay has it."""
        if self.replay.edit and not self.other_code:
            path = folder / (self.replay.edited or f"{self.name}.py")
            text = path.read_text(encoding="utf-8")
            assert self.replay.edit[0] in text, self.name
            path.write_text(text.replace(*self.replay.edit), encoding="utf-8")


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write texts into files, without the markers at the ends of their lines."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub(rf" *{MARKER}$", "", text, flags=re.MULTILINE), encoding="utf-8")


def read_specimens(names: Iterable[str] = (), folder: Path = SECOND) -> list[Specimen]:
    """All specimens of a folder, or those of some names, in the order of its files.

    Raises KeyError for an unknown name.
    """
    specimens = {
        name: make_specimen(name, path.stem, table)
        for path in sorted(folder.glob("*.toml"))
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }
    return [specimens[name] for name in names] if names else list(specimens.values())


def make_specimen(name: str, family: str, table: dict[str, Any]) -> Specimen:
    """A specimen from its table in a TOML file."""
    table = dict(table)
    is_sound = "looks" in table
    ticks = table.pop("tick", ())
    specimen = Specimen(
        name=name,
        family=family,
        summary=table.pop("looks" if is_sound else "defect"),
        is_sound=is_sound,
        tick=(ticks,) if isinstance(ticks, int) else tuple(ticks),
        has_line=table.pop("lines", not is_sound),
        record=make_conditions(table.pop("record", {})),
        replay=make_conditions(table.pop("replay", {})),
        **{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()},
    )
    assert is_sound or (specimen.tick and specimen.paths and specimen.truths and specimen.causes), name
    assert specimen.has_line == bool(specimen.marked_lines), name
    for pattern in (*specimen.paths, *specimen.causes, *specimen.false):
        re.compile(pattern)  # Here, and not after an hour of commands.
    return specimen


def make_conditions(table: dict[str, Any]) -> Conditions:
    """Conditions from their table."""
    return Conditions(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})
