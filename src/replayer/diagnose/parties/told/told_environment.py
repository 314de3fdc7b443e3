"""What two tapes tell of their environments: variables to run with, and those that the parties do not get as recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import UNSET, VARIABLE, variable_fact
from recorder.ambient.outside.process_facts import VARIABLES
from replayer.diagnose.explain.values.process_settings import differing_settings, recorded_settings
from replayer.diagnose.explain.variant_choice import VERSIONS, fixed_seed, folder_of, recorded_switches
from replayer.diagnose.parties.differences.factor import PARTIES
from replayer.diagnose.parties.differences.named_texts import texts_of
from replayer.diagnose.parties.party import Made, Party
from replayer.diagnose.parties.party_runner import PartyRun
from replayer.tape.noted_outside import noted_at
from replayer.tape.tape import Tape

# Where programs and files are; the seed has its own test.
NOT_TRIED = ("PATH", "HOME", "TMPDIR", "PYTHONPATH", "PYTHONHASHSEED")


def recorded_environment(meta: Mapping[str, object], present: Mapping[str, str]) -> dict[str, str | None]:
    """The variables that a tape was recorded with, where they differ from the present ones; not those of versions."""
    recorded = meta.get("environment")
    return recorded_switches(recorded, present) if isinstance(recorded, Mapping) else {}


@attrs.frozen
class ToldVariable:
    """A variable that a party's code reads, and of which its tape has the digest of another value than the party gets.

    Or a setting of the process that the tape tells.

    Attributes:
        party: 0 for A, 1 for B.
        name: of the variable.
        place: the first line that reads it; empty for one that tapes note as it is, such as TZ.
        present: the value that the party has here, as it is shown; see Party.shown_variable.
        values: the value on the tape, in a tuple; empty if it is not known: none that was tried has the digest.
        setting: of a setting of the process, the value on the tape as it is put in place; None for a variable.
    """

    party: int
    name: str
    place: str
    present: str
    values: tuple[str | None, ...]
    setting: Any = None

    @property
    def text(self) -> str:
        """The note on it."""
        label = PARTIES[self.party]
        if self.setting is not None:
            return f"the simulation of {label} runs with {self.name} {self.values[0]}, as tape {label} tells"
        read = f"the environment variable {self.name} (read at {self.place})"
        if not self.values:
            return f"tape {label} was recorded with another value of {read} than the simulation of {label} has here ({self.present})"
        [value] = self.values
        if not self.place:
            setting = f"{self.name} not set" if value is None else f"{self.name}={value}"
            return f"the simulation of {label} runs with {setting}, as tape {label} tells"
        if value is None:
            return f"the simulation of {label} runs without {read}, which is set here: tape {label} tells that it was not set"
        return f"the simulation of {label} gets {self.name}={value} (read at {self.place}): tape {label} has the digest of this value"


def told_of(
    parties: Sequence[Party], runs: Sequence[PartyRun | None], recorded: Sequence[int], notes: Sequence[OutsideNote]
) -> list[ToldVariable]:
    """The variables that the parties do not get as their tapes were recorded with; none if both are as recorded anyway."""
    ran = {number: run for number, run in enumerate(runs) if run is not None}
    wrong = [number for number, run in ran.items() if run.result != (recorded[number], None)]
    found = list[ToldVariable]()
    for number, run in ran.items() if wrong else ():
        if run.made is not None:  # Those that a step reads first are tried later, where the other party is as recorded.
            of_steps = len(wrong) > 1
            found += _told_variables(number, parties[number], run.made, notes[number], of_steps=of_steps)
    return found


def told_settings(runs: Sequence[PartyRun | None], tapes: Sequence[Tape], tick: int) -> list[ToldVariable]:
    """The settings of the process that the tapes tell of the step to a tick, where they differ from those of the parties.

    Those that may have been changed before the step or after it are left out.
    """
    found = list[ToldVariable]()
    for number, (run, tape) in enumerate(zip(runs, tapes, strict=True)):
        noted = noted_at(tape, tick).note.process
        if run is None or run.made is None or not noted:
            continue
        settings = recorded_settings(noted, folder_of(tape))
        found += [
            ToldVariable(number, one.name, "", one.texts[0], (one.texts[1],), one.second)
            for one in differing_settings(run.made.settings, settings)
        ]
    return found


def _told_variables(
    number: int, party: Party, made: Made, note: OutsideNote, *, of_steps: bool
) -> Iterator[ToldVariable]:
    settings = {name: _noted_setting(name, note) for name in VARIABLES if name not in party.environment}
    for name, noted in settings.items():
        if noted and noted[0] != party.variable(name):
            yield ToldVariable(number, name, "", party.shown_variable(name), noted)
    texts = list[str]()
    for name, (_, _, stage) in made.variables.items():
        [fact] = note.fact(VARIABLE, name) or (None,)
        is_read = of_steps or stage != "step"
        present = party.variable(name)
        if name in NOT_TRIED or settings.get(name) or not is_read or fact in (None, variable_fact(present)):
            continue
        texts = texts or list(texts_of(made))
        values: tuple[str | None, ...] = ()
        if name not in party.environment:  # What was given on the command line stays.
            values = (None,) if fact == UNSET else tuple(text for text in texts if variable_fact(text) == fact)
        yield ToldVariable(number, name, made.read_of(name).place, party.shown_variable(name), values[:1])


def _noted_setting(name: str, note: OutsideNote) -> tuple[str | None, ...]:
    """The value of a variable that each tape notes as it is, in a tuple; empty if it is not known."""
    if note.process is None or not (note.watches or name in note.process):
        return ()  # Earlier recordings do not note all of them.
    return (note.process.get(name),)


def with_told(parties: Sequence[Party], told: Sequence[ToldVariable]) -> tuple[Party, Party]:
    """The parties with the values that are known."""
    own = [[one for one in told if one.party == number] for number in range(len(parties))]
    first, second = (
        attrs.evolve(
            party,
            environment={**party.environment, **{one.name: one.values[0] for one in of_one if one.setting is None}},
            settings={**party.settings, **{one.name: one.setting for one in of_one if one.setting is not None}},
        )
        for party, of_one in zip(parties, own, strict=True)
    )
    return first, second


def states_seed(tape: Tape) -> bool:
    """Return True if a tape states its hash seed."""
    recorded = tape.meta.get("environment")
    return isinstance(recorded, Mapping) and fixed_seed(recorded) is not None


def version_notes(tapes: Sequence[Tape]) -> list[str]:
    """The versions of which the tapes state different ones."""
    recorded: list[Mapping[str, object]] = []
    for tape in tapes:
        environment = tape.meta.get("environment")
        recorded.append(environment if isinstance(environment, Mapping) else {})
    return [
        f"the tapes state different versions of {name}: A {recorded[0][name]}, B {recorded[1][name]}; what that does "
        "was not tested: give --other-python"
        for name in VERSIONS
        if name in recorded[0] and name in recorded[1] and recorded[0][name] != recorded[1][name]
    ]
