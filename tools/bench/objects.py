"""The cost of recording plain objects, next to the plain run and to pickling the same objects each tick.

Games of 200, 2,000 and 20,000 units (unit_games.py), of which 0, 1, 10 or 100 % change in a tick, and with births and
deaths. Three ways take turns (turns.py), each in a separate process:

    plain      the game alone: its whole time, so that a capture that slows the game's own writes shows
    pickle     the game, then pickle.dumps(vars(game), 5)
    recorded   the game, recorded with record(game, path, fields()); with trust=True only if it is refused otherwise

Times are CPU times of the simulation's thread, which other load affects least; p99 is by the clock. The ratio is
(recorded - plain) / pickle.dumps. Recorded is the p50 of ticks without a keyframe plus a 300th of what a keyframe adds;
keyframes are closer together here, to have enough of them. CartPole and a MiniGrid environment are measured plain and
recorded, by the clock. Memory is that of the recorded run beyond the plain one, at the end; "grown" is how much of it
was added after the first turn. The CPU time of ``replay verify`` includes its children; the start is that of a tape of one tick.

    python tools/bench/objects.py [--only units-200 ...] [--quick] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pickle
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import tables
import turns
import unit_games

HERE = Path(__file__).parent
KEYFRAME_EVERY = 300  # The default: what a keyframe adds counts once in so many ticks.
SIZES = {"units-200": 200, "units-2000": 2_000, "units-20000": 20_000}
PLANS = {
    "units-200": turns.TurnPlan(200, 12, slice_s=1.0),
    "units-2000": turns.TurnPlan(50, 12, slice_s=1.5),
    "units-20000": turns.TurnPlan(10, 10, slice_s=3.0),
    "CartPole": turns.TurnPlan(500, 20),
    "MiniGrid": turns.TurnPlan(500, 20),
    "verify": turns.TurnPlan(1_000, 3),
}
QUICK_SIZES, QUICK_CHANGES = ("units-200", "units-2000"), ("10 %", unit_games.BIRTHS)
ENVIRONMENTS = {"CartPole": "CartPole-v1", "MiniGrid": "MiniGrid-DoorKey-8x8-v0"}
PACKAGES = {"CartPole": "gymnasium", "MiniGrid": "minigrid"}

# The targets.
PICKLES_MAX = {200: 1.5, 2_000: 1.0, 20_000: 1.0}
PICKLES_MAX_IF_MANY_CHANGE = 3.0  # 100 %, births.
MINIGRID_MAX = 2.0  # Times the plain step.
CARTPOLE_MAX_US = 5.0  # Beyond the plain step.
VERIFY_MAX = 1.5  # Times the CPU time of the plain run, beyond the start of verify.

Row = dict[str, Any]


@attrs.frozen
class Line:
    """A target: what was measured, the value, the limit, met or not."""

    what: str
    measured: str
    limit: str
    met: bool = attrs.field(converter=bool)


# --- the ways, each in a process of its own


class GameWay:
    """A game: alone, pickled, or recorded. A Runner of turns.py."""

    def __init__(self, folder: Path, *, way: str, unit_count: int, change: str, interval: int) -> None:
        """interval: ticks from one keyframe to the next."""
        import recorder  # noqa: F401, PLC0415 - its modules are in memory in all ways: the capture's memory counts

        self.step_ns = 0
        self._way, self._interval = way, interval
        self._game: Any = unit_games.make_game(unit_count, change)
        self._folder, self._figures = folder, {"trust": False}
        self._before_bytes, self._warm_bytes = turns.rss_bytes(), 0
        if way == "recorded":
            from sim.adapters import fields  # noqa: PLC0415 - see above

            self._game, self._figures["trust"] = unit_games.record_object(
                self._game, folder / "game.tape", fields(), keyframe_interval_ticks=interval
            )
        self._cpu_ns: dict[str, list[int]] = {"tick": [], "keyframe": [], "pickle": []}
        self._process_ns = self._pickle_bytes = 0

    def tick(self, tick: int) -> None:
        """Step; pickle."""
        start_ns = time.thread_time_ns()
        self._game.step(None)
        kind, stepped_ns = "keyframe" if self.is_keyframe(tick) else "tick", time.thread_time_ns()
        self._cpu_ns[kind].append(stepped_ns - start_ns)
        if self._way == "pickle":
            self._pickle_bytes = len(pickle.dumps(vars(self._game), 5))
            self._cpu_ns["pickle"].append(time.thread_time_ns() - stepped_ns)

    def after(self, tick: int) -> None:
        """Forget what the first turn cost: it pays for first accesses to memory and files."""
        if tick == self._interval:
            self._warm_bytes = turns.rss_bytes()
            self._process_ns = time.process_time_ns()
            for times in self._cpu_ns.values():
                times.clear()

    def is_keyframe(self, tick: int) -> bool:
        """True for the recorded game's keyframes."""
        return self._way == "recorded" and tick % self._interval == 0

    def finish(self) -> dict[str, Any]:
        """Close the tape. Return the CPU times and the memory."""
        process_ns, memory = time.process_time_ns() - self._process_ns, turns.rss_bytes()
        times = self._cpu_ns
        of_thread_ns, count = sum(map(sum, times.values())), max(1, len(times["tick"]) + len(times["keyframe"]))
        if self._way == "recorded":
            self._game.close()
        return {
            **self._figures,
            **{f"{kind}_us": statistics.median(found) / 1e3 if found else None for kind, found in times.items()},
            "others_us": max(0, process_ns - of_thread_ns) / count / 1e3,
            "memory_bytes": memory - self._before_bytes,
            "grown_bytes": memory - self._warm_bytes if self._warm_bytes else 0,
            "pickle_bytes": self._pickle_bytes,
            "size_bytes": turns.folder_bytes(self._folder),
        }


