"""The zoo: planted defects for each of the fourteen causes of a desync, in small simulations and in the meadow.

For each one, the tick, the fields and the phase in the finding of verification must equal those of a brute-force
comparison of the two runs. Each tool that claims to find the line or the cause must name the planted one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
import pytest

from recorder import PeerDesyncError, Recorder
from replayer import SyncTest, Tape
from replayer.desync.finding import Finding
from replayer.desync.rng_draws import finding_lines
from replayer.diagnose.certify.certify import certify
from replayer.diagnose.compare.tape_diff import diff_tapes
from replayer.diagnose.explain.explain import explain_tape
from replayer.diagnose.write_contracts.guarded_replay import check_contracts
from replayer.timeline.verify import verify_tape
from sim.kernel.changes.row_changes import UnmarkedWriteError
from sim.kernel.simulation import as_simulation

from project_paths import SOURCES, SUPPORT
from zoo import meadows, observing
from zoo.meadows import Edit
from zoo.observing import FOLDERS, TICKS, Step, Truth

pytestmark = pytest.mark.share(0.18)

RIGHT_AT_LEAST = 0.9  # Share of correct answers among the claims of replay explain.
MEADOW_TICKS = 30

How = Literal["versions", "outside", "environment", "meadow edit", "meadow versions", "meadow outside"]


@attrs.frozen
class Case:
    """A planted defect.

    Attributes:
        cause: number of the cause, from 1 to 14.
        name: "module:Class", or the name of the meadow's edit.
        how: "versions": recorded with the correct class, verified with the faulty one. "outside": recorded by a faulty
            instance that ran from the beginning, verified by fresh ones. "environment": recorded by the faulty class in
            a process with other variables.
        claims: expected text by tool; for explain the kind of cause and, after a blank, the operation.
        missed: tools that do not find it today.
        environment: variables of the recording process.
        inputs: inputs by tick.
        edit: edit of the meadow's code.
    """

    cause: int
    name: str
    how: How
    claims: dict[str, str] = attrs.field(factory=dict)
    missed: tuple[str, ...] = ()
    environment: dict[str, str] = attrs.field(factory=dict)
    inputs: dict[int, Any] = attrs.field(factory=dict)
    edit: Edit | None = None

    @property
    def module(self) -> str:
        return self.name.partition(":")[0]

    @property
    def kind(self) -> str:
        """The faulty class."""
        return self.name.partition(":")[2]

    @property
    def is_meadow(self) -> bool:
        return self.how.startswith("meadow")


def simd_switch() -> str:
    """The processor features that NumPy can disable."""
    core = getattr(np, "_core", None) or np.core
    known = core._multiarray_umath
    return " ".join(name for name in known.__cpu_dispatch__ if known.__cpu_features__.get(name))


SIMD = {"NPY_DISABLE_CPU_FEATURES": simd_switch()}
SEED = {"PYTHONHASHSEED": "77"}
THREADS = {"OMP_NUM_THREADS": "2"}
UNSTEADY = "something besides the state and the inputs"
HIDDEN = "hidden state"
TWO_ORDERS = {7: [[3, 40], [3, 50]], 25: [[9, 8], [9, 5], [2, 1]]}  # Of tick 7 the two are in order already.

# A tool that finds the answer may still be left out here to save time: its own tests have such a fault.
CASES = [
    Case(
        1,
        "state_outside:HiddenAttribute",
        "outside",
        {"verify": HIDDEN, "check": "HiddenAttribute._memo", "explain": "outside"},
    ),
    Case(
        1,
        "state_outside:ModuleGlobal",
        "outside",
        {"verify": HIDDEN, "check": "module state_outside: STEPS", "explain": "outside"},
    ),
    Case(
        1,
        "state_outside:ClosureCounter",
        "outside",
        {"verify": HIDDEN, "check": "ClosureCounter.winter: seen", "explain": "outside"},
        ("explain",),  # What a closure holds is not looked at: the line that calls it is named.
    ),
    Case(
        2,
        "draws_outside:GlobalRandom",
        "outside",
        {"verify": UNSTEADY, "check": "random"},
    ),
    Case(
        2,
        "draws_outside:NumpyRandom",
        "outside",
        {"verify": UNSTEADY, "check": "np.random", "explain": "operation np.random.random"},
    ),
    Case(
        2,
        "draws_outside:EntropyName",
        "outside",
        {"verify": UNSTEADY, "check": "uuid.uuid4", "explain": "operation uuid.uuid4"},
    ),
    Case(
        2,
        "draws_outside:OneDrawMore",
        "versions",
        {"draws": "stream rng drew 9 words more from tick 22 to the keyframe of tick 30", "explain": "edited"},
    ),
    Case(3, "order_of_sets:OrderOfASet", "environment", {"certify": "hash seed", "explain": "order"}, (), SEED),
    Case(3, "order_of_sets:DictOfASet", "environment", {}, (), SEED),
    Case(
        4,
        "caches_not_restored:StaleTable",
        "outside",
        {"verify": HIDDEN, "check": "StaleTable._table"},
    ),
    Case(
        4,
        "caches_not_restored:CachedCrowd",
        "outside",
        {"verify": HIDDEN, "check": "CachedCrowd.crowd"},
    ),
    Case(
        4,
        "caches_not_restored:WarmStart",
        "outside",
        {"verify": HIDDEN, "check": "WarmStart._guess", "explain": "outside"},
    ),
    Case(5, "aliases_broken:SplitAlias", "outside", {"check": "SplitAlias.places and SplitAlias.seen"}),
    Case(5, "aliases_broken:LostView", "outside", {"check": "LostView.places and LostView.seen"}),
    Case(
        6,
        "floating_point:ExpByProcessor",
        "environment",
        {"certify": "SIMD level", "explain": "operation np.exp"},
        (),
        SIMD,
    ),
    Case(6, "floating_point:TiesByProcessor", "environment", {}, (), SIMD),
    Case(6, "floating_point:SumBackwards", "versions", {"explain": "edited"}),
    Case(6, "floating_point:SinglePrecision", "versions", {"explain": "edited"}),
    Case(
        7,
        "thread_counts:SumByThreads",
        "environment",
        {"certify": "threads", "check": "os.environ['OMP_NUM_THREADS']", "explain": "line"},
        ("check",),  # A variable that is not set is tried with 1, which is the default here.
        THREADS,
    ),
    Case(8, "unmarked_writes:Unmarked", "versions", {"audit": "energy", "check": "Unmarked.step", "explain": "edited"}),
    Case(8, "unmarked_writes:AnothersField", "versions", {"contracts": "x", "explain": "edited"}),
    Case(9, "other_versions:ChangedConstant", "versions", {"explain": "edited"}),
    Case(9, "other_versions:OffByOne", "versions", {"explain": "edited"}),
    Case(9, "other_versions:ChangedComparison", "versions", {"explain": "edited"}),
    Case(
        10,
        "inputs_not_canonical:OrderOfInputs",
        "versions",
        {"diff": "inputs", "explain": "edited"},
        inputs=TWO_ORDERS,
    ),
    Case(
        10,
        "inputs_not_canonical:RoundedInput",
        "versions",
        {"explain": "edited"},
        inputs={7: [[1, 0.5]], 25: [[2, 0.1]]},
    ),
    Case(11, "reading_changes:TelemetryDraws", "outside", {"check": "TelemetryDraws.telemetry()"}),
    Case(
        12,
        "recorder_disturbs:SavingForgets",
        "outside",
        {"check": "SavingForgets.pending", "peer": "the first tick that differs without a recorder"},
    ),
    Case(12, "recorder_disturbs:CountsThreads", "outside", {"peer": "the first tick that differs without a recorder"}),
    Case(13, "integer_casts:Int32Cast", "versions", {"explain": "edited"}),
    Case(13, "integer_casts:NarrowSum", "versions", {"explain": "edited"}),
    Case(
        14,
        "wall_clocks:WallClock",
        "outside",
        {"verify": UNSTEADY, "check": "time.time", "explain": "operation time.time"},
    ),
    Case(
        14,
        "wall_clocks:StepTimer",
        "outside",
        {"verify": UNSTEADY, "check": "time.perf_counter_ns", "explain": "operation time.perf_counter_ns"},
    ),
    Case(
        9,
        "defences cost twice as much",
        "meadow edit",
        {"explain": "edited"},
        edit=Edit("phases/signalling.py", "np.minimum(cost[turn], energy)", "np.minimum(2 * cost[turn], energy)"),
    ),
    Case(
        9,
        "a cull takes another share",
        "meadow edit",
        {"explain": "edited"},
        edit=Edit(
            "phases/inputs.py", "energy // heads * lost + energy % heads * lost // heads", "energy * percent // 100"
        ),
    ),
    Case(
        9,
        "neighbours weigh less",
        "meadow edit",
        edit=Edit("phases/flow_field.py", "near // np.maximum(2 * count, 1)", "near // np.maximum(3 * count, 1)"),
    ),
    Case(
        9,
        "seeds a tick late",
        "meadow edit",
        {"explain": "edited"},
        edit=Edit("phases/lifecycle.py", "tick - last >= interval[species]", "tick - last > interval[species]"),
    ),
    Case(
        9,
        "swarms rest for longer",
        "meadow edit",
        {"explain": "edited"},
        edit=Edit("model/swarm_turn.py", "swarm[COOLDOWN] = kind[VELOCITY] - 1", "swarm[COOLDOWN] = kind[VELOCITY]"),
    ),
    Case(
        13,
        "signals are rounded up",
        "meadow edit",
        edit=Edit("phases/transport.py", "blurred >>= 4", "blurred = (blurred + 8) >> 4"),
    ),
    Case(1, "zoo.meadows:Forgetful", "meadow outside", {"check": "Forgetful._rain_ticks"}),
    Case(8, "zoo.meadows:Trampling", "meadow versions", {"audit": "biotope.wind", "check": "Trampling.step"}),
    Case(8, "zoo.meadows:Greening", "meadow versions", {"contracts": "births"}),
]
QUICK = {"verify", "draws", "audit", "contracts", "diff"}
CLAIMS = [(case, tool) for case in CASES for tool in case.claims]


def firsts(keys: Iterable[Hashable]) -> list[bool]:
    """Flags that are True for the first item of each value."""
    seen: set[Hashable] = set()
    return [key not in seen and not seen.add(key) for key in keys]  # type: ignore[func-returns-value]


def some(values: list[Any], *keys: list[Hashable]) -> list[Any]:
    """Parameters: the first value for each of the keys is in each run of the tests, all of them in make test-long."""
    wanted = [any(is_first) for is_first in zip(*map(firsts, keys), strict=True)]
    return [
        pytest.param(*value, marks=() if is_wanted else pytest.mark.long)
        for value, is_wanted in zip(values, wanted, strict=True)
    ]


PLANTED = some([(case,) for case in CASES], [case.cause for case in CASES], [case.how for case in CASES])
# Of each tool something, of an explanation each kind; of those that take seconds no more than that.
ASKED = some(
    [*CLAIMS],
    [(tool, tool == "explain" and (case.claims[tool].partition(" ")[0], case.is_meadow)) for case, tool in CLAIMS],
    [(tool, case.is_meadow if tool == "check" else tool in QUICK and case.cause) for case, tool in CLAIMS],
)


def marked(path: Path, name: str) -> list[int]:
    """The lines of a file that are marked as guilty."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith(f"# HERE: {name}")]


