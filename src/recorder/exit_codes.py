"""Exit codes of both commands, and the exception that carries one for a user's mistake.

0 same hashes, intact; 1 differs (desync); 2 usage; 3 incomplete; 4 corrupt; 5 unreadable; 130 interrupted;
129 hung up; 143 terminated.
"""

from __future__ import annotations

SAME, DIFFERS, USAGE, INCOMPLETE, CORRUPT, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
HUNG_UP, TERMINATED = 129, 143


class UsageError(ValueError):
    """A mistake of the user of a command; the message is the one line that is shown.

    Attributes:
        code: the exit code.
    """

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
