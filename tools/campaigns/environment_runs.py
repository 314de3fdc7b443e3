"""The parts of the campaign environments.py, each in a separate process: record with a log of the truth, then seek.

The part `play` repeats the recorded runs without a recorder, and says where they differ from the log.

    python tools/campaigns/environment_runs.py record|seek|play NAME FOLDER SEEDS STEPS SEEKS TRUST

The log is kept by a plain loop next to the recording: what each call returned, and digests of all values of the
environment (value_walk.py). The last line on stdout is the result as JSON.
"""

from __future__ import annotations

import copy
import json
import pickle
import random
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from environment_list import UNREAD, Entry, entry_of
from value_walk import Walk, digest, first_difference, texts_of

import recorder
import replayer
from sim.adapters import NotCapturedError, adapt

# How a run is recorded, by the number of its seed. Keyframes are close together, so that most of them are restored.
RECORDINGS: tuple[dict[str, Any], ...] = (
    {"keyframe_interval_ticks": 16},
    {"keyframe_interval_ticks": 5, "mode": "changes"},
    {"keyframe_interval_ticks": 1, "full_every": 3},
)
EARLY_RESET = 0.02  # The chance that a player resets before the episode is over.
FURTHER_STEPS = 12  # After a seek.
TEXTS_MAX = 60_000  # Texts of one tick that are kept to name a difference; beyond that, only attributes are named.

Call = tuple[str, Any]  # ("reset", seed or None) or ("step", action)


class Player:
    """Play an environment of one of the four kinds, at random, and read its results."""

    def __init__(self, kind: str, env: Any, seed: int, *, always_seeds: bool = False) -> None:
        """env: whose spaces are sampled. always_seeds: every reset has a seed, not only the first and every second."""
        self._kind, self._env, self._seed, self._always_seeds = kind, env, seed, always_seeds
        self._chance = random.Random(f"{kind} {seed}")
        self._spaces: dict[Any, Any] = {}  # Copies: drawing from the environment's own would change it.
        self._resets = 0
        self._masks: dict[Any, Any] = {}
        self._over = kind != "mesa"

    def next_call(self, result: list[Any]) -> Call:
        """Choose the next call from the last result."""
        if self._kind == "mesa":
            return ("step", None)
        if self._over or self._chance.random() < EARLY_RESET:
            self._resets += 1
            seeded = self._always_seeds or self._resets % 2 == 1
            return ("reset", self._seed + 1000 * self._resets if seeded else None)
        if self._kind == "parallel":
            return ("step", {agent: self._sample(agent) for agent in self._env.agents})
        if self._kind == "aec":
            return ("step", None if result[3] or result[4] else self._sample(result[0]))
        return ("step", self._sample(None))

    def _sample(self, agent: Any) -> Any:
        if agent not in self._spaces:
            space = self._env.action_space if agent is None else self._env.action_space(agent)
            self._spaces[agent] = copy.deepcopy(space)
            self._spaces[agent].seed(self._seed + len(self._spaces))
        mask = self._masks.get(agent)
        return self._spaces[agent].sample() if mask is None else self._spaces[agent].sample(mask)

    def do(self, target: Any, call: Call) -> list[Any]:
        """Make the call, and return what it returned, without the info. target: the environment, recorded or not."""
        name, argument = call
        if self._kind == "mesa":
            simulator = getattr(target, "simulator", None)
            if simulator is None or hasattr(target, "tape"):
                target.step()
            else:
                simulator.run_for(1)  # As the recorded model does it: the events of that time run, too.
            return []
        if name == "reset":
            returned = target.reset() if argument is None else target.reset(seed=argument)
        else:
            returned = target.step(argument)
        if self._kind == "gymnasium":
            result = [returned[0], 0.0, False, False] if name == "reset" else list(returned[:4])
            self._over = bool(result[2] or result[3])
            return result
        if self._kind == "parallel":
            result = [returned[0], None, None, None] if name == "reset" else list(returned[:4])
            self._over = not target.agents
            return result
        self._over = not target.agents
        agent = target.agent_selection if target.agents else None
        found = target.last() if agent is not None else (None,) * 5
        self._masks[agent] = mask_of(found[0], found[4])
        return [agent, *found[:4]]


