"""Commands that are killed, or whose workers are, at random moments and then given again.

Each ends with what a command gives that was not disturbed, and nothing that a killed one leaves may pass for whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from waiting import wait_until

from recorder.errors import UnreadableError
from replayer import Tape

from oracle.command_lines import TINY
from project_paths import SUPPORT
from ray_cluster import descendants
from small_worlds import Walkers, record

TICKS, KEYFRAME_TICKS = 120, 12
STEP_S = 0.003  # Work that waits can be hit on a busy machine, and costs it nothing.
TIMEOUT_S = 600.0
GONE_S = 120.0
STARTS_MAX = 3
DATA_SET = "the data set"
MARK = "REPLAY_TEST_MARK"  # Variables REPLAY_* reach the processes of workers, also on Ray.
SIM = "--sim killed_commands:Slow"
LINES: Mapping[str, str] = {
    "verify": f"replay verify 0.tape {SIM} --json",
    "extract": f"replay extract 0.tape 1.tape 2.tape -o out --table states --table actions {SIM} --json",
    "batch": "record batch tiny.toml --seeds 0..3 --ticks 60 -o out --json",
    "generate": "record generate tiny.toml --seeds 0..3 --ticks 60 --keyframe-interval 20 -o out --json",
}


class Slow(Walkers):
    """Walkers whose steps take a while."""

    def step(self, inputs: Any) -> None:
        threading.Event().wait(STEP_S)
        super().step(inputs)


@attrs.frozen
class Place:
    """Where the work of a command is done.

    Attributes:
        options: of the command.
        before: words before the command, see RayMachines.prefix.
        cluster: the process below which Ray's workers are; None for workers below the command.
        is_ray: True if workers are Ray's.
    """

    options: Sequence[str] = ("-j", "2")
    before: Sequence[str] = ()
    cluster: int | None = None
    is_ray: bool = False


LOCAL = Place()


@attrs.frozen
class Truth:
    """What a call gives that is not disturbed.

    Attributes:
        told: on stdout, see told_by.
        made: see made_by.
        seconds: the duration at the place where kills are to come.
    """

    told: Any
    made: Mapping[str, Any]
    seconds: float


def prepare(folder: Path) -> None:
    """Make a folder with what the calls read: three tapes and a scenario."""
    folder.mkdir(parents=True)
    (folder / "tiny.toml").write_text(TINY)
    for seed in range(3):
        inputs: list[Any] = [[[tick % 20, seed]] for tick in range(TICKS)]
        record(folder / f"{seed}.tape", Walkers(), inputs, keyframe_interval_ticks=KEYFRAME_TICKS)


@attrs.frozen
class _Call:
    """A command that runs, its folder, and the mark of its processes."""

    process: subprocess.Popen[str]
    folder: Path
    mark: str

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> tuple[str, str]:
        """Wait for the end; what was printed on stdout and stderr."""
        return self.process.communicate(timeout=TIMEOUT_S)


@attrs.frozen
class Kill:
    """What happened to one call.

    Attributes:
        victim: in words; None if the call had ended before it was to be hit.
        words: the whole of it.
    """

    victim: str | None
    words: str


class KilledCommands:
    """Kills the calls of LINES at one place; each call has a folder of its own, which is removed if all was well."""

    def __init__(self, base: Path, place: Place, draw: random.Random) -> None:
        """base: a new folder. draw: gives the moments and the victims."""
        self._base = base
        self._place = place
        self._draw = draw
        self._truths: dict[str, Truth] = {}
        self._count = 0
        prepare(base / "inputs")

    def truth(self, name: str) -> Truth:
        """Of local processes; the duration is that at this place. Raises AssertionError if this place gives another result."""
        if name not in self._truths:
            local = self._undisturbed(name, LOCAL)
            here = local if self._place is LOCAL else self._undisturbed(name, self._place)
            assert attrs.evolve(here, seconds=0.0) == attrs.evolve(local, seconds=0.0), (
                f"{name}: not as in local processes"
            )
            self._truths[name] = here
        return self._truths[name]

    def _undisturbed(self, name: str, place: Place) -> Truth:
        call, begun_s = self._start(name, place), time.monotonic()
        return Truth(self._whole(name, call, place), made_by(call.folder), time.monotonic() - begun_s)

    def kill_driver(self, name: str) -> Kill:
        """Kill a command, or its process that speaks with Ray, and give it again.

        Raises AssertionError if something half written passes for whole, processes are left, or the end is another one.
        """
        truth, call, begun_s = self.truth(name), self._start(name, self._place), time.monotonic()
        window_s = truth.seconds
        if self._draw.random() < 0.5:  # The start takes most of the time: half of the kills come after it.
            wait_until(lambda: call.has_ended or self._workers(call), TIMEOUT_S)
            window_s *= 0.2
        wait_while_running(call, self._draw.uniform(0.0, window_s))
        children = {call.process.pid: "the command"}
        if self._place.is_ray and self._draw.random() < 0.3:
            found = [one for one in descendants(call.process.pid) if "spawn_main" in words_of(one)]
            children = dict.fromkeys(found[:1], "its process that speaks with Ray") or children
        ((victim, who),) = children.items()
        return self._ended(name, call, who if kill(victim) else None, begun_s, by_itself=False)

    def kill_worker(self, name: str) -> Kill:
        """Kill a process that works for a command. On Ray the command must not notice; else it is given again if it fails.

        Raises as kill_driver.
        """
        truth, call, begun_s = self.truth(name), self._start(name, self._place), time.monotonic()
        wait_until(lambda: call.has_ended or self._workers(call), TIMEOUT_S)
        wait_while_running(call, self._draw.uniform(0.0, 0.2 * truth.seconds))
        workers = self._workers(call)
        who = f"a worker ({words_of(victim)[:10]})" if workers and kill(victim := self._draw.choice(workers)) else None
        return self._ended(name, call, who, begun_s, by_itself=self._place.is_ray)

    def _ended(self, name: str, call: _Call, who: str | None, begun_s: float, *, by_itself: bool) -> Kill:
        """Compare the end with the truth. who: was killed. by_itself: the call must not be given again."""
        after_s, truth = time.monotonic() - begun_s, self.truth(name)
        output, errors = call.end()
        assert "Traceback" not in errors, errors
        wait_until(lambda: not marked(call.mark), GONE_S)
        left = ensure_nothing_half(name, call.folder, truth)
        code = call.process.returncode
        words = f"{name}: {who or 'nothing'} killed after {after_s:.1f} s, exit code {code}"
        if code == 0:
            assert told_by(name, output) == truth.told
        else:
            assert not by_itself, f"{words}: {errors}"
            assert code == -signal.SIGKILL or len(errors.strip().splitlines()) == 1, errors
            words += f", {left}, given again"
            self._give_again(name, call.folder, is_there=left == DATA_SET)
        assert made_by(call.folder) == truth.made, f"{name}: other files in {call.folder}"
        shutil.rmtree(call.folder)
        return Kill(who, f"{words}: the same")

    def _give_again(self, name: str, folder: Path, *, is_there: bool) -> None:
        """Give a call again; is_there: its data set is complete, which the command tells."""
        again = self._start(name, self._place, folder)
        if is_there:
            assert again.end()[1].startswith("error: out exists already")
        else:
            assert self._whole(name, again, self._place) == self.truth(name).told
        wait_until(lambda: not marked(again.mark), GONE_S)

    def _whole(self, name: str, call: _Call, place: Place) -> Any:
        """What a call printed that must end well, see told_by. On a busy machine Ray may need more than one start."""
        for _ in range(STARTS_MAX):
            output, errors = call.end()
            if "Ray did not start" not in errors:
                break
            call = self._start(name, place, call.folder)
        assert call.process.returncode == 0, errors
        return told_by(name, output)

    def _start(self, name: str, place: Place, folder: Path | None = None) -> _Call:
        if folder is None:
            self._count += 1
            folder = self._base / f"{name}-{self._count}"
            shutil.copytree(self._base / "inputs", folder)
        command, _, options = LINES[name].partition(" ")
        module = {"replay": "replayer", "record": "recorder"}[command]
        words = [*place.before, sys.executable, "-m", module, *options.split(), *place.options]
        mark = uuid.uuid4().hex
        paths = [str(SUPPORT), os.environ.get("PYTHONPATH", "")]
        process = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return _Call(process, folder, mark)

    def _workers(self, call: _Call) -> list[int]:
        """The processes that work for a call; on Ray with the Ray workers above them."""
        if self._place.cluster is None:
            return sorted(descendants(call.process.pid))
        rays = [one for one in descendants(self._place.cluster) if words_of(one).startswith("ray::")]
        below = {ray: {one for one in descendants(ray) if has_mark(one, call.mark)} for ray in rays}
        return sorted({one for ray, hosts in below.items() if hosts for one in (ray, *hosts)})


def wait_while_running(call: _Call, seconds: float) -> None:
    """Let a call run for a while, or to its end."""
    end_s = time.monotonic() + seconds
    while not call.has_ended and time.monotonic() < end_s:
        threading.Event().wait(0.01)


def kill(process: int) -> bool:
    """Kill a process. Returns False if it had ended."""
    if is_gone(process):
        return False
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def is_gone(process: int) -> bool:
    """Return True if a process has ended, though its parent may not know yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def words_of(process: int) -> str:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def has_mark(process: int, mark: str) -> bool:
    """Return True if a process has this mark in its environment."""
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False