class EnvironmentWay:
    """A Gymnasium environment with random actions: alone or recorded. Only its steps count, not its resets."""

    def __init__(self, folder: Path, *, way: str, name: str) -> None:
        """name: the id in Gymnasium's registry."""
        import gymnasium  # noqa: PLC0415 - in this process only

        warnings.simplefilter("ignore")
        if name.startswith("MiniGrid"):
            importlib.import_module("minigrid")
        self.step_ns = 0
        env: Any = gymnasium.make(name)
        self._env = env
        if way == "recorded":
            import recorder  # noqa: PLC0415 - not in the process of the plain run

            self._env = recorder.record(env, folder / "env.tape", quiet=True)
        chance = random.Random(1)
        self._actions = [chance.randrange(int(env.action_space.n)) for _ in range(10_000)]
        self._env.reset(seed=1)
        self._over, self._folder = False, folder

    def tick(self, tick: int) -> None:
        """One step."""
        _, _, terminated, truncated, _ = self._env.step(self._actions[tick % 10_000])
        self._over = terminated or truncated

    def after(self, _: int) -> None:
        """Reset after the end of an episode."""
        if self._over:
            self._env.reset()

    def is_keyframe(self, _: int) -> bool:
        """Keyframes come at the default interval, and count."""
        return False

    def finish(self) -> dict[str, Any]:
        """Close."""
        self._env.close()
        return {"size_bytes": turns.folder_bytes(self._folder)}


# --- the figures


def measure_games(name: str, change: str, plan: turns.TurnPlan) -> Row:
    """The figures of one game: all three ways, in turns."""
    unit_count = SIZES[name]
    makes: dict[str, turns.Make] = {
        way: partial(GameWay, way=way, unit_count=unit_count, change=change, interval=plan.slice_ticks)
        for way in ("plain", "pickle", "recorded")
    }
    taken = turns.take_turns(makes, plan, f"{name}, {change}")
    problem = next((f"{way}: {one.problem}" for way, one in taken.items() if one.problem), "")
    if problem:
        return {"units": unit_count, "changing": change, "problem": problem}
    plain, pickled, recorded = (taken[way] for way in ("plain", "pickle", "recorded"))
    plain_us, pickle_us = plain.figures["tick_us"], pickled.figures["pickle_us"]
    keyframe_us = recorded.figures["keyframe_us"] or recorded.figures["tick_us"]
    recorded_us = recorded.figures["tick_us"] + (keyframe_us - recorded.figures["tick_us"]) / KEYFRAME_EVERY
    clock = {way: statistics.median(one.whole_us) for way, one in taken.items()}
    return {
        "units": unit_count,
        "changing": change,
        "plain, µs": plain_us,
        "pickle, µs": pickle_us,
        "recorded, µs": recorded_us,
        "p99, µs": float(np.percentile(recorded.whole_us, 99)),
        "keyframe, µs": keyframe_us,
        "added ÷ pickle": (recorded_us - plain_us) / pickle_us,
        "by the clock": (clock["recorded"] - clock["plain"]) / (clock["pickle"] - clock["plain"]),
        "other threads, µs": recorded.figures["others_us"] - plain.figures["others_us"],
        "pickle, MB": pickled.figures["pickle_bytes"] / 1e6,
        "memory, MB": (recorded.figures["memory_bytes"] - plain.figures["memory_bytes"]) / 1e6,
        "grown, MB": (recorded.figures["grown_bytes"] - plain.figures["grown_bytes"]) / 1e6,
        "tape, B": recorded.figures["size_bytes"] / recorded.ticks,
        "by pickle": "yes" if recorded.figures["trust"] else "no",
    }