def mask_of(observation: Any, info: Any) -> Any:
    """The mask of valid actions, if there is one."""
    holders = [item for item in (observation, info) if isinstance(item, dict) and "action_mask" in item]
    return np.array(holders[0]["action_mask"], np.int8) if holders else None


@attrs.define
class Log:
    """The truth about one run.

    Attributes:
        calls: by tick, from 1 on.
        results: digests of what they returned; that of tick 0 is empty.
        values: by tick, digests of the attributes.
        texts: of some ticks, the values themselves.
        sought: the ticks that will be sought.
        step_us: the durations of the steps.
        opaque: classes that the walk could not look into.
    """

    calls: list[Call] = attrs.field(factory=list)
    results: list[str] = attrs.field(factory=lambda: [""])
    values: list[dict[str, str]] = attrs.field(factory=list)
    texts: dict[int, dict[str, list[str]]] = attrs.field(factory=dict)
    sought: list[int] = attrs.field(factory=list)
    step_us: list[float] = attrs.field(factory=list)
    opaque: set[str] = attrs.field(factory=set)

    def add_values(self, entry: Entry, env: Any) -> None:
        """Note all values after a call."""
        walk = walk_of(entry, env)
        tick = len(self.values)
        self.values.append(walk.digests())
        self.opaque |= walk.opaque
        if tick in self.sought and sum(map(len, walk.parts.values())) <= TEXTS_MAX:
            self.texts[tick] = walk.parts


def walk_of(entry: Entry, env: Any) -> Walk:
    """Walk an environment and its wrappers, from the outermost on."""
    layers: dict[str, Any] = {}
    layer, links = env, frozenset[str]()
    while layer is not None:
        layers[type(layer).__name__ if type(layer).__name__ not in layers else f"{type(layer).__name__}~"] = layer
        link = next((name for name in ("env", "aec_env", "par_env") if _is_env(vars(layer).get(name))), None)
        links |= {link} if link else set()
        layer = vars(layer)[link] if link else None
    return Walk(layers, entry.skipped | UNREAD | links)


def _is_env(value: Any) -> bool:
    return hasattr(value, "reset") and hasattr(value, "step")


def play(entry: Entry, env: Any, live: Any, seed: int, steps: int, log: Log, *, always_seeds: bool) -> Log:
    """Play and log. env: the environment itself; live: the same, or the recording one around it."""
    player = Player(entry.kind, env, seed, always_seeds=always_seeds)
    result: list[Any] = []
    log.add_values(entry, env)
    for _ in range(steps):
        call = player.next_call(result)
        kept = copy.deepcopy(call)
        start = time.perf_counter_ns()
        result = player.do(live, call)
        if call[0] == "step":
            log.step_us.append((time.perf_counter_ns() - start) / 1e3)
        log.calls.append(kept)
        log.results.append(digest(texts_of(result)))
        log.add_values(entry, env)
    return log


def first_unlike(one: Log, other: Log) -> str:
    """The first tick at which two runs differ, and in what; empty if they are equal.

    Tick 0 does not count: many environments draw something without a seed when they are made.
    """
    for tick, (a, b) in list(enumerate(zip(one.values, other.values, strict=True)))[1:]:
        names = differing(a, b)
        if names or one.results[tick] != other.results[tick]:
            return f"tick {tick}: {', '.join(names[:4]) or 'the result'}"
    return ""


