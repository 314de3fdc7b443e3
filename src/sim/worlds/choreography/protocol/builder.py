"""Write protocols in Python: functions that return the plain data of a TOML file, for a world's config.

protocol(
    ["Client", "Server"],
    loop("rounds", send("Client", "Server", "ping", payload="number"), send("Server", "Client", "pong"), times=3),
)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Plain = dict[str, Any]


def protocol(roles: Sequence[str], *steps: Plain) -> Plain:
    """The ``protocol`` table of a configuration."""
    return {"roles": list(roles), "steps": list(steps)}


def send(sender: str, receiver: str, label: str, **carried: Any) -> Plain:
    """Send a message. carried: payload, constant, counter, register, registers, first, second, into."""
    return {"send": label, "from": sender, "to": receiver, **carried}


def choice(chooser: str, told: str, *branches: Plain, **rule: Any) -> Plain:
    """Let one role choose a branch and send its label to the role ``told``. rule: schedule or when; by default random."""
    return {"choice": chooser, "to": told, "branches": list(branches), **rule}


def branch(label: str, *steps: Plain, **carried: Any) -> Plain:
    """Begin a branch of a choice. carried: as in send, and weight."""
    return {"label": label, "steps": list(steps), **carried}


def loop(name: str, *steps: Plain, times: int | None = None) -> Plain:
    """Repeat steps: ``times`` times, or at each ``again(name)`` in them."""
    return {"loop": name, "steps": list(steps), **({} if times is None else {"times": times})}


def again(name: str) -> Plain:
    """Restart the loop of this name."""
    return {"continue": name}


def end() -> Plain:
    """End the session."""
    return {"end": True}