def measure_environment(name: str, plan: turns.TurnPlan) -> Row:
    """The figures of one environment: plain and recorded, in turns."""
    if importlib.util.find_spec(PACKAGES[name]) is None:
        return {"environment": name, "problem": f"{PACKAGES[name]} is not installed"}
    ways = ("plain", "recorded")
    makes: dict[str, turns.Make] = {way: partial(EnvironmentWay, way=way, name=ENVIRONMENTS[name]) for way in ways}
    taken = turns.take_turns(makes, plan, name)
    problem = next((one.problem for one in taken.values() if one.problem), "")
    if problem:
        return {"environment": name, "problem": problem}
    plain_us, recorded_us = (statistics.median(taken[way].whole_us) for way in ways)
    return {
        "environment": ENVIRONMENTS[name],
        "plain, µs": plain_us,
        "recorded, µs": recorded_us,
        "p99, µs": float(np.percentile(taken["recorded"].whole_us, 99)),
        "added, µs": recorded_us - plain_us,
        "recorded ÷ plain": recorded_us / plain_us,
        "tape, B a tick": taken["recorded"].figures["size_bytes"] / taken["recorded"].ticks,
    }


def measure_verify(plan: turns.TurnPlan) -> Row:
    """CPU seconds of replay verify, of its start, and of the plain run: the medians of several."""
    ticks, runs = plan.slice_ticks, plan.rounds
    figures: dict[str, list[float]] = {"plain run": [], "verify": [], "verify --values": [], "its start": []}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        for tape, count in (("long.tape", ticks), ("short.tape", 1)):
            record_verified(Path(name) / tape, count)
        for _ in range(runs):
            figures["plain run"].append(plain_cpu_s(ticks))
            figures["verify"].append(verify_cpu_s(Path(name) / "long.tape"))
            figures["verify --values"].append(verify_cpu_s(Path(name) / "long.tape", "--values"))
            figures["its start"].append(verify_cpu_s(Path(name) / "short.tape"))
    medians = {f"{name}, CPU s": statistics.median(times) for name, times in figures.items()}
    start_s, plain_s = medians["its start, CPU s"], medians["plain run, CPU s"]
    ratios = {
        f"({way} - start) ÷ plain": (medians[f"{way}, CPU s"] - start_s) / plain_s
        for way in ("verify", "verify --values")
    }
    game = f"{unit_games.VERIFIED[0]:,} units, {unit_games.VERIFIED[1]}, {ticks:,} ticks"
    return {"verify": game, **medians, **ratios}


def record_verified(path: Path, ticks: int) -> None:
    """Record the game that is verified."""
    from sim.adapters import fields  # noqa: PLC0415 - the children of the other benches do without

    game, _ = unit_games.record_object(unit_games.make_game(*unit_games.VERIFIED), path, fields())
    for _ in range(ticks):
        game.step(None)
    game.close()


def plain_cpu_s(ticks: int) -> float:
    """CPU time of the steps alone."""
    game = unit_games.make_game(*unit_games.VERIFIED)
    start_s = time.process_time()
    for _ in range(ticks):
        game.step(None)
    return time.process_time() - start_s


