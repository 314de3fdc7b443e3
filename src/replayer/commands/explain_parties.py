"""``replay explain`` with two tapes: where they diverge, and which difference between the two parties does it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, TextIO

import attrs
from cyclopts import Parameter

from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.environment import describe_environment
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.session.lockstep import RUN_NAME
from recorder.storage.os_errors import reading
from recorder.text import shown_path, whole_path
from recorder.visible_text import print_visible
from replayer.commands.arguments import ensure_states
from replayer.commands.options import TapePath
from replayer.diagnose.bisect.commit_run import place_in_tree
from replayer.diagnose.bisect.repository import Repository, RepositoryError
from replayer.diagnose.compare.tape_diff import TapeDifference
from replayer.diagnose.parties.one_kind import NotComparableError
from replayer.diagnose.parties.party import Party
from replayer.diagnose.parties.party_explanation import PartyExplanation
from replayer.diagnose.parties.told.told_environment import recorded_environment
from replayer.diagnose.parties.two_tapes import explain_parties
from replayer.playback.work_tree import WorkTree
from replayer.report.parties.party_facts import party_facts
from replayer.report.parties.party_report import CauseTexts, first_party_line, party_lines
from replayer.status import worst_code
from replayer.tape.completeness import tape_code
from replayer.tape.tape import Tape
from replayer.value_text import plain_text

OtherTape = Annotated[TapePath | None, Parameter(help="A second recording of the same run.")]


@attrs.frozen
class OtherParty:
    """What the second of two tapes was recorded with.

    Attributes:
        sim: module:factory of the second tape's simulation; by default that of --sim.
        path: A folder in front of the second one's module path: its code or a package; may be given several times.
        commit: A commit of the repository of the current folder: the second one's code.
        python: The second one's interpreter, in whose environment this package is installed.
    """

    sim: Annotated[str | None, Parameter(name="--other-sim")] = None
    path: Annotated[list[str] | None, Parameter(name=["--other-path", "--other-code"], negative="")] = None
    commit: Annotated[str | None, Parameter(name="--other-commit")] = None
    python: Annotated[str | None, Parameter(name="--other-python")] = None


def ensure_two(tape: Location, other_tape: Location | None, *, only_of_one: bool) -> tuple[Location, Location]:
    """Return both tapes. Raises UsageError for options of two tapes with one, and the reverse."""
    if other_tape is None:
        raise UsageError(
            "--other-sim, --other-path, --other-commit and --other-python need a second tape: name it after the first"
        )
    if only_of_one:
        raise UsageError("--tick and --code are for one tape; --other-path names the code of a second one")
    return _in_dump(tape), _in_dump(other_tape)


def _in_dump(path: Location) -> Location:
    """The tape in the dump of a desync with a peer; other paths as they are."""
    return path / RUN_NAME if isinstance(path, Path) and (path / RUN_NAME).is_file() else path


def explain_two(
    paths: tuple[Location, Location],
    sim: str | None,
    other: OtherParty | None,
    environment: Mapping[str, str | None],
    texts: CauseTexts,
    *,
    as_json: bool,
) -> int:
    """Explain two tapes and print the result; returns the exit code. environment: variables of the second party."""
    other = other or OtherParty()
    codes = []
    recorded = []
    for path in paths:
        with reading(path), Tape(path) as tape:
            ensure_states(tape)
            codes.append(tape_code(tape))
            recorded.append(recorded_environment(tape.meta, describe_environment()))
    for folder in other.path or ():
        if not Path(folder).is_dir():
            raise UsageError(f"expected a folder, got --other-path {folder}")
    words = ("--sim", sim) if sim is not None else ()
    first = Party("A", paths[0], paths[0], sim, environment=recorded[0], words=words)
    with _party(paths[1], sim, other, {**recorded[1], **environment}) as party:
        second = attrs.evolve(party, words=_words(other, environment))
        explanation = _explained(first, second, quiet=as_json, stdout=sys.stdout)
        _ensure_used(explanation, other)
        # Here: they read the sources of a commit's work tree.
        shown = party_facts(explanation, texts) if as_json else party_lines(explanation, texts)
    shown = _without_tree(shown, second.work_tree)
    if as_json:
        print_json(shown)
    else:  # The first line is printed as soon as the tick is known.
        print_visible("\n".join(map(plain_text, shown[explanation.tick is not None :])))
    differs = explanation.tick is not None or explanation.difference.inputs_tick is not None
    return worst_code([*codes, DIFFERS if differs else SAME])


def _words(other: OtherParty, environment: Mapping[str, str | None]) -> tuple[str, ...]:
    """The options of the second party."""
    options = [("--other-sim", other.sim), *(("--other-path", one) for one in other.path or ())]
    options += [("--other-commit", other.commit), ("--other-python", other.python)]
    options += [("--env", f"{name}={value}") for name, value in environment.items()]
    return tuple(word for name, value in options if value is not None for word in (name, value))


def _explained(first: Party, second: Party, *, quiet: bool, stdout: TextIO) -> PartyExplanation:
    def begin(difference: TapeDifference) -> None:
        if not quiet:
            line = plain_text(first_party_line(difference, (first, second)))
            print_visible(line, flush=True, file=stdout)

    with (
        progress_bar("comparing", 100, quiet=quiet) as show,
        reading(first.tape),
        redirect_stdout(sys.stderr),
    ):
        try:
            return explain_parties(first, second, lambda fraction: show(round(100 * fraction)), begin)
        except NotComparableError as error:
            raise UsageError(f"{first.tape}, {second.tape}: {error}") from None


def _without_tree(shown: Any, work_tree: WorkTree | None) -> Any:
    """Name files of a work tree, which is removed, by the commit: 3f2a1b0c4d:game.py."""
    if work_tree is None:
        return shown
    if isinstance(shown, dict):
        return {name: _without_tree(value, work_tree) for name, value in shown.items()}
    if isinstance(shown, list):
        return [_without_tree(value, work_tree) for value in shown]
    return shown.replace(f"{work_tree.tree}/", f"{work_tree.commit}:") if isinstance(shown, str) else shown


@contextmanager
def _party(
    path: Location, sim: str | None, other: OtherParty, environment: Mapping[str, str | None]
) -> Iterator[Party]:
    """The second party; a commit is checked out as long as the context is open."""
    python = other.python if other.python is not None else sys.executable
    folders = tuple(whole_path(Path(folder)) for folder in other.path or ())
    party = Party("B", path, path, other.sim or sim, folders, None, python, environment)
    if other.commit is None:
        yield party
        return
    try:
        repository = Repository(Path())
        commit = repository.commit(other.commit)
        with (
            tempfile.TemporaryDirectory(prefix="replay-explain-") as folder,
            repository.work_tree(commit, Path(folder).resolve()) as tree,
        ):
            place = place_in_tree(repository, tree, (), party.sim)
            work_tree = WorkTree(commit.short_id, repository.root, tree, *attrs.astuple(place))
            yield attrs.evolve(party, work_tree=work_tree)
    except RepositoryError as error:
        raise UsageError(f"--other-commit {other.commit}: {error}") from None


def _ensure_used(explanation: PartyExplanation, other: OtherParty) -> None:
    """Raise UsageError if no module of the second party comes from what was named for it."""
    run, party = explanation.runs[1], explanation.parties[1]
    if run is None or run.made is None:
        return
    files = [Path(file).resolve() for file in run.made.modules.values()]
    for folder in party.paths:
        if not any(file.is_relative_to(Path(folder).resolve()) for file in files):
            raise UsageError(f"no module of the simulation is imported from --other-path {shown_path(folder)}")
    tree = party.work_tree
    if tree is not None and not any(file.is_relative_to(tree.tree) for file in files):
        raise UsageError(
            f"no module of the simulation is imported from --other-commit {other.commit}: is an installed copy used?"
        )
