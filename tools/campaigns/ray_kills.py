"""Kill drivers and workers at random moments, in local processes and on Ray, and compare the end with an undisturbed one.

    python tools/campaigns/ray_kills.py --local 30 --ray 30 --losses 6 --seed 1
    python tools/campaigns/ray_kills.py --local 0 --ray 50 --losses 0 --call extract

The calls are verify, extract, batch and generate. For --local and --ray each, at least that many kills of drivers and that many of
workers:

- Drivers: the command, or its process that speaks with Ray, is killed, and given again in the same folder. On Ray, most of them
  belong to a cluster that stays, and every tenth starts one.
- Workers: in local processes those of a command; on Ray, a thread kills Ray workers and our processes below them while calls of
  Python are done, which must end as if nothing had happened.
- Losses: a machine of the cluster, all of whose processes are killed; then another one joins.

The end must be the same bytes. What a killed command leaves may not pass for whole, and no process may be left.
Ray is in a network namespace of its own where that is allowed. Exit code 1 at the first difference.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from recorder.corpus.generate import part_of, run_generated
from recorder.processes.engines.ray_engine import RayEngine
from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import Pool
from recorder.scenarios.batch import Job, run_many
from replayer import extract, verify_tape

from killed_commands import LINES, LOCAL, Kill, KilledCommands, Place, kill, made_by, prepare, words_of
from oracle.command_lines import TINY
from ray_cluster import ALONE, descendants, ray_pool, why_not_alone
from ray_machines import RayMachines
from small_worlds import Walkers

PAUSE_CALLS = 2.0  # At most, before the next kill: so many times what an undisturbed call takes.
ATTEMPTS = 25  # More than the default of 4: few items are under way, and the same one is hit again and again.
OWN_RAY = 10  # Every so many drivers start a Ray of their own.

Call = Callable[[Pool, Path], object]


def calls(inputs: Path) -> dict[str, Call]:
    """Calls by name: each takes a pool and a new folder, and what it returns must not depend on the pool."""
    tapes = sorted(inputs.glob("*.tape"))

    def verify(pool: Pool, _: Path) -> object:
        report = verify_tape(tapes[0], Walkers, pool=pool)
        return report.ok, report.verified_ticks, report.status

    def extracted(pool: Pool, folder: Path) -> object:
        extract(tapes, folder / "data", world=Walkers, tables=("states", "actions"), pool=pool)
        return made_by(folder)

    table = tomllib.loads(TINY)
    config = {name: value for name, value in table.items() if name not in ("world", "ticks", "seed")}

    def jobs(names: Sequence[Path]) -> list[Job]:
        return [
            Job(seed, "tiny", "meadow", {**config, "seed": seed}, None, 60, tape=tape)
            for seed, tape in enumerate(names)
        ]

    def batch(pool: Pool, folder: Path) -> object:
        records = run_many(jobs([folder / f"run-{seed}.tape" for seed in range(6)]), pool=pool)
        return [attrs.evolve(record, tape=None, attempts=1) for record in records], made_by(folder)

    def generate(pool: Pool, folder: Path) -> object:
        work = partial(run_generated, keyframe_interval_ticks=20)
        records = run_many(jobs([part_of(folder / f"{seed}.tape") for seed in range(6)]), pool=pool, work=work)
        return [record.error for record in records], made_by(folder)

    return {"verify": verify, "extract": extracted, "batch": batch, "generate": generate}


class Disturbed:
    """Calls on a cluster that something happens to, compared with those in local processes."""

    def __init__(self, base: Path, chosen: dict[str, Call], pool: Pool) -> None:
        """Do each call undisturbed, in local processes and in the pool. Raises AssertionError."""
        self._base, self._chosen, self._pool = base, chosen, pool
        self._count = 0
        self._expected = {name: call(ForkPool(2), self._folder()) for name, call in chosen.items()}
        begun_s = time.monotonic()
        for name in chosen:
            self.do(name)
        self.call_s = (time.monotonic() - begun_s) / len(chosen)

    def _folder(self) -> Path:
        self._count += 1
        folder = self._base / f"call-{self._count}"
        folder.mkdir()
        return folder

    def do(self, name: str) -> None:
        """Do a call. Raises AssertionError."""
        assert self._chosen[name](self._pool, self._folder()) == self._expected[name], (
            f"{name}: not as in local processes"
        )

    def do_while(self, disturb: Callable[[float], str | None], least: int, draw: random.Random) -> Counter[str]:
        """Do calls in turns while a thread disturbs them, until that has succeeded that many times.

        disturb: is given a random pause; its words, or None if there was nothing to disturb. Returns how many of each.
        """
        told, stop, done = Counter[str](), threading.Event(), Counter[str]()

        def go_on() -> None:
            while not stop.wait(draw.uniform(0.0, PAUSE_CALLS * self.call_s)):
                if (words := disturb(self.call_s)) is not None:
                    told[words] += 1

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            for name in cycle(self._chosen):
                if told.total() >= least:
                    return told
                self.do(name)
                done[name] += 1
                print(f"{dict(told)} in {dict(done)}: no difference", flush=True)
        finally:
            stop.set()
            thread.join()
        return told


def kill_a_ray_worker(draw: random.Random, cluster: int) -> str | None:
    """Kill a Ray worker, or one of our processes below one."""
    workers = [
        one for one in descendants(cluster) if words_of(one).startswith("ray::") and "Agent" not in words_of(one)
    ]
    found = sorted({*workers, *(below for worker in workers for below in descendants(worker))})
    victim = draw.choice(found) if found else None
    if victim is None or not kill(victim):
        return None
    return "a Ray worker" if victim in workers else "a process below one"


def lose_a_machine(machines: RayMachines) -> str:
    """Lose the machine that joined first, and let another one join."""
    machines.lose()
    machines.join()
    return "a machine"


def disturb_on_ray(
    base: Path, machines: RayMachines, chosen: dict[str, Call], least: dict[str, int], draw: random.Random
) -> None:
    """Kill workers, then lose machines. least: how many "kills" and "losses". Raises AssertionError."""
    if not any(least.values()):
        return
    engine = RayEngine(machines.address, attempts=ATTEMPTS, patience_s=60.0)
    with ray_pool(base, engine=engine, before=machines.prefix) as pool:
        calls_on_ray = Disturbed(base, chosen, pool)
        print(f"a call takes {calls_on_ray.call_s:.1f} s", flush=True)
        if least["kills"]:
            told = calls_on_ray.do_while(lambda _: kill_a_ray_worker(draw, machines.process_id), least["kills"], draw)
            print(f"workers on Ray: {told.total()} kills, {dict(told)}: no difference", flush=True)
        if least["losses"]:
            told = calls_on_ray.do_while(lambda _: lose_a_machine(machines), least["losses"], draw)
            print(f"machines: {told.total()} losses: no difference", flush=True)


def disturb_commands(kill_one: Callable[[str], Kill], names: Sequence[str], least: int, what: str) -> None:
    """Kill commands in turns until that many were hit. Raises AssertionError."""
    victims = Counter[str]()
    for name in cycle(names):
        if victims.total() >= least:
            break
        found = kill_one(name)
        if found.victim is not None:
            victims[f"{name}: {found.victim}"] += 1
        print(f"{what} {victims.total()}: {found.words}", flush=True)
    print(
        f"{what}: {victims.total()} kills: no difference, nothing half written, nothing left; {dict(victims)}",
        flush=True,
    )


def main() -> int:
    """Run the campaign; the exit code is 0 if nothing differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--local", type=int, default=30, help="the least number of kills of drivers, and of workers")
    parser.add_argument("--ray", type=int, default=30, help="the same on Ray")
    parser.add_argument("--losses", type=int, default=6, help="the least number of machines that are lost")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--victims", choices=["drivers", "workers"], help="these alone, instead of both")
    parser.add_argument("--call", choices=[*LINES], help="this one alone, instead of all")
    parsed = parser.parse_args()
    draw = random.Random(parsed.seed)
    print(f"seed {parsed.seed}; network namespace: {why_not_alone() or 'of its own'}", flush=True)
    names = [name for name in LINES if parsed.call in (None, name)]
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        base = Path(folder)
        drivers, workers = (parsed.victims in (None, victims) for victims in ("drivers", "workers"))
        if parsed.local:
            local = KilledCommands(base / "local", LOCAL, draw)
            disturb_commands(local.kill_driver, names, parsed.local * drivers, "local drivers")
            disturb_commands(local.kill_worker, names, parsed.local * workers, "local workers")
        if parsed.ray and drivers:
            own = Place(["--engine", "ray", "-j", "2"], ALONE if why_not_alone() is None else [], is_ray=True)
            alone = KilledCommands(base / "own", own, draw)
            disturb_commands(alone.kill_driver, names, parsed.ray // OWN_RAY, "drivers with a Ray of their own")
        if parsed.ray or parsed.losses:
            with RayMachines(2) as machines:
                if parsed.ray and drivers:
                    options = ["--engine", f"ray:{machines.address}"]
                    place = Place(options, machines.prefix, machines.process_id, is_ray=True)
                    on_ray = KilledCommands(base / "ray", place, draw)
                    disturb_commands(on_ray.kill_driver, names, parsed.ray - parsed.ray // OWN_RAY, "drivers on Ray")
                prepare(base / "inputs")
                chosen = {name: call for name, call in calls(base / "inputs").items() if name in names}
                least = {"kills": parsed.ray * workers, "losses": parsed.losses}
                disturb_on_ray(base, machines, chosen, least, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