def marked(mark: str) -> list[int]:
    """The processes of this machine with this mark."""
    return [
        int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and has_mark(int(path.name), mark)
    ]


def told_by(name: str, output: str) -> Any:
    """What a command printed, without durations; of verify alone all of it: the others tell of what they had to do."""
    told = json.loads(output)
    return {key: value for key, value in told.items() if "seconds" not in key} if name == "verify" else None


def made_by(folder: Path) -> dict[str, Any]:
    """The files of a call in a form that does not depend on times, or on the order in which runs end.

    Of a tape of a batch all hashes, since it has the time of its run; the index of a corpus has times alone.
    """
    made: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or path.name == "index.sqlite":
            continue
        if path.suffix == ".tape" and path.name.startswith("run-"):
            made[name] = hashes_of(path)
        elif path.name == "manifest.ndjson":
            made[name] = sorted(json.dumps(line) for line in lines_of(path) if "index" in line)
        elif path.name == "manifest.json" and "runs" in json.loads(path.read_bytes()):
            made[name] = without_attempts(json.loads(path.read_bytes()))
        else:
            made[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return made


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a manifest; the last one may have been cut off by a kill."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            found.append(without_attempts(json.loads(line)))
    return found


def without_attempts(value: Any) -> Any:
    """A manifest without the numbers of attempts, which tell of lost workers."""
    if isinstance(value, dict):
        return {key: without_attempts(one) for key, one in value.items() if key != "attempts"}
    return [without_attempts(one) for one in value] if isinstance(value, list) else value


def hashes_of(tape: Path) -> tuple[str, tuple[int, ...]]:
    """The status of a tape, and the hash of each of its ticks; "unreadable" and none if there is no tape in the file."""
    try:
        with Tape(tape) as opened:
            ticks = range(opened.first_tick, opened.last_tick + 1)
            return opened.status, tuple(opened.state_hash(tick) for tick in ticks)
    except UnreadableError:
        return "unreadable", ()


def ensure_nothing_half(name: str, folder: Path, truth: Truth) -> str:
    """Check that what a killed call left is whole and right where it passes for whole. Returns what there is, in words."""
    if name == "verify":
        assert made_by(folder) == truth.made
        return "nothing written"
    output = folder / "out"
    if not output.exists():
        return "no output"
    if name == "extract":
        assert made_by(folder) == truth.made, "a data set that is not whole has its name"
        return DATA_SET
    tapes = sorted(output.glob("*.tape"))
    for tape in tapes:
        expected = truth.made[str(tape.relative_to(folder))]
        if name == "generate":
            assert hashlib.sha256(tape.read_bytes()).hexdigest() == expected, f"{tape} is not whole"
            continue
        status, hashes = hashes_of(tape)
        assert status != "corrupt", f"{tape}: {status}"
        assert hashes == expected[1][: len(hashes)], f"{tape}: other states"
        assert status != "intact" or hashes == expected[1], f"{tape} is not whole"
    manifest = output / "manifest.json"
    if manifest.exists():
        assert without_attempts(json.loads(manifest.read_bytes())) == truth.made["out/manifest.json"]
    return f"{len(tapes)} tapes"
