"""Measure the effects of damage and crashes on tapes and on other formats with the same data.

Cuts a small file of each format at every byte, flips its bits, and kills processes while they record. Prints tables;
writes JSON and a Markdown page. Everything runs one at a time.

    python tools/compare [--quick] [--only NAME] [--seed N] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import attrs
import damage
import kills
from history import take_truth
from peer import Peer
from peers import make_peers
from report import (
    Measured,
    describe_machine,
    list_versions,
    make_markdown,
    make_plain,
    make_sheets,
    print_sheets,
)
from rich.console import Console

TICKS = 99
STATE_EVERY = 25


@attrs.frozen
class Effort:
    """Sample sizes.

    Attributes:
        cuts_max: by the thoroughness of a peer.
        flips_max: by the thoroughness of a peer.
        kills: processes killed for each peer.
        kill_after_s: range of the times from the first tick to the kill.
    """

    cuts_max: dict[str, int]
    flips_max: dict[str, int]
    kills: int
    kill_after_s: tuple[float, float]


QUICK = Effort({"all": 500, "some": 300, "few": 40}, {"all": 2_000, "some": 800, "few": 80}, 2, (0.1, 0.4))
FULL = Effort({"all": 30_000, "some": 13_000, "few": 500}, {"all": 70_000, "some": 9_000, "few": 2_000}, 10, (0.1, 1.6))


def measure(peer: Peer, effort: Effort, seed: int, console: Console) -> Measured:
    """Run all measurements of a peer."""
    measured = Measured(peer)
    start = time.monotonic()
    if peer.takes_damage:
        truth = take_truth(seed, TICKS, STATE_EVERY)
        files = damage.write_files(peer, truth)
        measured.cuts = damage.measure_cuts(peer, files, truth, effort.cuts_max[peer.thoroughness])
        measured.flips = damage.measure_flips(peer, files, truth, effort.flips_max[peer.thoroughness], seed)
    if peer.takes_kills:
        measured.kills = kills.measure_kills(peer, effort.kills, effort.kill_after_s, seed)
    console.print(f"  {peer.name}: {time.monotonic() - start:.0f} s")
    return measured


def main() -> None:
    """Measure all peers, or some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small samples, about a minute")
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="only rows whose name begins with NAME; repeatable"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the data, the samples and the times of kills")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write a page to this file, too")
    options = parser.parse_args()
    console = Console(width=150)
    prefixes = tuple(name.lower() for name in options.only or [""])
    peers = [peer for peer in make_peers() if peer.name.lower().startswith(prefixes)]
    if not peers:
        names = ", ".join(peer.name for peer in make_peers())
        parser.error(f"expected --only with the beginning of a row's name ({names}), got {', '.join(options.only)}")
    console.print(f"seed {options.seed}")
    start = time.monotonic()
    measured = [measure(peer, QUICK if options.quick else FULL, options.seed, console) for peer in peers]
    facts: dict[str, Any] = {
        "seed": options.seed,
        "quick": options.quick,
        "seconds": round(time.monotonic() - start, 1),
        "ticks": TICKS,
        "state_every": STATE_EVERY,
        "machine": describe_machine(),
        "versions": list_versions(),
    }
    sheets = make_sheets(measured)
    print_sheets(console, sheets)
    console.print(f"seed {options.seed}, {facts['seconds']} s")
    if options.json:
        options.json.write_text(json.dumps(facts | {"peers": make_plain(measured)}, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(make_markdown(sheets, measured, facts), encoding="utf-8")


if __name__ == "__main__":
    main()
