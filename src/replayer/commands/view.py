"""The command ``replay view``: look at a tape, or at two of them, in the browser."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from recorder.console.argument_types import NotNegative, whole_number
from recorder.console.output import print_result
from recorder.console.progress import progress_bar
from recorder.corpus.corpus import look
from recorder.errors import RecordingError
from recorder.exit_codes import SAME, UsageError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from recorder.processes.pool import processor_count
from recorder.storage.os_errors import reading
from recorder.storage.remote.url_folder import is_folder
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, note_version
from replayer.commands.options import Sim, TapePath
from replayer.desync.dump.dump_source import dump_source
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from replayer.view.finding_folder import ViewedFinding, read_finding
from replayer.view.shown_address import shown_address
from sim.extras import missing_package

TOKEN_CHARS_MIN = 16
LOOPBACK = "127.0.0.1"
PACKAGES = ("starlette", "uvicorn", "websockets")  # Of the extra.


def view(
    tape: TapePath | None = None,
    other: TapePath | None = None,
    /,
    *,
    sim: Sim = None,
    host: str = LOOPBACK,
    port: Annotated[int, Parameter(converter=whole_number, validator=Number(gte=0, lte=65535))] = 0,
    token: str | None = None,
    browser: bool = True,
    show: str = "",
    live: Annotated[bool, Parameter(negative="")] = False,
    delay: NotNegative = 0,
    cache_mb: Annotated[NotNegative, Parameter(name="--cache-mb")] = 128,
) -> int:
    """Look at a tape in the browser: scrub, play, maps, tables, curves; two tapes side by side; the runs of a folder.

    Examples:
    replay view run.tape
    replay view recordings
    replay view before.tape after.tape
    replay view walk.tape --sim walkers:Walkers --show 130
    replay view run.desync-4213 --sim flock:Flock
    replay view --live run.tape

    It prints an address and opens it. Only this machine can reach it, and only with
    the token in the address. States are re-simulated here, so no run is too long.
    Ctrl-C ends it.

    Exit code: 0 Ctrl-C was pressed, 3 the tape has no tick yet, 5 not a tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/. Or a folder: its runs are listed,
        and a click opens one. Or the dump of a desync: what was recorded and what is
        replayed here are shown side by side, at its tick.
    other
        A second tape, to see where the two differ.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    host
        Listen at this address. Any other than this machine's own needs --token.
    port
        Listen at this port; 0 takes a free one.
    token
        The token in the address, at least 16 characters; by default a random one.
    browser
        With --no-browser, only print the address.
    show
        Open at this tick, such as 130; or at this tick and view, as the part after # of a page's address has them:
        'tick=130&tab=fields'.
    live
        Follow the head of a tape that is being recorded. When the recording ends, the page
        says so and goes on as usual. To watch costs the recording nothing but processor time.
    delay
        With --live: nothing of the last N ticks is shown until the recording ends.
    cache_mb
        Megabytes of pictures that are made ahead, for each tape; 0 makes none.
    """
    listening = _load_server()
    _ensure_token(host, token)
    factory_of(sim)  # A mistake is reported before anything is served.
    named = _named(tape, other)
    is_live = _is_live(named, live=live, delay=delay)
    shown = _shown(show, named)
    _ensure_ready(named.tapes)
    arguments = ["replay", "view", *map(str, named.places), *(["--sim", sim] if sim is not None else [])]
    what: dict[str, Any] = {"finding": named.finding, "folder": named.folder, "is_live": is_live}
    what |= {"delay_ticks": delay, "shown": shown, "arguments": arguments}
    request = listening.ViewRequest(named.tapes, sim, host, port, token, cache_mb * 1_000_000, **what)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the normal way to end it.
        listening.serve_view(request, lambda url: _show(url, opens=browser))
    return SAME


def _shown(show: str, named: _Named) -> str:
    try:
        return shown_address(show, is_of_folder=named.folder is not None)
    except ValueError as error:
        raise UsageError(f"--show {error}") from None


def _ensure_ready(tapes: Iterable[Location]) -> None:
    """Ensure that each tape has a tick to show. Raises as reading and ensure_states do."""
    for path in tapes:
        with reading(path), Tape(path) as opened:
            ensure_states(opened)
            note_version(opened)


@attrs.frozen
class _Named:
    """What the arguments name: one or two tapes, perhaps by a dump, or a folder. places: as the user named them."""

    places: Sequence[Location]
    tapes: Sequence[Location]
    finding: ViewedFinding | None = None
    folder: Location | None = None


def _named(tape: Location | None, other: Location | None) -> _Named:
    """Find out what the arguments name. Raises UsageError."""
    if tape is not None and other is None:
        finding, path = _finding(tape)
        if finding is not None:
            return _Named([tape], [path], finding)
    folder = next((path for path in (tape, other) if path is not None and _is_folder(path)), None)
    if folder is None:
        paths = [choose(tape), *([other] if other is not None else [])]
        return _Named(paths, paths)
    if other is not None:
        raise UsageError(f"{folder} is a folder: name it alone, or two tapes")
    _read_list(folder)
    return _Named([folder], [], folder=folder)


def _is_live(named: _Named, *, live: bool, delay: int) -> bool:
    """Wait until a tape that is to be followed has a state. Returns False for one that is closed. Raises UsageError."""
    if not live:
        if delay:
            raise UsageError("--delay is for a run that is being recorded: add --live")
        return False
    if len(named.tapes) != 1 or named.finding is not None:
        raise UsageError("--live follows one tape: name it alone")
    from replayer.view.live.growing_tape import wait_for_states  # noqa: PLC0415 - as in _load_server

    (path,) = named.tapes
    if isinstance(path, TapeUrl):
        raise UsageError("--live follows a tape of this machine: a store has no file that grows")
    with reading(path), Tape(path) as opened:
        if opened.sealed:
            print_visible(f"note: {plain_text(str(path))} is closed already: nothing will be added", file=sys.stderr)
            return False
        wait_for_states(path)
    return True


def _is_folder(path: Location) -> bool:
    with reading(path):
        return is_folder(path) if isinstance(path, TapeUrl) else path.is_dir()


def _read_list(folder: Location) -> None:
    """Read the runs of a folder once, so that the page has them at once. Raises UsageError."""
    with progress_bar("reading tapes", 100, quiet=False) as show:
        try:
            look(folder, jobs=processor_count(), progress=lambda done, total: show(100 * done / total))
        except (OSError, RecordingError) as error:
            raise UsageError(str(error)) from None


def _load_server() -> ModuleType:
    """The module that serves. Raises UsageError if a package of the extra is not installed."""
    try:
        import replayer.view.listening  # noqa: PLC0415 - packages of an extra
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise UsageError(missing_package("replay view", package, "view")) from None
    return replayer.view.listening


def _ensure_token(host: str, token: str | None) -> None:
    """Raise UsageError for a token that can be guessed, and for none where other machines are let in."""
    from replayer.view.access_guard import is_loopback  # noqa: PLC0415 - as in _load_server

    if token is not None and len(token) < TOKEN_CHARS_MIN:
        raise UsageError(f"--token: expected at least {TOKEN_CHARS_MIN} characters, got {len(token)}")
    if not is_loopback(host) and token is None:
        raise UsageError(
            f"--host {host} lets other machines in: choose a --token of at least {TOKEN_CHARS_MIN} characters"
        )


def _finding(path: Location) -> tuple[ViewedFinding | None, Location]:
    """The finding of a dump, and its tape; for anything else None, and the path itself."""
    try:
        source = dump_source(path)
        if source is None or isinstance(path, TapeUrl):
            return None, path
        finding = read_finding(path)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    if source.missing is not None:
        where = f"{source.tape} is shown, which begins one tick before"
        print_visible(f"note: {plain_text(source.missing)} is not here as it was recorded: {where}", file=sys.stderr)
    return finding, source.tape


def _show(url: str, *, opens: bool) -> None:
    print_result(url)
    sys.stdout.flush()
    if opens and _has_screen():
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _has_screen() -> bool:
    """Return True if a browser has a window to open; a browser in the terminal would take it from this command."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
