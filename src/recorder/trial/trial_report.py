"""The report of a trial: what was tried, and the differences that it found."""

from __future__ import annotations

import attrs

from recorder.ambient.outside.outside_note import NotedReads
from recorder.text import counted
from recorder.trial.trajectory import NO_INPUTS, Trajectory, several
from sim.kernel.plain_data import decode_plain

AGAIN, REWOUND, RESTORED, TWIN, SAVED, ORDER = "again", "rewound", "restored", "twin", "saved", "order"
VALUES, ELSEWHERE, RECORDED = "values", "elsewhere", "recorded"
_WITHOUT_ARGUMENTS = "without arguments"
HAPPENED = {
    AGAIN: "two runs from the present state with the same inputs differ",
    REWOUND: "restored in the instance that has run, it does not run again as before",
    RESTORED: "restored in another process, it does not run on as before",
    TWIN: "restored into another instance, it does not run on as before",
    SAVED: "it runs differently if it is saved at each step",
    RECORDED: "restored to the first recorded tick, it does not run again as it was recorded",
    ELSEWHERE: "restored in a new interpreter with another PYTHONHASHSEED, it does not run on as before",
}


@attrs.frozen
class TrialFinding:
    """A difference between a run and its repetition.

    Attributes:
        kind: AGAIN, REWOUND, RESTORED, TWIN, SAVED, ORDER, VALUES, ELSEWHERE or RECORDED.
        text: the difference in a sentence.
        causes: the values that a step reads and that a restore does not bring back, each shown by a test.
        command: the one that tries more, in a clause, see check_command.
    """

    kind: str
    text: str
    causes: tuple[str, ...] = ()
    command: str = "`replay check` with the inputs of the tape tries more"

    def __str__(self) -> str:
        if self.kind in (ORDER, VALUES):
            return self.text
        if self.causes:
            return f"a step reads {', '.join(self.causes)}, which a restore does not bring back: {self.text}"
        why = {
            AGAIN: f"possible: clocks, unseeded randomness, threads, memory addresses, garbage, how deep the stack is; {self.command}",
            SAVED: "its save changes it: declare level='canonical'",
            ELSEWHERE: "possible: the order of a set, a clock, how it is built",
        }
        return f"{self.text}; {why.get(self.kind, f'the cause is not known; {self.command}')}"


@attrs.frozen
class TrialReport:
    """The result of a trial.

    Attributes:
        trajectories: the number that were tried.
        steps: of the longest.
        seconds: the time it took.
        findings: the differences; empty if there were none.
        unstable: parts of what steps return that differ in two equal runs; they were not compared.
        outside: what steps change outside the simulation's objects, such as class attributes; it is not saved.
        orders: sets whose order is not saved, in which no step was seen to use it, a sentence for each kind.
        reads: what the first steps read of the outside world; None if they were not watched.
        not_tried: the reason why nothing was tried; None if something was.
        is_late: True if nothing was tried since there was no time for it.
        run: the first trajectory.
        is_elsewhere: True if it was also run in another interpreter.
        inputs: all different inputs that were tried, encoded.
        given: those inputs in a few words, if the caller knows them better.
    """

    trajectories: int = 0
    steps: int = 0
    seconds: float = 0.0
    findings: tuple[TrialFinding, ...] = ()
    unstable: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    reads: NotedReads | None = attrs.field(default=None, repr=False)
    not_tried: str | None = None
    is_late: bool = False
    run: Trajectory | None = attrs.field(default=None, repr=False)
    is_elsewhere: bool = False
    inputs: frozenset[bytes] = attrs.field(default=frozenset(), repr=False)
    given: str | None = None

    @property
    def is_tested(self) -> bool:
        """True if something was tried."""
        return self.not_tried is None

    def with_command(self, command: str) -> TrialReport:
        """The report, whose findings name the command that tries more."""
        return attrs.evolve(self, findings=tuple(attrs.evolve(one, command=command) for one in self.findings))

    def line(self, *, is_warned: bool = False) -> str:
        """The report in one line. is_warned: True if a warning of each finding has been given."""
        if self.not_tried is not None:
            return f"not tried: {self.not_tried}"
        runs = f"{self.trajectories} run{'' if self.trajectories == 1 else 's'}"
        given = self.given or self._given()
        tried = f"tried {runs} of {counted(self.steps, 'step')} {given}"
        took = f"{self.seconds:.1f} s" if self.seconds >= 0.1 else f"{self.seconds:.2f} s"
        same = "restored and run again with the same states and results"
        same += ", in a new interpreter too" if self.is_elsewhere else ""
        same += "; calls with arguments were not tried" if given == _WITHOUT_ARGUMENTS else ""
        result = "; ".join(map(str, self.findings)) or same
        if is_warned and self.findings:
            result = "a difference was found, see the warning"
        # Shown by the repeated run, which began with the changed values and went as before.
        outside = f"; steps change {several(self.outside)}, not saved: no step tried depends on it"
        result += outside if self.outside and not self.findings else ""
        result += "".join(f"; {text}" for text in self.orders) if not self.findings else ""
        left_out = f" (not compared, since two equal runs differ in it: {', '.join(self.unstable[:3])})"
        return f"{tried} in {took}: {result}{left_out if self.unstable else ''}"

    def differences(self) -> str:
        """The differences in a few words, without remedies; empty without one."""
        begin = f"{HAPPENED[AGAIN]}: "
        repeated = [one.text.removeprefix(begin) for one in self.findings if one.kind == AGAIN]
        others = [one.text for one in self.findings if one.kind != AGAIN]
        texts = [f"its steps did not repeat ({'; '.join(repeated)})"] if repeated else []
        return ", ".join([*texts, *([f"its trial found a difference ({'; '.join(others)})"] if others else [])])

    def _given(self) -> str:
        if self.inputs <= {NO_INPUTS}:
            return "without inputs"
        if len(self.inputs) > 1:
            return f"with {len(self.inputs)} different inputs"
        match decode_plain(next(iter(self.inputs))):
            case {**calls} if list(calls.values()) == [[[], {}]]:
                return _WITHOUT_ARGUMENTS  # Of a step that takes some: one that takes none gets no inputs.
        return "with one input again and again"