class Specimen:
    """A case with its tape, the observed runs and the finding of verification; each made at first access."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.folder = folder
        shared = "sound meadow" if case.how in ("meadow edit", "meadow versions") else case.name.replace(":", " ")
        self.tape = folder / f"{case.kind if case.how == 'environment' else shared}.tape"
        self.ticks = MEADOW_TICKS if case.is_meadow else TICKS

    def inputs(self, tick: int) -> Any:
        return meadows.inputs(tick) if self.case.is_meadow else self.case.inputs.get(tick)

    def sound(self) -> Any:
        return (
            meadows.sound()
            if self.case.is_meadow
            else getattr(observing.load("sound", self.case.module), self.case.kind)()
        )

    def faulty(self) -> Any:
        """A simulation as a fresh process makes it."""
        return self.faulty_class()()

    def faulty_class(self) -> Callable[[], Any]:
        if self.case.edit is not None:
            meadow = meadows.load(self.code)
            return lambda: meadow(meadows.CONFIG)
        if self.case.is_meadow:
            return getattr(meadows, self.case.kind)
        return getattr(observing.load("faulty", self.case.module), self.case.kind)

    @cached_property
    def code(self) -> Path:
        """The folder with the other version of the code."""
        if self.case.edit is None:
            return FOLDERS["faulty"]
        folder = self.folder / self.case.name
        self.case.edit.write(folder)
        return folder

    @cached_property
    def finding(self) -> Finding:
        """The finding of verification."""
        assert self.truth is not None
        (finding,) = verify_tape(self.tape, self.faulty_class()).findings
        return finding

    @cached_property
    def truth(self) -> Truth | None:
        """The divergence of the two runs, found by brute force; records the tape."""
        snapshots = None
        if self.case.how == "environment":
            recorded = observing.read_steps(self.tape.with_suffix(".json"))
        elif self.case.how.endswith("outside"):
            recorded, snapshots = observing.record(self.tape, self.faulty(), self.inputs, self.ticks)
        elif self.tape.exists():  # Recorded from the correct meadow, for a different edit.
            recorded = SOUND_MEADOW[self.tape]
        else:
            recorded, _ = observing.record(self.tape, self.sound(), self.inputs, self.ticks)
            SOUND_MEADOW[self.tape] = recorded
        return observing.first_difference(recorded, observing.replay(self.faulty, self.inputs, snapshots, self.ticks))


SOUND_MEADOW: dict[Path, list[Step]] = {}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Specimen]:
    """The specimen of a case, shared by all tests; those of other environments are recorded here."""
    folder, known = tmp_path_factory.mktemp("zoo"), {}
    variables = {name: value for name, value in (SIMD | SEED | THREADS).items() if value}
    subprocess.run(
        [sys.executable, "-m", "zoo.observing", str(folder), *(case.name for case in CASES if case.environment)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), str(SOURCES)]), **variables},
        check=True,
    )

    def find(case: Case) -> Specimen:
        if case.name not in known:
            known[case.name] = Specimen(case, folder)
        return known[case.name]

    return find


@pytest.fixture(autouse=True)
def _as_a_user_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[None]:
    """An empty folder, no relevant variables, and the version of the code for the case."""
    for name in (*SIMD, *SEED, *THREADS):
        monkeypatch.delenv(name, raising=False)
    case = request.getfixturevalue("case") if "case" in request.fixturenames else CASES[0]
    version = "sound" if case.how == "versions" else "faulty"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(FOLDERS[version]), str(SUPPORT), str(SOURCES), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path[:3]))
    yield
    if not case.is_meadow:
        sys.modules.pop(case.module, None)


def skip_without_features(case: Case) -> None:
    """Some processors have only one code path."""
    if case.environment == SIMD and not SIMD["NPY_DISABLE_CPU_FEATURES"]:
        pytest.skip("this processor has no features that NumPy could be told to leave alone")


@pytest.mark.sample(12)
@pytest.mark.parametrize("case", PLANTED, ids=lambda case: case.name)
@pytest.mark.seldom(0.18)
def test_tick_fields_and_phase_of_a_planted_defect_are_exact(case: Case, zoo: Callable[[Case], Specimen]) -> None:
    """The finding of verification equals a comparison of both runs, tick by tick and phase by phase."""
    skip_without_features(case)
    specimen = zoo(case)
    truth = specimen.truth
    assert truth is not None, "the defect has no effect"
    finding = specimen.finding

    assert finding.tick == truth.tick
    assert set(finding.place.fields or ()) == truth.fields
    assert finding.place.phase == truth.phase
    assert (truth.phase is not None) == hasattr(as_simulation(specimen.faulty()), "phases")


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(("case", "tool"), ASKED, ids=lambda value: value if isinstance(value, str) else value.name)
def test_what_a_tool_claims_to_know_is_right(case: Case, tool: str, zoo: Callable[[Case], Specimen]) -> None:
    """The tool names the planted line or cause; cases that the table lists as missed are still missed."""
    skip_without_features(case)
    specimen = zoo(case)
    assert specimen.truth is not None
    said, right = TOOLS[tool](specimen, case.claims[tool])

    assert right == (tool not in case.missed), f"{tool} says of {case.name}: {said}"


def test_nine_in_ten_claims_are_right_and_no_cause_is_left_out() -> None:
    """At least twenty-five defects, five of them in phases of the meadow, and one for each of the fourteen causes."""
    wrong = [f"{case.name}: {tool}" for case, tool in CLAIMS if tool in case.missed]

    assert len(CASES) >= 25
    assert {case.cause for case in CASES} == set(range(1, 15))
    assert len([case for case in CASES if case.is_meadow]) >= 5
    assert len(CLAIMS) - len(wrong) >= RIGHT_AT_LEAST * len(CLAIMS), wrong


# --- the tools: each returns its answer, and True if that is the planted line or cause


def by_verify(specimen: Specimen, cause: str) -> tuple[Any, bool]:
    """The cause that verification suspects."""
    suspected = [tested.cause for tested in specimen.finding.tested if tested.suspicious]
    return suspected, any(one.startswith(cause) for one in suspected)


def by_check(specimen: Specimen, name: str) -> tuple[Any, bool]:
    """The one suspect that is proved, or the only one if none is. Its text starts with name: its kind may follow."""
    report = SyncTest(specimen.faulty_class(), specimen.inputs, ticks=specimen.ticks).run()
    proved = [suspect for suspect in report.suspects if suspect.proved] or report.suspects
    return report.suspects, len(proved) == 1 and proved[0].name.startswith(name)


def by_explain(specimen: Specimen, expected: str) -> tuple[Any, bool]:
    """The guilty line (in both versions of the code if there are two), the kind of cause and the operation."""
    case, (kind, _, operation) = specimen.case, expected.partition(" ")
    versions = case.how == "versions" or case.edit is not None
    explanation = explain_tape(
        specimen.tape,
        tick=specimen.finding.tick,
        sim=case.name if case.edit is None else None,
        factory=None if case.edit else specimen.sound if versions else specimen.faulty_class(),
        environment=case.environment if case.environment != SEED else None,  # The seed is on the tape.
        code=str(specimen.code) if versions else None,
    )
    cause = explanation.cause
    if cause is None:
        return explanation.notes, False
    if case.edit is not None:
        guilty = [(Path(case.edit.file).name, case.edit.line)] * 2
    else:
        folders = ("sound", "faulty") if versions else ("faulty",)
        places = [(folder, line) for folder in folders for line in marked(source_of(case, folder), case.kind)]
        guilty = [(source_of(case, folder).name, line) for folder, line in places]
    named = [(Path(place.path).name, place.line) for place in (cause.place, cause.other_place) if place is not None]
    right = named == guilty and cause.kind == kind and (cause.operation or "") == operation
    return (cause.kind, cause.operation, named, guilty), right


def source_of(case: Case, folder: str) -> Path:
    """The file of a case."""
    return Path(meadows.__file__) if case.is_meadow else FOLDERS[folder] / f"{case.module}.py"


def by_certify(specimen: Specimen, factor: str) -> tuple[Any, bool]:
    """The one factor that makes a difference."""
    keys = {"hash seed": "hash-seed", "SIMD level": "simd", "threads": "threads"}
    factors = list(keys.values()) if factor == "hash seed" else [keys[factor]]  # Once in company is enough.
    quick = factor != "threads"  # Its one level then is one thread, which is what there is without a number.
    certification = certify(specimen.tape, specimen.case.name, factors=factors, quick=quick)
    return certification.verdicts, certification.deciding_factors == [factor]


def by_contracts(specimen: Specimen, field: str) -> tuple[Any, bool]:
    """The one undeclared write of the recording that has it: tick, phase, field and line."""
    tape = specimen.folder / f"{specimen.case.kind} under contract.tape"
    observing.record(tape, specimen.faulty(), specimen.inputs, specimen.ticks)
    found = check_contracts(tape, specimen.faulty_class()).violations
    path, truth = source_of(specimen.case, "faulty"), specimen.truth
    (line,) = marked(path, specimen.case.kind)
    assert truth is not None
    right = [(truth.tick, truth.phase, field, f"{path.name}:{line}")]
    return found, [(one.tick, one.phase, one.field, one.place) for one in found] == right


def by_audit(specimen: Specimen, field: str) -> tuple[Any, bool]:
    """Recording with changes="audit" stops at the tick of the write, and names the field."""
    path = specimen.folder / f"{specimen.case.kind} audited.tape"
    with Recorder(path, specimen.faulty(), changes="audit", keyframe_interval_ticks=1) as recorder:
        for tick in range(1, specimen.ticks + 1):
            try:
                recorder.step(specimen.inputs(tick))
            except UnmarkedWriteError as error:
                truth = specimen.truth
                return (tick, error), truth is not None and (tick, error.field) == (truth.tick, field)
    return "nothing", False


def by_draws(specimen: Specimen, sentence: str) -> tuple[Any, bool]:
    """The sentence of the draw ledger."""
    said = finding_lines(specimen.finding)
    return said, len(said) == 1 and said[0].startswith(sentence)


def by_diff(specimen: Specimen, _: str) -> tuple[Any, bool]:
    """Two peers with the same inputs in a different order: the report names the divergence and the inputs."""
    paths = [specimen.tape.with_name(f"{peer}.tape") for peer in ("host", "guest")]
    factory, seen = specimen.faulty_class(), []
    for path, turned in zip(paths, (False, True), strict=True):

        def inputs(tick: int, *, turned: bool = turned) -> Any:
            listed = specimen.inputs(tick)
            return listed[::-1] if turned and listed else listed

        seen.append(observing.record(path, factory(), inputs, specimen.ticks)[0])
    truth = observing.first_difference(*seen)
    assert truth is not None
    with Tape(paths[0]) as host, Tape(paths[1]) as guest:
        found = diff_tapes(host, guest)
    right = (found.first_bad, found.phase, found.inputs_tick) == (truth.tick, truth.phase, truth.tick)
    return found, right and set(found.ticks[0].fields or ()) == truth.fields


def by_peer(specimen: Specimen, _: str) -> tuple[Any, bool]:
    """A run without a recorder sends its hashes to the recorder of another run, which stops at the divergence."""
    plain = []
    for ticks in range(1, specimen.ticks + 1):  # Each from the beginning: reading a state may change it.
        simulation = specimen.faulty()
        for _tick in range(ticks):
            simulation.step(None)
        plain.append(as_simulation(simulation).state.hash())
    path = specimen.folder / f"{specimen.case.kind} watched.tape"
    recorded: list[int] = []
    with Recorder(path, specimen.faulty()) as recorder:
        for tick in range(1, specimen.ticks + 1):
            recorder.step(None)
            recorded.append(recorder.simulation.state.hash())
            try:
                recorder.report_hash(tick, plain[tick - 1])
            except PeerDesyncError as error:
                pairs = enumerate(zip(recorded, plain, strict=False), 1)
                return error, tick == next(one for one, (mine, other) in pairs if mine != other)
    return "nothing", False


TOOLS: dict[str, Callable[[Specimen, str], tuple[Any, bool]]] = {
    "verify": by_verify,
    "check": by_check,
    "explain": by_explain,
    "certify": by_certify,
    "contracts": by_contracts,
    "audit": by_audit,
    "draws": by_draws,
    "diff": by_diff,
    "peer": by_peer,
}


# --- the correct originals

SOUND = [case for case in CASES if not case.is_meadow]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "case", some([(case,) for case in SOUND], [case.cause for case in SOUND]), ids=lambda case: case.name
)
def test_the_correct_originals_give_no_finding(case: Case, tmp_path: Path) -> None:
    """Verified, checked for hidden state, and checked against write contracts if there are any."""
    factory = getattr(observing.load("sound", case.module), case.kind)
    observing.record(tmp_path / "sound.tape", factory(), case.inputs.get, TICKS)
    report = verify_tape(tmp_path / "sound.tape", factory)

    assert (report.ok, report.status, report.verified_ticks) == (True, "intact", TICKS + 1)
    SyncTest(factory, case.inputs, ticks=25).assert_ok()
    if any(phase.writes is not None for phase in getattr(factory(), "phases", ())):
        assert check_contracts(tmp_path / "sound.tape", factory).ok


def test_the_correct_meadow_gives_no_finding(tmp_path: Path) -> None:
    """The shipped meadow with the inputs of the zoo passes, too."""
    observing.record(tmp_path / "sound.tape", meadows.sound(), meadows.inputs, MEADOW_TICKS)

    assert verify_tape(tmp_path / "sound.tape").ok
    assert check_contracts(tmp_path / "sound.tape").ok
    SyncTest(meadows.sound, meadows.inputs, ticks=16).assert_ok()
