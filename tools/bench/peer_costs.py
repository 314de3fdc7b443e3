"""The cost of recording to the simulation's thread, the bytes written, and the time of a seek: ours and its peers.

Each way is a separate process. They take turns (turns.py). Two rules, on the workloads S, M, G and L:

    inputs    the inputs of each tick, the complete state every 300; ours is mode "events", with a hash of the state in
              each frame, which no peer has. A tick in between is reached by the simulation's own steps, which no peer does.
    states    the inputs and the complete state of each tick; ours is mode "changes".

And the worlds of two peers that record only their own kind (own_worlds.py). A slow way has fewer ticks, because a turn
has a time limit. A missing package is named: pip install --group bench.

    python tools/bench/peer_costs.py [--only inputs-S ...] [--quick] [--json FILE] [--markdown FILE] [--plot FOLDER]
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import own_worlds
import tables
import turns
import ways

EVERY = {"inputs": ways.INTERVAL, "states": 1}
PLANS = {
    "inputs-S": turns.TurnPlan(300, 20, warm_up=2),
    "inputs-M": turns.TurnPlan(300, 5),
    "inputs-G": turns.TurnPlan(300, 5),
    "inputs-L": turns.TurnPlan(300, 2, warm_up=1),
    "states-S": turns.TurnPlan(250, 16, slice_s=0.4, warm_up=2),
    "states-M": turns.TurnPlan(100, 8, slice_s=0.6),
    "states-G": turns.TurnPlan(100, 8, slice_s=0.6),
    "states-L": turns.TurnPlan(60, 3, slice_s=1.0),
    "CartPole": turns.TurnPlan(300, 40, warm_up=2),
    "rebound": turns.TurnPlan(300, 10),
}
QUICK = ("inputs-S", "states-S", "states-M", "CartPole", "rebound")
DESCRIBED = {"inputs": "inputs each tick, state every 300", "states": "inputs and state each tick"}

Row = dict[str, Any]


@attrs.frozen
class Group:
    """Ways that were measured together.

    Attributes:
        name: as in PLANS.
        title: in words.
        rows: of the table.
        absent: ways without figures, and the reasons.
    """

    name: str
    title: str
    rows: list[Row]
    absent: dict[str, str]


def measure(name: str, plan: turns.TurnPlan) -> Group:
    """Measure one group, in turns."""
    if name in own_worlds.WORLDS:
        kinds = own_worlds.WORLDS[name]
        absent = {way: own_worlds.missing(kind) for way, kind in kinds.items()}
        makes: dict[str, turns.Make] = {way: kind for way, kind in kinds.items() if not absent[way]}
        title = f"{name}, each step"
    else:
        rule, _, workload = name.partition("-")
        number = list(EVERY).index(rule)
        known = {way: one for way, one in ways.WAYS.items() if workload in one.workloads[number]}
        absent = {way: ways.missing(one) for way, one in known.items()}
        makes = {
            way: partial(ways.make_way, kind=one.kind, workload=workload, every=EVERY[rule])
            for way, one in known.items()
            if not absent[way]
        }
        title = f"workload {workload}, {DESCRIBED[rule]}"
    problems = {way: f"{package} is not installed" for way, package in absent.items() if package}
    taken = turns.take_turns(makes, plan, name)
    problems |= {way: one.problem for way, one in taken.items() if one.problem}
    problems |= {way: "its turns ended before its first tick" for way, one in taken.items() if not one.beyond_us}
    alone = statistics.median(taken["alone"].whole_us) if name in own_worlds.WORLDS else 0.0
    idle = taken["no recorder"].figures.get("memory_bytes", 0) if "no recorder" in taken else 0
    rows = [row(way, one, alone, idle) for way, one in taken.items() if way not in problems]
    empty = [name for name in rows[0] if all(one[name] is None for one in rows)]
    return Group(name, title, [{key: one for key, one in line.items() if key not in empty} for line in rows], problems)


def row(way: str, taken: turns.Taken, alone_us: float, idle_bytes: int) -> Row:
    """The figures of a way.

    alone_us: time of the step, if it is not measured tick by tick. idle_bytes: memory of the process without a way.
    """
    figures = taken.figures
    p50, p99 = (float(one) - alone_us for one in np.percentile(taken.beyond_us, [50, 99]))
    size, keyframes = figures.get("size_bytes"), taken.keyframe_us
    keeps = way not in ("alone", "no recorder") and size is not None
    memory = figures.get("memory_bytes")
    return {
        "way": way,
        "µs a tick, p50": p50,
        "p99": p99,
        "mean, with keyframes": statistics.mean(taken.beyond_us + keyframes) - alone_us,
        "keyframe, µs": statistics.median(keyframes) if keyframes and keeps else None,
        "bytes a tick": size / taken.ticks if size is not None and keeps else None,
        "close, s": round(figures["close_s"], 2) if keeps else None,
        "reading a tick, ms": figures.get("access_ms"),
        "memory, MB": (memory - idle_bytes) / 1e6 if memory and keeps else None,
        "ticks": taken.ticks,
    }


def report(group: Group) -> None:
    """Print the table on the terminal."""
    tables.print_table(group.title, group.rows)
    for way, why in group.absent.items():
        print(f"  no figures for {way}: {why}")


def markdown(groups: list[Group]) -> str:
    """Return the section of the page."""
    text = f"{tables.facts_line()}\n"
    for group in groups:
        text += f"\n### {group.title[0].upper()}{group.title[1:]}\n\n{tables.markdown_table(group.rows)}"
        text += "".join(f"\nNo figures for {way}: {why}.\n" for way, why in group.absent.items())
    return text


def plot(groups: list[Group], folder: Path) -> None:
    """Draw a picture for each rule: time from p50 to p99, and bytes; a line for each way, a row for each workload."""
    plt = tables.pyplot()
    for rule, description in DESCRIBED.items():
        chosen = [group for group in groups if group.name.startswith(rule)]
        if not chosen:
            continue
        heights = [len(_kept(group)) + 1.6 for group in chosen]
        figure, axes = plt.subplots(
            len(chosen), 2, figsize=(9, 0.2 * sum(heights) + 0.6), squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        figure.suptitle(f"{description}: less is better", x=0.02, ha="left", fontweight="bold")
        for group, (left, right) in zip(chosen, axes, strict=True):
            _plot_group(group, left, right)
        axes[-1][0].set_xlabel("µs a tick beyond the step: dot p50, line to p99, diamond mean with keyframes")
        axes[-1][1].set_xlabel("bytes a tick")
        figure.tight_layout(rect=(0, 0, 1, 0.99))
        tables.save_picture(figure, folder, f"peers-{rule}")
        plt.close(figure)


def _kept(group: Group) -> list[Row]:
    rows = [one for one in group.rows if one["way"] != "no recorder"]
    return sorted(rows, key=lambda one: -one["µs a tick, p50"])


def _plot_group(group: Group, left: Any, right: Any) -> None:
    rows = _kept(group)
    for place, one in enumerate(rows):
        colour = {"ours": tables.OURS, "hash + encode + store": tables.FAINT}.get(one["way"], tables.OTHERS)
        p50 = max(one["µs a tick, p50"], 0.1)
        left.plot([p50, max(one["p99"], p50)], [place, place], color=colour, lw=1.2)
        left.plot([p50], [place], "o", color=colour, ms=5)
        left.plot([max(one["mean, with keyframes"], 0.1)], [place], "D", color=colour, ms=4, mfc="white", zorder=3)
        left.annotate(
            tables.shown(p50), (p50, place), (-5, 0), textcoords="offset points", ha="right", va="center", fontsize=7
        )
        size = one["bytes a tick"]
        if size is not None:
            right.plot([size], [place], "o", color=colour, ms=5)
            right.annotate(f"{size:,.0f}", (size, place), (5, 0), textcoords="offset points", va="center", fontsize=7)
    names = [one["way"] for one in rows]
    left.set_yticks(range(len(rows)), names)
    right.set_yticks(range(len(rows)), [""] * len(rows))
    for name, label in zip(names, left.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if name == "ours" else "normal")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter("")
        axis.set_ylim(-0.7, len(rows) - 0.3)
        axis.grid(axis="x", color="#e3e6ea", lw=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(axis="y", length=0)
        low, high = axis.get_xlim()
        axis.set_xlim(low / 4, high * 4)
    left.set_title(f"workload {group.name.partition('-')[2]}", fontsize=9)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PLANS, help="these groups; all by default")
    parser.add_argument("--quick", action="store_true", help="a fifth of the turns, small workloads")
    parser.add_argument("--ways", nargs="*", help="only ways whose name contains one of these words")
    parser.add_argument("--rounds", type=int, help="turns of each way, instead of the usual number")
    parser.add_argument("--slice", type=int, help="ticks of a turn, instead of the usual number")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    parser.add_argument("--plot", type=Path, help="write pictures into this folder")
    options = parser.parse_args()
    if options.ways:
        for name in [name for name in ways.WAYS if not any(word in name for word in options.ways)]:
            del ways.WAYS[name]
    groups = []
    for name in options.only or (QUICK if options.quick else PLANS):
        plan = PLANS[name]
        rounds = options.rounds or (max(2, plan.rounds // 5) if options.quick else plan.rounds)
        group = measure(name, attrs.evolve(plan, rounds=rounds, slice_ticks=options.slice or plan.slice_ticks))
        report(group)
        groups.append(group)
    if options.json:
        tables.write_json(options.json, [attrs.asdict(group) for group in groups])
    if options.markdown:
        options.markdown.write_text(markdown(groups), encoding="utf-8")
    if options.plot:
        plot(groups, options.plot)


if __name__ == "__main__":
    main()
