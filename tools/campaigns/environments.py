"""Record public environments, seek in a fresh process, and compare with an independent log of the live run.

Each environment is played with random seeded actions over several resets and recorded. Next to the recording a plain
loop keeps a log: what each call returned, and a digest of every value of the environment (value_walk.py, which uses no
code of the recorder). Another process, with a different PYTHONHASHSEED, seeks random ticks, compares, makes further
steps with the same actions, and compares again. The same run without a recorder has to be equal, too.

    pip install --group environments
    python tools/campaigns/environments.py [--only NAME ...] [--seeds N] [--steps N] [--json FILE]

Exit code 1 if a restored state is wrong, a seek raises at level "exact", a tape does not verify, or recording changes
the run. Refused environments and missing packages are listed and are no failure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
from environment_list import ENTRIES, NOT_INSTALLABLE, Entry
from rich.console import Console
from rich.progress import track
from rich.table import Table

HERE = Path(__file__).parent
PLAIN_RUNS = 6  # Processes that repeat a run without a recorder before a wrong state is held against the recorder.


@attrs.frozen
class Outcome:
    """The result for one environment.

    Attributes:
        name: of the entry.
        record, seek: the results of both processes; seek is None if nothing was recorded.
        error: of a process that failed, else empty.
        seconds: the time of both.
    """

    name: str
    record: dict[str, Any] | None
    seek: dict[str, Any] | None
    error: str = ""
    seconds: float = 0.0

    def summary(self) -> str:
        """One line while the matrix runs."""
        problems = self.problems()
        return f"{self.level}, {'WRONG: ' + problems[0] if problems else 'right'}, {self.seconds:.0f} s"

    @property
    def level(self) -> str:
        """The level of the recording, or the refusal."""
        if self.record is None:
            return "failed"
        options = self.record["options"]
        if options is None:
            return "refused"
        return ", ".join(str(options.get("level", "exact")).split() + ["trust"] * options.get("trust", False))

    @property
    def is_deterministic(self) -> bool:
        """True unless plain runs with the same seeds and actions differ: inputs cannot repeat such a run."""
        return not (self.record or {}).get("random")

    @property
    def wrong_state_verifies(self) -> bool:
        """True if a seek gave a wrong state, and verify found nothing, although the recording claims more than inputs."""
        is_claimed = self.level != "inputs_only" or self.is_deterministic
        return bool(is_claimed and self.seek and self.seek["wrong"] and any(self.seek["verified"]))

    def problems(self) -> list[str]:
        """What is a failure of the recorder."""
        if self.error:
            return [self.error]
        assert self.record is not None
        found = [f"recording changes the run: {self.record['changed']}"] if self.record.get("changed") else []
        if self.seek is None:
            return found
        is_exact, is_deterministic = self.level != "inputs_only", self.is_deterministic
        counts = {name: self.seek[name] for name in ("wrong", "raised", "false_desyncs")}
        is_wrong = counts["wrong"] and (is_deterministic or self.wrong_state_verifies)
        if is_wrong or counts["false_desyncs"] or (counts["raised"] and is_exact and is_deterministic):
            found += self.seek["messages"][:4]
        if not all(self.seek["verified"]) and is_exact and is_deterministic:
            found.append(f"verify: {self.seek['verified']}")
        return found


def run_half(half: str, entry: Entry, folder: Path, options: argparse.Namespace, hash_seed: int) -> dict[str, Any]:
    """Run one half in a process with this hash seed. Raises RuntimeError if it fails."""
    arguments = [half, entry.name, str(folder), str(options.seeds), str(options.steps), str(options.seeks)]
    # Files and a session of its own: some packages start programs, which outlive it and would keep pipes open.
    with (folder / f"{half}.out").open("w+") as output, (folder / f"{half}.err").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, HERE / "environment_runs.py", *arguments, str(options.trust)],
            env=os.environ | {"PYTHONHASHSEED": str(hash_seed), "SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "disable"},
            cwd=folder,  # Some packages write files into the working directory.
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(options.timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        errors.seek(0)
        lines, words = output.read().strip().splitlines(), errors.read().strip().splitlines()
    if code != 0 or not lines:
        raise RuntimeError(f"{half}: exit code {code}: {(words or ['no message'])[-1][:400]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def judge(entry: Entry, options: argparse.Namespace) -> Outcome:
    """Record and seek one environment."""
    record, seek, failure, start = None, None, "", time.monotonic()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".environments-") as name:
        try:
            record = run_half("record", entry, Path(name), options, hash_seed=1)
            seek = run_half("seek", entry, Path(name), options, hash_seed=2) if record["options"] is not None else None
            if seek is not None and seek["wrong"] and not record["random"]:
                record["random"] = find_random_value(entry, Path(name), options)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failure = str(error)
    return Outcome(entry.name, record, seek, failure, time.monotonic() - start)


def find_random_value(entry: Entry, folder: Path, options: argparse.Namespace) -> str:
    """Play the recorded runs again without a recorder; where the first one differs from the log, or nothing.

    What differs between processes alone, as what was in memory before it, two runs of one process do not show.
    """
    for number in range(PLAIN_RUNS):
        found = run_half("play", entry, folder, options, hash_seed=3 + number)["random"]
        if found:
            return str(found)
    return ""


def print_table(outcomes: list[Outcome], console: Console) -> None:
    """Print a line for each environment."""
    table = Table("environment", "level", title_justify="left")
    for name in ("steps", "resets", "seeks", "wrong", "raised", "false desync", "verify", "plain µs", "recorded µs"):
        table.add_column(name, justify="right")
    for outcome in sorted(outcomes, key=lambda one: one.level):
        record, seek = outcome.record or {}, outcome.seek or {}
        cells = [str(record.get("steps", "–")), str(record.get("resets", "–")), *(
            str(seek.get(name, "–")) for name in ("seeks", "wrong", "raised", "false_desyncs")
        )]  # fmt: skip
        cells.append({True: "ok", False: "NOT OK"}[all(seek["verified"])] if seek else "–")
        cells += [f"{record[name]:,.0f}" if name in record else "–" for name in ("plain_us", "recorded_us")]
        table.add_row(outcome.name, outcome.level, *cells, style="bold red" if outcome.problems() else None)
    console.print(table)


def print_notes(outcomes: list[Outcome], console: Console) -> None:
    """Print the refusals, the warnings and the problems."""
    for outcome in outcomes:
        record = outcome.record or {}
        lines = [f"refused {text}" for text in record.get("refused", [])]
        lines += [f"warned: {text}" for text in record.get("notes", [])]
        lines += [f"not deterministic: {record['random']}"] if record.get("random") else []
        lines += [f"the log cannot look into {', '.join(record['opaque'])}"] if record.get("opaque") else []
        lines += ["A WRONG STATE VERIFIES"] if outcome.wrong_state_verifies else []
        lines += [f"WRONG: {text}" for text in outcome.problems()]
        for line in lines:
            console.print(f"{outcome.name}: {line}", markup=False, highlight=False)


def write_json(path: Path, outcomes: list[Outcome], absent: dict[str, str]) -> None:
    """Write all results so far."""
    rows = [attrs.asdict(one) | {"level": one.level, "problems": one.problems()} for one in outcomes]
    path.write_text(json.dumps({"environments": rows, "absent": absent}, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Run the matrix; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="*", default=[], help="only environments whose name contains one of these words"
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of each environment")
    parser.add_argument("--steps", type=int, default=200, help="calls in a run, resets included")
    parser.add_argument("--seeks", type=int, default=8, help="random ticks that are sought in each run")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for each of the two processes")
    parser.add_argument("--trust", action="store_true", help="try pickle for what is refused otherwise")
    parser.add_argument("--jobs", type=int, default=1, help="environments at once")
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    options = parser.parse_args()
    console = Console(stderr=True)
    chosen = [entry for entry in ENTRIES if not options.only or any(word in entry.name for word in options.only)]
    if not chosen:
        parser.error(f"no environment has one of these words in its name: {', '.join(options.only)}")
    missing = sorted({entry.package for entry in chosen if not entry.is_installed})
    installed = [entry for entry in chosen if entry.is_installed]
    absent = dict.fromkeys(missing, "not installed: pip install --group environments") | NOT_INSTALLABLE
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda entry: judge(entry, options), installed)
        outcomes = []
        for outcome in track(results, "environments", total=len(installed), console=console, transient=True):
            outcomes.append(outcome)
            console.print(f"{outcome.name}: {outcome.summary()}", markup=False, highlight=False)
            if options.json:
                write_json(options.json, outcomes, absent)
    print_table(outcomes, Console(width=160))
    print_notes(outcomes, Console(width=160, soft_wrap=True))
    for name, why in absent.items():
        print(f"{name}: {why}")
    wrong = [outcome for outcome in outcomes if outcome.problems()]
    levels = [outcome.level for outcome in outcomes]
    counts = ", ".join(f"{levels.count(level)} {level}" for level in dict.fromkeys(sorted(levels)))
    print(f"{len(outcomes)} environments: {counts}; wrong: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