def differing(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """The names of attributes whose digests differ."""
    return [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]


# --- recording


def attempts(kind: str, *, trust: bool) -> list[dict[str, Any]]:
    """The options of record() to try, one after the other, until one is not refused."""
    trusted = [{"trust": True}] if trust or kind == "mesa" else []
    return [{}, *trusted, *([] if kind == "mesa" else [{"level": "inputs_only"}])]


def record_all(entry: Entry, folder: Path, seeds: int, steps: int, seeks: int, *, trust: bool) -> dict[str, Any]:
    """Record a run for each seed, with the first options that are not refused. Return what the table needs."""
    refused: list[str] = []
    for number, options in enumerate(attempts(entry.kind, trust=trust)):
        place = folder / str(number)  # A refusal can come after the first steps, when there is a tape already.
        place.mkdir()
        try:
            found = _record_with(entry, place, seeds, steps, seeks, options)
            return {"refused": refused, "options": options, "folder": place.name} | found
        except NotCapturedError as error:
            refused.append(f"{', '.join(f'{key}={value}' for key, value in options.items()) or 'exact'}: {error}")
    return {"refused": refused, "options": None}


def _record_with(
    entry: Entry, folder: Path, seeds: int, steps: int, seeks: int, options: dict[str, Any]
) -> dict[str, Any]:
    plain_us: list[float] = []
    recorded_us: list[float] = []
    notes: list[str] = []
    found: dict[str, Any] = {"changed": "", "random": "", "resets": 0}
    opaque: set[str] = set()
    always_seeds = options.get("level") == "inputs_only"
    for seed in range(seeds):
        chance = random.Random(f"{entry.name} {seed}")
        first = (
            1 if always_seeds else 0
        )  # Level inputs_only repeats the inputs since a reset: before it there are none.
        sought = [*chance.sample(range(first, steps + 1), min(seeks, steps)), steps]
        plain = _plain_run(entry, seed, steps, always_seeds=always_seeds)
        path = folder / f"{seed}.tape"
        env = entry.make()
        log = Log(sought=sought)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            live = recorder.record(env, path, quiet=True, **RECORDINGS[seed % len(RECORDINGS)], **options)
            play(entry, env, live, seed, steps, log, always_seeds=always_seeds)
            live.close()
        notes += [str(one.message) for one in caught if one.category.__name__ == "CapturedWarning"]
        unlike = first_unlike(plain, log)
        if unlike:
            again = _plain_run(entry, seed, steps, always_seeds=always_seeds)
            own = first_unlike(plain, again)
            found["random" if own else "changed"] = f"seed {seed}, {own or unlike}"
        plain_us += plain.step_us
        recorded_us += log.step_us
        found["resets"] += sum(name == "reset" for name, _ in log.calls)
        opaque |= log.opaque
        with (folder / f"{seed}.log").open("wb") as file:
            pickle.dump(attrs.asdict(log, recurse=False), file)
    figures = {"plain_us": statistics.median(plain_us), "recorded_us": statistics.median(recorded_us)}
    return found | figures | {"notes": list(dict.fromkeys(notes)), "opaque": sorted(opaque), "steps": steps * seeds}


def _plain_run(entry: Entry, seed: int, steps: int, *, always_seeds: bool) -> Log:
    env = entry.make()
    return play(entry, env, env, seed, steps, Log(), always_seeds=always_seeds)


def play_all(entry: Entry, folder: Path, options: dict[str, Any]) -> dict[str, str]:
    """Play the runs again, without a recorder; where the first one differs from the log, or nothing."""
    for path in sorted(folder.glob("*.log")):
        log = read_log(path)
        plain = _plain_run(entry, int(path.stem), len(log.calls), always_seeds=options.get("level") == "inputs_only")
        unlike = first_unlike(plain, log)
        if unlike:
            return {"random": f"seed {path.stem}, {unlike}, in another process"}
    return {"random": ""}


def read_log(path: Path) -> Log:
    """Read the log of a run."""
    with path.open("rb") as file:
        return Log(**pickle.load(file))


# --- seeking


@attrs.define
class Findings:
    """What the seeks in the tapes of one environment gave.

    Attributes:
        seeks: ticks that were sought.
        wrong: seeks, or steps after one, that silently gave a wrong state.
        raised: seeks that raised, in a run that was opened for them.
        false_desyncs: seeks that raised only because the environment had been stepped after the seek before.
        verified: by seed, the result of verify.
        messages: what was wrong.
    """

    seeks: int = 0
    wrong: int = 0
    raised: int = 0
    false_desyncs: int = 0
    verified: list[bool] = attrs.field(factory=list)
    messages: list[str] = attrs.field(factory=list)


class Seeker:
    """Seeks in one tape, compared with its log."""

    def __init__(self, entry: Entry, path: Path, log: Log, options: dict[str, Any], findings: Findings) -> None:
        """options: those of record."""
        self._entry, self._path, self._log, self._options, self._findings = entry, path, log, options, findings
        self._run = self.open()

    def open(self) -> Any:
        """Open the tape, as a user does."""
        entry, options = self._entry, self._options
        return replayer.open(self._path, world=(lambda: adapt(entry.make(), **options)) if options else entry.make)

    def seek(self, tick: int) -> None:
        """Seek a tick, compare; make further steps in the restored environment, compare."""
        self._findings.seeks += 1
        try:
            self._run.seek(tick)
        except (recorder.RecordingError, NotCapturedError, ValueError) as error:
            if not self._seek_in_a_new_run(tick, error):
                return
        simulation, log = self._run.simulation, self._log
        env = simulation.model if self._entry.kind == "mesa" else simulation.env
        problem = self._compare_values(tick, env) or self._compare_result(tick, self._last_of(simulation))
        player = Player(self._entry.kind, env, 0)
        for following in range(tick + 1, min(tick + FURTHER_STEPS, len(log.calls)) + 1):
            if problem:
                break
            result = player.do(env, copy.deepcopy(log.calls[following - 1]))
            problem = self._compare_values(following, env) or self._compare_result(following, digest(texts_of(result)))
            problem = f"restored at tick {tick}, then {problem}" if problem else ""
        if problem:
            self._findings.wrong += 1
            self._findings.messages.append(f"{self._path.name}: {problem}")

    def _seek_in_a_new_run(self, tick: int, error: Exception) -> bool:
        self._run = self.open()
        try:
            self._run.seek(tick)
        except (recorder.RecordingError, NotCapturedError, ValueError) as second:
            self._findings.raised += 1
            self._findings.messages.append(f"{self._path.name}: seek({tick}): {type(second).__name__}: {second}")
            self._run = self.open()
            return False
        self._findings.false_desyncs += 1
        self._findings.messages.append(f"{self._path.name}: after steps, seek({tick}): {error}")
        return True

    def _compare_values(self, tick: int, env: Any) -> str:
        walk = walk_of(self._entry, env)
        names = differing(self._log.values[tick], walk.digests())
        if not names:
            return ""
        texts, name = self._log.texts.get(tick), min(names)
        detail = first_difference(texts.get(name, []), walk.parts.get(name, [])) if texts else ""
        return f"tick {tick}: {', '.join(sorted(names)[:5])} {detail}"

    def _compare_result(self, tick: int, found: str) -> str:
        expected = self._log.results[tick]
        return f"tick {tick}: the result" if expected and found and found != expected else ""

    def _last_of(self, simulation: Any) -> str:
        last = getattr(simulation, "last", None)
        if self._entry.kind == "mesa" or last is None:
            return ""
        if self._entry.kind == "gymnasium":
            result = [last.observation, last.reward, last.terminated, last.truncated]
        else:
            result = [last.observations, last.rewards, last.terminations, last.truncations]
            result = [last.agent, *result] if self._entry.kind == "aec" else result
        return digest(texts_of(result))

    def verify(self) -> None:
        """Verify the tape."""
        self._findings.verified.append(bool(self.open().verify().ok))


def seek_all(entry: Entry, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Seek in all tapes, and verify them."""
    findings = Findings()
    for path in sorted(folder.glob("*.log")):
        log = read_log(path)
        seeker = Seeker(entry, path.with_suffix(".tape"), log, options, findings)
        for tick in log.sought:
            seeker.seek(tick)
        seeker.verify()
    return attrs.asdict(findings)


def main() -> None:
    """Record or seek, as the arguments say; print the result."""
    half, name, folder, seeds, steps, seeks, trust = sys.argv[1:]
    sys.setrecursionlimit(1_000_000)  # Cells that know their neighbours are nested thousands of levels deep.
    warnings.simplefilter("ignore")
    entry, place = entry_of(name), Path(folder)
    file = place / "options.json"
    if half == "record":
        count = min(int(steps), entry.steps_max)
        result = record_all(entry, place, int(seeds), count, int(seeks), trust=trust == "True")
        file.write_text(json.dumps([result["options"], result.get("folder", "")]))
    else:
        options, name = json.loads(file.read_text())
        result = (seek_all if half == "seek" else play_all)(entry, place / name, options)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
