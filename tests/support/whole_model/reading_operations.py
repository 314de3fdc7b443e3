"""Operations of the model that read: each is passed to one of the readers, which compares the answer."""

from __future__ import annotations

import errno
import random
from typing import Any

from recorder.errors import RecordingError
from whole_model.fallible_disk import READ_CODES
from whole_model.model_run import BrokenPromiseError, ensure
from whole_model.operation_state import OperationState
from whole_model.reader_view import TailView, View

VIEWS_MAX = 4
TAILS_MAX = 2


class ReadingOperations(OperationState):
    """See OperationState."""

    def open_view(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Open a reader of the present tape."""
        run = self.run
        if run is None or len(self.views) >= VIEWS_MAX:
            return False
        try:
            self.views.append(View(run))
        except (RecordingError, FileNotFoundError) as error:
            ensure(run.is_damaged or run.acknowledged < 0, f"it cannot be opened: {type(error).__name__}: {error}")
        return None

    def close_view(self, numbers: random.Random) -> bool | None:
        """Close a reader."""
        readers: list[Any] = [*self.views, *self.tails]
        if not readers:
            return False
        reader = numbers.choice(readers)
        reader.close()
        (self.views if reader in self.views else self.tails).remove(reader)
        return None

    def _read(self, name: str, numbers: random.Random) -> bool | None:
        view = self._view(numbers)
        if view is None:
            return False
        return None if getattr(view, name)(numbers) is not False else False

    def seek(self, numbers: random.Random) -> bool | None:
        """See View; likewise the operations below."""
        return self._read("seek", numbers)

    def at(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("at", numbers)

    def move(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("move", numbers)

    def frame(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("frame", numbers)

    def walk(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("walk_keyframes", numbers)

    def go_on(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("go_on", numbers)

    def moves(self, numbers: random.Random) -> int:
        """Step on or back many times."""
        view = self._view(numbers)
        return False if view is None else sum(view.move(numbers) for _ in range(numbers.randint(4, 40)))

    def frames(self, numbers: random.Random) -> int:
        """Read many frames."""
        view = self._view(numbers)
        return False if view is None else sum(view.frame(numbers) for _ in range(numbers.randint(4, 40)))

    def seeks(self, numbers: random.Random) -> int:
        """Scrub: seek near the tick, many times."""
        view = self._view(numbers)
        return False if view is None else sum(view.scrub(numbers) for _ in range(numbers.randint(4, 20)))

    def facts(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("facts", numbers)

    def check(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("check", numbers)

    def distrust(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("distrust", numbers)

    def events(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("events", numbers)

    def refresh(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("refresh", numbers)

    def verify(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("verify", numbers)

    def open_tail(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Follow the present tape."""
        if self.run is None or len(self.tails) >= 2 or not self.run.path.exists():
            return False
        self.tails.append(TailView(self.run))
        return None

    def poll(self, numbers: random.Random) -> bool | None:
        """Read on in a tail."""
        if not self.tails:
            return False
        numbers.choice(self.tails).poll()
        return None

    def interrupted_read(self, numbers: random.Random) -> bool | None:
        """Memory, or the disk, fails in the middle of a reader's call; later calls must give what is right."""
        view = self._view(numbers)
        if view is None:
            return False
        name = numbers.choice(
            ["seek", "seek", "at", "at", "move", "frame", "facts", "go_on", "distrust", "refresh", "check"]
        )
        if numbers.random() < 0.5:
            code = numbers.choice(READ_CODES)
            error: BaseException = OSError(code, errno.errorcode[code]) if numbers.random() < 0.5 else MemoryError()
            self.interruption.at_read(error, numbers.randrange(4))
        else:
            self.interruption.at_call(numbers.randrange(200))
        try:
            getattr(view, name)(numbers)
        except (MemoryError, BrokenPromiseError, OSError):
            if not self.interruption.happened:
                raise
            if name == "go_on":
                view.held.clear()
        finally:
            self.interruption.off()
        return None
