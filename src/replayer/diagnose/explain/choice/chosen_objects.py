"""What chose the objects that two runs call one method for, and what the lines of a resumed generator were given."""

from __future__ import annotations

from replayer.diagnose.explain.align import HERE, HIDDEN, ValueOrigin
from replayer.diagnose.explain.answer.read_names import ReadNames
from replayer.diagnose.explain.answer.search_ends import objects_called

_WITH_OBJECTS = "ocg"  # First letters of the names of attributes, of what classes keep and of globals.


class ChosenObjects(ReadNames):
    """Two aligned traces, with the lines from which the calls of a line got their objects."""

    def _chosen(self, item: int) -> tuple[str, ValueOrigin] | None:
        """Of a function that the two call for different objects: the variable that led to them, and the line that made it."""
        record = self._record(item)
        caller = self._alignment.item_of.get(record.parent)
        if record.frame not in self._alignment.swapped or caller is None or self._items[caller].second is None:
            return None
        function, frame = record.function.rpartition(".")[2], self._record(caller).frame
        for word, is_object in objects_called(self._place(caller).text, function):
            name = f"f{frame}:{word}"
            origin = self._alignment.origin(name, caller)  # Such as the key by which it is found.
            if origin is not None and origin.kind != HIDDEN:
                return name, origin
            place = next((place for place in range(caller - 1, -1, -1) if self._makes(name, place)), None)
            if place is not None and is_object:
                return name, ValueOrigin(HERE, place)
        return self._called(caller)

    def _chosen_below(self, item: int) -> tuple[str, ValueOrigin] | None:
        """Of a line whose calls lead to methods of different objects, which change these: what led to the first of them."""
        for place in self._below(item):
            first, second = self._items[place].first, self._items[place].second
            if first is None or second is None or self._record(place).frame not in self._alignment.swapped:
                continue
            records = self._alignment.first.records[first], self._alignment.second.records[second]
            caller = self._alignment.item_of.get(self._record(place).parent)
            if caller is not None and any(name.startswith(f"o{one.owner}:") for one in records for name in one.after):
                return self._called(
                    caller
                )  # An object that a variable holds was chosen before: that line is found by itself.
        return None

    def _called(self, caller: int) -> tuple[str, ValueOrigin] | None:
        """Of a line that calls what a variable leads to, such as a bound method: that variable; or what it reads from outside."""
        frame = self._record(caller).frame
        calls = {call.partition(".")[0] for one in self._statements(caller) for call in one.calls}
        for name in (f"f{frame}:{call}" for call in sorted(calls)):
            origin = self._alignment.origin(name, caller)
            if origin is not None:
                return name, ValueOrigin(HERE, caller) if origin.kind == HIDDEN else origin
        hidden = (name for name in self._reads(caller) if name[0] in _WITH_OBJECTS and self._is_hidden(name, caller))
        return next(((name, ValueOrigin(HERE, caller)) for name in hidden), None)

    def _resumed(self, item: int, name: str) -> tuple[str, ValueOrigin] | None:
        """Of a variable of a generator that existed before the step: what the line that resumes it reads of it.

        Its variables are where it stands: the one that is asked for its next value was at another place before the step.
        """
        record = self._record(item)
        if name[0] != "f" or record.frame not in self._alignment.suspended:
            return None
        begin = next(one for one in self._alignment.first.records if one.frame == record.frame)
        caller = self._alignment.item_of.get(begin.parent)
        if caller is None or self._items[caller].second is None:
            return None
        hidden = [read for read in self._reads(caller) if self._is_hidden(read, caller)]
        return (hidden[0], ValueOrigin(HERE, caller)) if hidden else None

    def _below(self, item: int) -> list[int]:
        """Items, in both traces, of the calls that the item's statement made before it."""
        group = self._group(item)
        return [
            place
            for place in range(group[0], item)
            if place not in group and self._items[place].first is not None and self._items[place].second is not None
        ]

    def _makes(self, name: str, place: int) -> bool:
        """Return True if a line that both ran made a variable."""
        pair = self._items[place]
        return (
            pair.first is not None
            and pair.second is not None
            and name in self._alignment.first.records[pair.first].after
        )

    def _is_hidden(self, name: str, item: int) -> bool:
        origin = self._alignment.origin(name, item)
        return origin is not None and origin.kind == HIDDEN

    def _is_as_before(self, name: str, item: int, settled: int) -> bool:
        """Return True for a value that was not read again since a line ran: what it was after the line was not seen."""
        after = self._alignment.digest_after
        return all(after(name, item - 1, variant) == after(name, settled - 1, variant) for variant in (0, 1))
