"""The options of a recording: the class, the Python signatures, META and the command have the same ones."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import attrs
import pytest

import recorder
from recorder import Recorder
from recorder.adapted.record import DEFAULTS
from recorder.commands.run import run
from recorder.recording_options import OptionArguments, RecordingOptions
from replayer import Tape

from small_worlds import Walkers

OPTIONS = {field.name: field for field in attrs.fields(RecordingOptions)}

# Where META records an option, if not under its own name in "settings".
ELSEWHERE_IN_META = {
    "sync": {"settings.sync_interval_s", "settings.sync_each_block"},
    "keep": {"settings.keep_ticks", "settings.keep_s"},
    "split": {"settings.split_bytes"},
    "mode": {"mode"},
    "events": {"event_stream"},
    "telemetry": {"output_functions"},
    "aux": {"output_functions"},
    "notes": {"notes"},
    "changes": set(),  # All ways to know what changed give the same bytes.
    "run_id": set(),  # It is in the header of each file.
    "trial_ms": set(),  # A trial changes nothing on the tape.
    "on_desync": set(),  # What the program does about a peer is not a property of the tape.
}
OTHERS_IN_META = {
    "world",
    "simulation",
    "hash",
    "random",
    "environment",
    "outside",
    "created",
    "settings",
}  # Not options.

# The options that record run lacks, each with the reason.
NOT_OF_RECORD_RUN = {
    "run_id": "only programs that name their runs elsewhere need it",
    "notes": "the command writes its own: ticks, players and inputs of the run",
    "keyframe_interval_max_ticks": "its --keyframe-interval and --seek-budget place the keyframes",
    "keyframe_after_ms": "its --keyframe-interval and --seek-budget place the keyframes",
    "trial_ms": "it records scenarios, whose worlds replay check tries",
    "between_steps": "no code of a user runs between the steps of a command",
    "on_desync": "a command has no peers",
    "telemetry": "a function cannot be an option of a command",
    "aux": "a function cannot be an option of a command",
}
OTHER_NAMES_OF_RECORD_RUN = {"keyframe_interval_ticks": "keyframe_interval", "seek_budget_ms": "seek_budget"}

# A value other than the default, for each option.
OTHER_VALUES: dict[str, Any] = {
    "keyframe_interval_ticks": 7,
    "keyframe_interval_max_ticks": 900,
    "full_every": 3,
    "durability": "block",
    "sync": "200ms",
    "on_error": "raise",
    "keep": 1000,
    "split": "5MB",
    "deterministic": True,
    "blame": "fields",
    "seek_budget_ms": 12.5,
    "keyframe_after_ms": 40.0,
    "hashes": "changes",
    "mode": "changes",
    "changes": "scan",
    "events": False,
    "run_id": bytes(range(16)),
    "notes": {"a": 1},
    "trial_ms": 0.0,
    "between_steps": True,
    "on_desync": "warn",
    "writes": True,
}


def no_figures(_: Any) -> dict[str, Any]:
    return {}


OTHER_VALUES |= {"telemetry": no_figures, "aux": no_figures}


class Eventful(Walkers):
    """A simulation that marks its writes and has events: each option applies to it."""

    marks_writes = True

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        for name in self.state:
            self.state.mark(name)

    def events(self) -> list[dict[str, Any]]:
        return []


def defaults_of(function: Any) -> dict[str, Any]:
    """The keyword-only parameters of a function, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def meta_of(path: Path, **options: Any) -> dict[str, Any]:
    with Recorder(path, Eventful(), **options) as tape:
        tape.step()
    with Tape(path) as recording:
        meta = dict(recording.meta)
    return meta | {f"settings.{name}": value for name, value in meta["settings"].items()}


def test_python_signatures_have_the_fields_and_defaults_of_the_class() -> None:
    fields = {name: field.default for name, field in OPTIONS.items()}
    assert OptionArguments.__annotations__.keys() == fields.keys()
    assert defaults_of(Recorder) == defaults_of(Recorder.__init__) == fields
    of_record = defaults_of(recorder.record)
    assert {name: of_record[name] for name in fields} == fields | DEFAULTS


def test_help_describes_each_option() -> None:
    text = inspect.getdoc(Recorder.__init__) or ""
    assert [name for name in OPTIONS if f"\n    {name}: " not in text] == []
    assert "Raises:\n    FileExistsError" in text


