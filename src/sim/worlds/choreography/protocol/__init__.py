"""The protocol language: global types, projection to each role, bounds."""

from sim.worlds.choreography.protocol.builder import again, branch, choice, end, loop, protocol, send

__all__ = ["again", "branch", "choice", "end", "loop", "protocol", "send"]
