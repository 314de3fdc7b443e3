"""Lookups in two aligned traces: the records, statements and values of their items."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from replayer.diagnose.explain.align import DIVERGED, Alignment, ValueOrigin
from replayer.diagnose.explain.answer.differing_value import ABSENT, NOT_KEPT, differing_value
from replayer.diagnose.explain.answer.not_passed import variable_text
from replayer.diagnose.explain.answer.shown_names import shown_name
from replayer.diagnose.explain.cause import DifferingValue, SourceLocation, is_save
from replayer.diagnose.explain.line_pairs.paired_records import Item
from replayer.diagnose.explain.source_lines import Statement
from replayer.diagnose.explain.step_trace import LINE, RETURN, Record, is_inner

_CLASS = re.compile(r"^[^.\[]*")  # At the beginning of the name of an object.


class AlignedLines:
    """The lines of two aligned traces, with what each read and changed."""

    def __init__(self, alignment: Alignment) -> None:
        self._alignment = alignment
        self._items = alignment.items

    def _group(self, item: int) -> list[int]:
        """The items of one running statement: its lines, and the rest of a line after a call."""
        record, statement = self._record(item), self._statement(item)
        group = [item]
        for place in range(item - 1, -1, -1):
            pair = self._items[place]
            if pair.first is None or pair.second is None:
                continue
            other = self._record(place)
            if other.frame != record.frame:
                if other.kind == RETURN and other.parent < 0:
                    break
                continue
            if (
                statement is None
                or self._statement(place) != statement
                or (other.line == record.line and other.kind == record.kind == "line")
            ):
                break
            group.insert(0, place)
        return group

    def _is_one_statement(self, item: int, end: int) -> bool:
        """Return True if what only one of the two ran, from an item up to another one, is what its statement called."""
        pair, statement = self._items[item], self._statement(item)
        for later in self._items[item + 1 : end]:
            for trace, number, own in (
                (self._alignment.first, later.first, pair.first),
                (self._alignment.second, later.second, pair.second),
            ):
                if number is None or own is None:
                    continue
                record, frame = (
                    trace.records[number],
                    trace.records[own].frame,
                )  # Calls that are made later have higher numbers.
                is_same = (
                    record.frame == frame and self._alignment.source(record.path).statement(record.line) == statement
                )
                if record.frame < frame or (record.frame == frame and not is_same):
                    return False
        return True

    def _new_line(self, place: int) -> SourceLocation | None:
        """The line of an item that one of the two alone ran, if only its version of the code has that line."""
        pair = self._items[place]
        for variant, number in enumerate((pair.first, pair.second)):
            if number is None or (pair.first is not None and pair.second is not None):
                continue
            record = (self._alignment.first, self._alignment.second)[variant].records[number]
            lines = self._alignment.line_maps[record.module]
            if lines.to_first(record.line) < 0 if variant else not lines.has_first(record.line):
                return self._place_of(record)
        return None

    def _other_place(self, item: int) -> SourceLocation | None:
        """The line of the second version, if it differs from that of the first."""
        pair = self._items[item]
        if pair.second is None:
            return None
        first, second = self._record(item), self._alignment.second.records[pair.second]
        lines = self._alignment.line_maps[first.module]
        statement = self._alignment.source(second.path).statement(second.line)
        spread = range(statement.first_line, statement.last_line + 1) if statement is not None else [second.line]
        return self._place_of(second) if any(line in lines.edited for line in spread) else None

    def _value(self, name: str, item: int) -> DifferingValue | None:
        """A value after an item, if it differs."""
        digests = []
        for variant, trace in enumerate((self._alignment.first, self._alignment.second)):
            digests.append(self._alignment.digest_after(name, item, variant))
            if digests[-1] is not None and digests[-1] not in trace.texts:
                return None
        if digests[0] == digests[1] or (None in digests and self._alignment.is_unread(name)):
            return None
        return self._value_of(self._shown(name, item), digests[0], digests[1], self._missing(name))

    def _outside_value(self, name: str, item: int) -> DifferingValue | None:
        """Hidden state as it was first read; as it was before an item ran, if it did not differ at the first reading."""
        shown = self._shown(name, item)
        first, second = (self._alignment.first_digest(name, variant, item) for variant in (0, 1))
        traces = ((self._alignment.first, first), (self._alignment.second, second))
        if first != second and all(digest is None or digest in trace.texts for trace, digest in traces):
            value: DifferingValue | None = self._value_of(shown, first, second, self._missing(name))
        else:
            value = self._value(name, item - 1)
        if value is None:
            return None
        text = self._variable_text(name) if name[0] == "f" else ""
        placed = attrs.evolve(value, path=self._path_of(name))
        return placed.told(text) if text else placed

    def _variable_text(self, name: str) -> str:
        """How a function has a variable that it has from its beginning, or one around it."""
        prefix, _, variable = name.partition(":")
        records = self._alignment.first.records
        record = next((one for one in records if one.frame == int(prefix[1:])), None)
        return "" if record is None else variable_text(self._alignment.source(record.path), records, record, variable)

    def _path_of(self, name: str) -> str:
        """The path from the simulation to an attribute of an object that had a name before the step; empty if it had none."""
        prefix, _, attribute = name.partition(":")
        owner = self._alignment.first.owners.get(int(prefix[1:]), "") if re.fullmatch(r"o\d+", prefix) else ""
        return f"{re.sub(_CLASS, '', owner)}.{attribute}" if owner else ""

    def _saved_at(self, outside: Sequence[str]) -> SourceLocation | None:
        """The first line of save() that reads one of these attributes."""
        for record in self._alignment.first.records:
            statement = self._alignment.source(record.path).statement(record.line)
            if statement is None or not is_save(record.function):
                continue
            own = {f"o{record.owner}:{word[5:]}" for word in statement.reads if word.startswith("self.")}
            if not (own | set(record.named.values())).isdisjoint(outside):
                return self._place_of(record)
        return None

    def _value_of(
        self, name: str, first: int | None, second: int | None, missing: tuple[str, str] = (ABSENT, ABSENT)
    ) -> DifferingValue:
        return differing_value((self._alignment.first, self._alignment.second), name, (first, second), missing)

    def _missing(self, name: str) -> tuple[str, str]:
        """What to tell of a value that one of the traces has no digest of: of a module and a class, not all is looked at."""
        word = name.rpartition(":")[2]
        traces = self._alignment.first, self._alignment.second
        first, second = (
            NOT_KEPT if name[:1] in ("g", "c") or (name[:1] == "o" and word in trace.not_kept) else ABSENT
            for trace in traces
        )
        return first, second

    def _record(self, item: int) -> Record:
        pair: Item = self._items[item]
        if pair.first is not None:
            return self._alignment.first.records[pair.first]
        return self._alignment.second.records[pair.second or 0]

    def _statement(self, item: int) -> Statement | None:
        record = self._record(item)
        return self._alignment.source(record.path).statement(record.line)

    def _statements(self, item: int) -> list[Statement]:
        """The statement of an item, in both versions."""
        pair, statements = self._items[item], [self._statement(item)]
        if pair.first is not None and pair.second is not None:
            other = self._alignment.second.records[pair.second]
            renames = self._alignment.line_maps[other.module].renames(other.function)
            own = self._alignment.source(other.path).statement(other.line)
            statements.append(own and own.renamed(renames))
        return [statement for statement in statements if statement is not None]

    def _place(self, item: int) -> SourceLocation:
        return self._place_of(self._record(item))

    def _place_of(self, record: Record) -> SourceLocation:
        source = self._alignment.source(record.path)
        statement = source.statement(record.line)
        line = statement.first_line if statement is not None else record.line
        return SourceLocation(record.path, line, record.function, source.statement_text(record.line))

    def _shown(self, name: str, item: int) -> str:
        """A value's name for people."""
        words = frozenset[str]().union(*(one.reads | one.chains for one in self._statements(item)))
        record = self._record(item)
        if name[:1] != "f" or self._is_of_frame(name, record):
            is_lambda = record.function.endswith("<lambda>")  # Of several in a line, it is not known which one ran.
            first = "" if is_lambda else self._alignment.source(record.path).first_parameter(record.line)
            return shown_name(name, record, words, first, self._alignment.first.owners)
        rest, function = name.partition(":")[2], self._function_of(name)
        if rest == "return":
            return f"the result of {function}"
        own = [self._alignment.first_digest(f"f{record.frame}:{rest}", one, len(self._items)) for one in (0, 1)]
        return f"{rest} in {function}" if own != [None, None] else rest

    def _changed_text(self, name: str, origin: ValueOrigin) -> str:
        """What differs after an item, for people: the lines of its branches may have changed it, and not its own."""
        item, text = origin.item, self._shown(name, origin.item)
        settled = self._alignment.next_pair(item)
        seen = self._alignment.origin(name, settled)
        kinds = {origin.kind, seen.kind if seen is not None and seen.item == item else origin.kind}
        is_own = DIVERGED not in kinds or self._is_one_statement(item, settled)
        return text if is_own or not name else f"after its branch, {text}"

    def _may_change(self, only: tuple[SourceLocation, SourceLocation | None] | None, name: str) -> bool:
        """Return True for a line that only one version has, unless it gives a value to other variables than this one."""
        if only is None:
            return False
        statement = self._alignment.source(only[0].path).statement(only[0].line)
        return (
            statement is None or not statement.writes or name.rpartition(":")[2] in statement.writes or name[0] != "f"
        )

    def _is_of_frame(self, name: str, record: Record) -> bool:
        """Return True for a variable of the call that a record is of, or of the function around an expression."""
        return name.startswith(f"f{record.frame}:") or is_inner(record.function)

    def _function_of(self, name: str) -> str:
        """The function of the call whose variable this is."""
        frame = name.partition(":")[0].removeprefix("f")
        found = (one.function for one in self._alignment.first.records if str(one.frame) == frame)
        return next(found, "another call")

    def _value_of_line(self, name: str, item: int, settled: int) -> DifferingValue | None:
        """The value that differs after a line: that of a name, or of a variable of the line itself.

        Where the two diverged inside a call that the line made, the name may be a variable of that call.
        settled: the next item that both ran.
        """
        record, statement = self._record(item), self._statement(item)
        if name[:1] != "f" or self._is_of_frame(name, record) or name.endswith(":return"):
            return self._value(name, settled - 1)
        for place in range(item, len(self._items)):
            pair, later = self._items[place], self._record(place)
            if pair.first is None or pair.second is None or later.frame != record.frame:
                continue
            if self._statement(place) != statement or (place > item and later.kind == LINE):
                break
            own = (self._value(one, place) for one in later.after if one.startswith(f"f{record.frame}:"))
            if (value := next(filter(None, own), None)) is not None:
                return value
        return None