@pytest.mark.parametrize("name", OPTIONS)
def test_meta_records_each_option(tmp_path: Path, name: str) -> None:
    """An option changes its own keys in META and no others."""
    # The trial notes what the first steps read, and mode "changes" makes none.
    needed: dict[str, Any] = {"hashes": {"mode": "changes"}, "mode": {"trial_ms": 0}}.get(name, {})
    usual = meta_of(tmp_path / "usual.tape", **needed)
    given = meta_of(tmp_path / "given.tape", **needed, **{name: OTHER_VALUES[name]})
    differ = {key for key in usual.keys() | given.keys() if usual.get(key) != given.get(key)}
    differ -= {"settings", "created"} | ({"environment", "outside"} if name == "deterministic" else set())
    differ -= {"outside"} if name == "trial_ms" else set()  # The trial notes what the first steps read.

    expected = ELSEWHERE_IN_META.get(name, {f"settings.{name}"})
    assert differ <= expected
    assert bool(differ) == bool(expected)


def test_meta_records_nothing_but_options(tmp_path: Path) -> None:
    meta = meta_of(tmp_path / "run.tape", mode="changes", hashes="changes", seek_budget_ms=5)
    meta |= meta_of(tmp_path / "slow.tape", keyframe_after_ms=5, between_steps=True)  # The two contradict each other.
    meta |= meta_of(tmp_path / "figures.tape", telemetry=no_figures, writes=True, keyframe_interval_max_ticks=900)
    of_options = {key for name in OPTIONS for key in ELSEWHERE_IN_META.get(name, {f"settings.{name}"})}
    assert set(meta) - OTHERS_IN_META == of_options


@pytest.mark.parametrize("spacing", ["seek_budget_ms", "keyframe_after_ms"])
def test_options_are_read_back_from_meta(tmp_path: Path, spacing: str) -> None:
    """A resumed recording has the options of the tape, including those outside its settings."""
    not_in_meta = ("changes", "run_id", "trial_ms", "on_desync", "telemetry", "aux")
    arguments = {name: value for name, value in OTHER_VALUES.items() if name not in not_in_meta}
    arguments |= {"deterministic": False, "seek_budget_ms": None, "keyframe_after_ms": None}
    if spacing == "seek_budget_ms":
        arguments["keyframe_interval_max_ticks"] = None  # It places them alone.
    else:
        arguments["keep"] = None  # In a ring their distance does not grow.
    arguments[spacing] = OTHER_VALUES[spacing]
    with Recorder(tmp_path / "run.tape", Eventful(), **arguments) as tape:
        tape.step()
    with Tape(tmp_path / "run.tape") as recording:
        assert RecordingOptions.from_meta(recording.meta) == RecordingOptions(**arguments)


def test_record_run_has_an_option_for_each_but_a_few() -> None:
    parameters = defaults_of(run)
    expected = {OTHER_NAMES_OF_RECORD_RUN.get(name, name): name for name in OPTIONS if name not in NOT_OF_RECORD_RUN}
    assert {name: parameters.get(name, "missing") for name in expected} == {
        name: OPTIONS[option].default for name, option in expected.items()
    }
    assert parameters.keys() & NOT_OF_RECORD_RUN.keys() == set()


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in NOT_OF_RECORD_RUN])
def test_record_run_passes_each_option_on(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[RecordingOptions] = []

    class Stopped(Exception):  # noqa: N818 - it is not an error
        pass

    def begin(_path: Path, _simulation: Any, _start: Any, options: RecordingOptions) -> None:
        begun.append(options)
        raise Stopped

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recorder.commands.run.begin_tape", begin)
    needed = {"mode": "changes"} if name == "hashes" else {}
    argument = {OTHER_NAMES_OF_RECORD_RUN.get(name, name): OTHER_VALUES[name]}
    with pytest.raises(Stopped):
        run("quiet-meadow", output=tmp_path / "run.tape", ticks=1, quiet=True, **needed, **argument)
    expected = RecordingOptions(**needed, **{name: OTHER_VALUES[name]})
    assert attrs.evolve(begun[0], notes=None) == expected


def test_a_subclass_and_ready_options_record_alike(tmp_path: Path) -> None:
    options = RecordingOptions(deterministic=True, keyframe_interval_ticks=4)
    with Recorder.with_options(tmp_path / "a.tape", Walkers(), options) as tape:
        tape.step()
    with Recorder(tmp_path / "b.tape", Walkers(), deterministic=True, keyframe_interval_ticks=4) as tape:
        tape.step()
    assert (tmp_path / "a.tape").read_bytes() == (tmp_path / "b.tape").read_bytes()


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="keyframe_every"):
        Recorder(tmp_path / "run.tape", Walkers(), keyframe_every=3)  # type: ignore[call-arg]
    assert list(tmp_path.iterdir()) == []
