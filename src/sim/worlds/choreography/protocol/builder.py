"""Write protocols in Python: small functions that give the same plain data as a TOML file, for a world's config.

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
    """A message. carried: payload, constant, counter, register, registers, first, second, into."""
    return {"send": label, "from": sender, "to": receiver, **carried}


def choice(chooser: str, told: str, *branches: Plain, **rule: Any) -> Plain:
    """A role chooses one of the branches and tells another. rule: schedule or when; without, it is drawn."""
    return {"choice": chooser, "to": told, "branches": list(branches), **rule}


def branch(label: str, *steps: Plain, **carried: Any) -> Plain:
    """One way on from a choice. carried: as in send, and weight."""
    return {"label": label, "steps": list(steps), **carried}


def loop(name: str, *steps: Plain, times: int | None = None) -> Plain:
    """Steps that are done so many times, or again at each ``again(name)`` in them."""
    return {"loop": name, "steps": list(steps), **({} if times is None else {"times": times})}


def again(name: str) -> Plain:
    """The loop of this name begins anew."""
    return {"continue": name}


def end() -> Plain:
    """The session is over."""
    return {"end": True}