def verify_cpu_s(path: Path, *options: str) -> float:
    """CPU time of the command, with all its children. Raises CalledProcessError if it does not verify."""
    before = os.times()
    command = "import replayer.commands.main; replayer.commands.main.main()"
    subprocess.run(
        [sys.executable, "-c", command, "verify", str(path), "--sim", "unit_games:verify_world", *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


# --- the targets and the output


def targets(rows: list[Row]) -> list[Line]:
    """Compare all figures with the targets."""
    lines = []
    for row in rows:
        if row.get("problem"):
            name = ", ".join(str(row[key]) for key in ("units", "changing", "environment", "verify") if key in row)
            lines.append(Line(f"{name}: {row['problem']}", "–", "–", met=False))
        elif "units" in row:
            many = row["changing"] in ("100 %", unit_games.BIRTHS)
            limit = PICKLES_MAX_IF_MANY_CHANGE if many else PICKLES_MAX[row["units"]]
            what = f"{row['units']:,} units, {row['changing'].replace('%', '% changing')}"
            lines.append(_line(what, row["added ÷ pickle"], limit, "× pickle.dumps"))
        elif "verify" in row:
            for way in ("verify", "verify --values"):
                ratio = row[f"({way} - start) ÷ plain"]
                lines.append(_line(f"replay {way}, {row['verify']}", ratio, VERIFY_MAX, "× the plain run's CPU"))
        elif row["environment"] == ENVIRONMENTS["CartPole"]:
            lines.append(_line("CartPole", row["added, µs"], CARTPOLE_MAX_US, "µs a step added"))
        else:
            lines.append(_line(row["environment"], row["recorded ÷ plain"], MINIGRID_MAX, "× a plain step"))
    return lines


def _line(what: str, value: float, limit: float, unit: str) -> Line:
    return Line(what, f"{value:.2f} {unit}", f"{limit:g}", value <= limit)


def groups_of(rows: list[Row]) -> list[list[Row]]:
    """The rows of one table each: those with equal columns. Rows without figures are left out."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if not row.get("problem"):
            groups.setdefault(tuple(row), []).append(row)
    return list(groups.values())


def hand_out(rows: list[Row], options: argparse.Namespace) -> None:
    """Print the tables, and write the requested files."""
    lines = targets(rows)
    goals = [{"what": one.what, "measured": one.measured, "at most": one.limit, "met": _yes(one)} for one in lines]
    for title, group in [("plain objects", group) for group in groups_of(rows)] + [("targets", goals)]:
        tables.print_table(title, group)
    if options.json:
        tables.write_json(options.json, {"rows": rows, "targets": [attrs.asdict(line) for line in lines]})
    if options.markdown:
        parts = [tables.facts_line() + "\n", *map(tables.markdown_table, [*groups_of(rows), goals])]
        options.markdown.write_text("\n".join(parts), encoding="utf-8")


def _yes(line: Line) -> str:
    return "yes" if line.met else "**no**"


def measure(name: str, plan: turns.TurnPlan, changes: list[str]) -> list[Row]:
    """All rows of one name in PLANS."""
    if name in SIZES:
        return [measure_games(name, change, plan) for change in changes]
    return [measure_verify(plan) if name == "verify" else measure_environment(name, plan)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PLANS, help="these groups; all by default")
    parser.add_argument("--changes", nargs="*", choices=unit_games.CHANGES, help="only games with these changes a tick")
    parser.add_argument("--quick", action="store_true", help="a sixth of the turns, small games, two kinds of changes")
    parser.add_argument("--rounds", type=int, help="turns of each way, instead of the usual number")
    parser.add_argument("--slice", type=int, help="ticks of a turn, instead of the usual number")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    options = parser.parse_args()
    changes = options.changes or list(QUICK_CHANGES if options.quick else unit_games.CHANGES)
    rows: list[Row] = []
    for name in options.only or [
        name for name in PLANS if not options.quick or name not in SIZES or name in QUICK_SIZES
    ]:
        plan = PLANS[name]
        rounds = options.rounds or (max(2, plan.rounds // 6) if options.quick else plan.rounds)
        slice_ticks = options.slice or (max(10, plan.slice_ticks // 5) if options.quick else plan.slice_ticks)
        rows += measure(name, attrs.evolve(plan, rounds=rounds, slice_ticks=slice_ticks), changes)
    hand_out(rows, options)


if __name__ == "__main__":
    main()
