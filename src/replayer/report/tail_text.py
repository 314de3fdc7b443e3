"""Output of ``replay tail``, as text and as JSON."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from recorder.format.blocks.frame import Frame
from recorder.format.segments.segment_contents import Damage
from recorder.json_text import json_text
from recorder.text import counted
from replayer.follow.tail import Ended, KeyframeSeen, Missed, Seen, Tail
from replayer.follow.url_tail import UrlTail
from replayer.value_text import inputs_to_json, plain_text, tick_range, to_json


def tail_lines(
    tail: Tail | UrlTail, last: int, *, follow: bool, as_json: bool, wait: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """The lines that ``replay tail`` prints: the last ticks on the tape, then new ones.

    wait: called when there is nothing new.
    """
    latest: deque[Seen] = deque()  # The last ticks, and other items between them.
    kept, hidden, ended = 0, 0, None
    for seen in tail.news():
        if isinstance(seen, Ended):
            ended = seen
        elif not isinstance(seen, KeyframeSeen) or as_json:
            latest.append(seen)
            kept += isinstance(seen, Frame)
        while kept > last or (latest and not last):
            if isinstance(latest.popleft(), Frame):
                kept, hidden = kept - 1, hidden + 1
    if hidden and not as_json:
        yield f"… {counted(hidden, 'tick')} before these"
    yield from (_tail_line(seen, as_json=as_json) for seen in latest)
    if ended is not None:
        yield _tail_line(ended, as_json=as_json)
    elif follow:
        yield from (_tail_line(seen, as_json=as_json) for seen in tail.follow(wait=wait))


def _tail_line(seen: Seen, *, as_json: bool) -> str:
    match seen:
        case Frame():
            facts: dict[str, Any] = {
                "tick": seen.tick,
                **seen.proof(),
                "inputs": inputs_to_json(seen.inputs),
            }
            text = f"tick {seen.tick:,}  {' '.join(seen.proof().values())}  {json.dumps(facts['inputs'])}"
        case KeyframeSeen():
            facts = {"keyframe": seen.tick, "full": seen.is_full}
            text = f"{'full' if seen.is_full else 'delta'} keyframe of tick {seen.tick:,}"
        case Missed():
            facts = {"missed": [seen.first_tick, seen.last_tick], "why": seen.why}
            text = f"missing: {tick_range(seen.first_tick, seen.last_tick)}: {seen.why}"
        case Damage():
            facts = {"damaged": [seen.offset, seen.end_offset], "segment": seen.segment, "what": seen.what}
            text = f"damaged: bytes {seen.offset:,} to {seen.end_offset:,}: {seen.what}"
        case Ended():
            facts = {"ended": to_json(seen.outcome)}
            text = f"sealed: {json.dumps(facts['ended'])}"
    return json_text(facts) if as_json else plain_text(text)
