"""A party: one of the two sides of a run, with all that its simulation is made from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from recorder.ambient.outside.outside_read import VARIABLE, OutsideRead
from recorder.ambient.outside.process_facts import VARIABLES
from recorder.location.tape_location import Location
from replayer.playback.work_tree import WorkTree

SET_HERE = "set in this process"  # Of a variable whose value is not shown.


@attrs.frozen
class Party:
    """One side of a run. What is not given is as in the present process.

    Attributes:
        label: for people: what was given for this side.
        tape: its recording, from which its simulation is made.
        sim: module:factory, or None for a registered world or an adapter's tape.
        paths: folders in front of Python's module path: code, or packages.
        work_tree: of a commit; None for the present code.
        python: the interpreter.
        environment: variables to set, or to unset (None).
        frames: the tape whose inputs are fed.
        arguments: constructor arguments that replace those of the factory, by name, as Python literals.
        config: entries that replace those of a registered world's configuration.
        modules: for modules that come from another place: the name and the path of the file or folder.
        lent: files of modules that given ones may import, where the party itself has none of the name.
        hidden: modules that are not found.
        files: for files that it reads, by full path: the path of the file that is opened in its place.
        settings: of the process, put in place before the step; see set_values/set_settings.py.
        values: of its modules, put in place before the step, as Python literals; see set_values/module_values.py.
        words: what the command got for this side, as words of a command line.
    """

    label: str
    tape: Location
    frames: Location
    sim: str | None = None
    paths: tuple[str, ...] = ()
    work_tree: WorkTree | None = None
    python: str = sys.executable
    environment: Mapping[str, str | None] = attrs.field(factory=dict)
    arguments: Mapping[str, str] = attrs.field(factory=dict)
    config: Mapping[str, Any] = attrs.field(factory=dict)
    modules: Mapping[str, str] = attrs.field(factory=dict)
    lent: Mapping[str, str] = attrs.field(factory=dict)
    hidden: frozenset[str] = frozenset()
    files: Mapping[str, str] = attrs.field(factory=dict)
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    values: Mapping[str, str] = attrs.field(factory=dict)
    words: tuple[str, ...] = ()

    def variable(self, name: str) -> str | None:
        """The value of an environment variable in this party's processes; None if it is not set."""
        if name in self.environment:
            return self.environment[name]
        value = os.environ.get(name)
        return value if value is not None or name != "PYTHONHASHSEED" else "0"  # See PartyRunner.

    def shown_variable(self, name: str) -> str:
        """The value for people: of one that was given for this party, and of those that tapes have as they are.

        Any other one may be a secret, and a report is passed on.
        """
        value = self.variable(name)
        if value is None:
            return "not set"
        return value if name in self.environment or name in VARIABLES else SET_HERE


FirstRead = tuple[str, int, str]  # Of a variable: the file and the line, and the stage.


@attrs.frozen
class Made:
    """How a party's simulation was made, as its process saw it.

    Attributes:
        class_name: module:class of the simulation; None if it is not known.
        arguments: what its constructor got, by name; as Python literals, None for values that are none.
        modules: what was imported outside of Python itself: the files by the names of the modules.
        versions: of the outermost of these, where they state one.
        early: the outermost modules that were loaded before the simulation was.
        python: the version of the interpreter.
        files: that the user's code read up to the end of the step: the lines that opened them, by full path.
        stages: when each of these was first read: "import", "construction" or "step".
        variables: of the environment that the user's code read, as long: of each the first read, with its stage.
        given_at: the lines that give the arguments of the constructor, by name.
        settings: of the process before the step; see set_values/set_settings.py.
        drawn: the random generators among these that the step drew from.
        values: plain ones of the user's modules before the step; see set_values/module_values.py.
        set_at: the lines that set those of settings and values that were watched, by name.
    """

    class_name: str | None
    arguments: dict[str, str | None]
    modules: dict[str, str]
    versions: dict[str, str]
    early: list[str]
    python: str
    files: dict[str, str] = attrs.field(factory=dict)
    stages: dict[str, str] = attrs.field(factory=dict)
    variables: dict[str, FirstRead] = attrs.field(factory=dict)
    given_at: dict[str, str] = attrs.field(factory=dict)
    settings: dict[str, Any] = attrs.field(factory=dict)
    drawn: list[str] = attrs.field(factory=list)
    values: dict[str, str] = attrs.field(factory=dict)
    set_at: dict[str, str] = attrs.field(factory=dict)

    def with_files(self, files: Mapping[str, str], stage: str) -> Made:
        """Add files that were read at a later stage, unless an earlier one read them."""
        new = {path: stage for path in files if path not in self.files}
        return attrs.evolve(self, files={**files, **self.files}, stages={**self.stages, **new})

    def with_variables(self, reads: Iterable[OutsideRead], stage: str) -> Made:
        """Add the variables among what was read at a later stage, unless an earlier one read them."""
        found = {read.name: (read.path, read.line, stage) for read in reversed([*reads]) if read.kind == VARIABLE}
        return attrs.evolve(self, variables={**found, **self.variables})

    def read_of(self, name: str) -> OutsideRead:
        """The first read of one of the variables."""
        path, line, _ = self.variables[name]
        return OutsideRead(VARIABLE, name, path, line, None)
