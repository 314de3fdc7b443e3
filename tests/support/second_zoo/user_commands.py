"""A specimen recorded and investigated as a user does it: scripts that play it, and the command line, each a process."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import attrs

from second_zoo.specimen import ENV_ACTION, Conditions, Specimen

PLAIN_LOOP = Path(__file__).with_name("plain_loop.py")
# Nothing here runs for half a second alone; on a busy machine the slowest answers took a minute.
LIMIT_S = 240.0
KILLED = -9
UNTRIED = "--untried"  # What scripted specimens know: record without the trial.

OBJECT_PLAY = """\
import recorder
import {module}

game = recorder.record({module}.{make}(), "{tape}", {options})
for tick in range(1, {ticks} + 1):
{between}{step}
game.close()
"""
OWN_PLAY = """\
import recorder
import {module}

game = {module}.{make}()
with recorder.Recorder("{tape}", game, {options}) as tape:
    for tick in range(1, {ticks} + 1):
{between}        tape.step({inputs})
"""
ENV_STEP = """\
    if tick == 1:
        result = {reset}
        over = False
    elif over:
        game.reset()
        over = False
    else:
        result = game.step({inputs})
        over = result[2] or result[3]"""


@attrs.frozen
class Answer:
    """What one command did.

    Attributes:
        name: of the step: record, retried, check, verify, explain, diff.
        command: as a shell line, run in the specimen's folder.
        code: its exit code; KILLED if it took longer than the limit.
        output: what it printed, on both streams.
        seconds: wall time.
    """

    name: str
    command: str
    code: int
    output: str
    seconds: float


def environment(conditions: Conditions) -> dict[str, str]:
    """The environment of a process: the present one without the variables that specimens vary, and the declared ones."""
    present = {key: value for key, value in os.environ.items() if key not in {"PYTHONHASHSEED", "COLUMNS"}}
    paths = [path for path in (conditions.env.get("PYTHONPATH"), present.get("PYTHONPATH")) if path]
    path = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    return {**present, **conditions.env, **path, "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"}


def run(name: str, command: list[str], folder: Path, conditions: Conditions) -> Answer:
    """Run one command; one that takes too long is killed with all its children."""
    start_s = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(conditions),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, code = process.communicate()[0], KILLED
    prefix = "".join(f"{key}={shlex.quote(value)} " for key, value in conditions.env.items())
    shown = [Path(command[0]).name, *command[1:]]
    return Answer(name, prefix + shlex.join(shown), code, output, time.monotonic() - start_s)


def plan_of(specimen: Specimen, make: str = "make", inputs: str = "") -> dict[str, Any]:
    """The plan of the plain loop."""
    return {
        "module": specimen.name,
        "make": make,
        "step": specimen.step,
        "kind": specimen.kind,
        "ticks": specimen.ticks,
        "keyframes": specimen.keyframes,
        "inputs": inputs or specimen.inputs or (ENV_ACTION if specimen.kind == "env" else ""),
        "reset": specimen.reset,
        "between": specimen.between,
        "between_is_input": specimen.is_sound,
        "catches": specimen.catches,
        "from": specimen.plain_from,
        "takes_inputs": specimen.is_stepped_by_recorder or bool(specimen.inputs),
        "restores": specimen.kind != "peers" and specimen.restores,
    }


def plain_truth(specimen: Specimen, folder: Path) -> int | None:
    """The first tick that differs without the recorder, None if none does. Raises RuntimeError if the loop fails."""
    here, other = folder / "plain", folder / "plain-other"
    specimen.lay_out(here, other)
    parts = [("live", specimen.record, here, plan_of(specimen))]
    is_peer = specimen.kind == "peers"
    replayed = plan_of(specimen, "make_other" if is_peer else "make", specimen.other_inputs)
    parts.append(("replay", specimen.replay, other if specimen.other_code else here / specimen.replay.place, replayed))
    printed = ""
    for part, conditions, place, plan in parts:
        if part == "replay":
            change_folder(specimen, here)
        (folder / f"{part}.json").write_text(json.dumps(plan), encoding="utf-8")
        command = [sys.executable, str(PLAIN_LOOP), part, str(folder / f"{part}.json"), str(folder / "kept")]
        answer = run(part, command, place, conditions)
        if answer.code:
            raise RuntimeError(f"{specimen.name}: the plain loop fails:\n{answer.output}")
        printed = answer.output
    return json.loads(printed.splitlines()[-1])  # type: ignore[no-any-return]


def change_folder(specimen: Specimen, folder: Path) -> None:
    """Change the files as the declared replay has it."""
    specimen.edit(folder)
    if specimen.replay.run:
        subprocess.run([sys.executable, "-c", specimen.replay.run], cwd=folder, check=True)


def play_script(specimen: Specimen, *, tape: str, make: str = "make", inputs: str = "", trial: bool = True) -> str:
    """The script that records a specimen."""
    inputs = inputs or specimen.inputs or (ENV_ACTION if specimen.kind == "env" else "")
    is_own = specimen.is_stepped_by_recorder
    options: dict[str, Any] = {"keyframe_interval_ticks": specimen.keyframes, **specimen.record.options}
    if not trial:
        options["trial_ms"] = 0
    if not is_own and specimen.kind != "env":
        options["step"] = specimen.step
    indent = "        " if is_own else "    "
    between = "".join(f"{indent}{line}\n" for line in specimen.between.strip().splitlines())
    step = f"    game.{specimen.step}({inputs})"
    if specimen.kind == "env":
        step = ENV_STEP.format(reset=specimen.reset, inputs=inputs)
    elif specimen.catches:
        step = f"    try:\n        game.step({inputs})\n    except {specimen.catches}:\n        pass"
    return (OWN_PLAY if is_own else OBJECT_PLAY).format(
        module=specimen.name,
        make=make,
        tape=tape,
        options=", ".join(f"{key}={value!r}" for key, value in options.items()),
        ticks=specimen.ticks,
        between=between,
        inputs=inputs or "None",
        step=step,
    )


def record(specimen: Specimen, folder: Path) -> list[Answer]:
    """Record it, or both peers; once more without the trial if the recording was refused."""
    answers = []
    peers = [("run.tape", "make", "", folder)]
    if specimen.kind == "peers":
        place = folder / "other" if specimen.other_code else folder
        peers = [("host.tape", "make", "", folder), ("guest.tape", "make_other", specimen.other_inputs, place)]
    for tape, make, inputs, place in peers:
        script = f"play_{tape.partition('.')[0]}.py"
        for trial in (True, False):
            (place / script).write_text(
                play_script(specimen, tape=tape, make=make, inputs=inputs, trial=trial), encoding="utf-8"
            )
            answers.append(run("record" if trial else "retried", [sys.executable, script], place, specimen.record))
            if not answers[-1].code:
                break
    return answers


def investigate(specimen: Specimen, folder: Path, *, commands: tuple[str, ...] = ()) -> list[Answer]:
    """Record a specimen and ask about it; the answers in the order in which they were given.

    Args:
        specimen: to record.
        folder: an empty folder.
        commands: the commands to run, of check, verify, explain, diff. Empty: all that apply.
    """
    specimen.lay_out(folder, folder / "other")
    if specimen.kind == "scripted":
        return run_scripted(specimen, folder, commands)
    answers = record(specimen, folder)
    if answers[-1].code:
        return answers
    replay, sim = str(Path(sys.executable).with_name("replay")), ["--sim", f"{specimen.name}:make"]
    place = folder / specimen.replay.place
    tape = os.path.relpath(folder / "run.tape", place)
    if specimen.kind == "peers":
        guest = "other/guest.tape" if specimen.other_code else "guest.tape"
        other = ["--other-sim", f"{specimen.name}:make_other"]
        if specimen.other_code:
            other += ["--other-code", "other"]
        asked = {
            "diff": [replay, "diff", "host.tape", guest, *sim],
            "explain": [replay, "explain", "host.tape", guest, *sim, *other],
        }
    else:
        asked = {
            "check": [replay, "check", f"{specimen.name}:make", "--inputs", "run.tape"],
            "verify": [replay, "verify", tape, *sim],
            "explain": [replay, "explain", tape, *sim, *specimen.replay.explain],
        }
    has_changed = False
    for name, command in asked.items():
        if commands and name not in commands:
            continue
        if name != "check" and not has_changed:
            change_folder(specimen, folder)
            has_changed = True
        is_check = name == "check"
        answers.append(
            run(name, command, folder if is_check else place, specimen.record if is_check else specimen.replay)
        )
    return answers


def run_scripted(specimen: Specimen, folder: Path, commands: tuple[str, ...]) -> list[Answer]:
    """Record and ask by the commands that the specimen has. commands: as of investigate()."""
    answers = []
    for number, entry in enumerate(specimen.recorded):
        answers.append(run_line("record" if not number else "retried", entry, folder))
        if answers[-1].code and any(UNTRIED in source for source in specimen.files.values()):
            # How much of a run the trial sees depends on the machine's load: it may refuse what it let pass before.
            answers.append(run_line("retried", {**entry, "cmd": f"{entry['cmd']} {UNTRIED}"}, folder))
        if answers[-1].code:
            return answers
    for entry in specimen.asked:
        words = shlex.split(entry["cmd"].partition("replay ")[2])
        if commands and words[0] not in commands:
            continue
        for key in ("before", "after"):
            if key == "after":
                answers.append(run_line(words[0], entry, folder))
            if key in entry:
                subprocess.run(entry[key], shell=True, cwd=folder, check=True)
    return answers


def run_line(name: str, entry: dict[str, Any], folder: Path) -> Answer:
    """Run one command line of a scripted specimen by a shell that finds the commands of this environment first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    conditions = Conditions(env={**entry["env"], "PATH": path})
    answer = run(name, ["bash", "-c", entry["cmd"]], folder, conditions)
    shown = "".join(f"{key}={shlex.quote(value)} " for key, value in entry["env"].items())
    return attrs.evolve(answer, command=shown + entry["cmd"])
