"""Find the operation and the line at which two runs of one step diverge, from their aligned traces.

The search goes backwards. It starts at the first line after which a field of the state differs up to the end, and
continues with the values that this line reads and the lines where those began to differ. It ends at a line whose own
operation gave different results from the same inputs, that was edited, after which the two took different branches, or
that reads hidden state.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

import attrs

from replayer.diagnose.explain.align import ARGUMENT, DIVERGED, HERE, HIDDEN, Alignment, ValueOrigin
from replayer.diagnose.explain.answer.not_passed import is_not_passed
from replayer.diagnose.explain.answer.saved_changes import changed_before_save, changed_in_place
from replayer.diagnose.explain.answer.search_ends import (
    draws_from,
    first_difference,
    hands_over,
    is_called_by_others,
    is_frozen,
    may_make_values,
    names_what_differs,
    only_fetches,
    used_between,
    without_claim,
)
from replayer.diagnose.explain.answer.set_orders import orders_of_made, orders_of_names, orders_of_returned
from replayer.diagnose.explain.answer.walked_sets import walked_before
from replayer.diagnose.explain.cause import OPEN, Cause, DifferingValue, SourceLocation, is_save
from replayer.diagnose.explain.choice.chosen_objects import ChosenObjects
from replayer.diagnose.explain.step_trace import RESUME, RETURN, Operation
from replayer.diagnose.explain.versions.changed_part import only_version_with
from replayer.diagnose.explain.versions.edited_definitions import edited_definition

_OWN = "self"  # The attributes of the object whose method runs are read before each of its lines.
_CLAIMS = ("operation", "branch", "line", "order")  # Kinds of which no values are put into B to test them.
PATH_LINES_MAX = 50  # A longer path back is shown up to there.


def find_cause(alignment: Alignment) -> Cause | None:
    """The cause of the difference at the end of a step; None if no line of the user's code is known to take part."""
    start = first_difference(alignment)
    cause = None if start is None else _BackwardSearch(alignment).find(*start)
    if cause is None or cause.kind != "edited" or cause.other_place is not None:
        return cause
    return attrs.evolve(cause, only_in=only_version_with(cause.place.path, alignment.first, alignment.second))


class _BackwardSearch(ChosenObjects):
    def __init__(self, alignment: Alignment) -> None:
        super().__init__(alignment)
        self._path: list[tuple[SourceLocation, str]] = []
        self._way: list[tuple[int, str, ValueOrigin]] = []  # The items of the path, with what differs after each.
        self._is_guessed = False  # True if the path leads over a line that was not seen to change the value.

    def find(self, name: str, origin: ValueOrigin) -> Cause | None:
        """Search back from a value and the origin of its difference."""
        seen: set[int] = set()
        while True:
            if origin.item < 0:  # The two diverged before their first common line, or no line was traced.
                return self._first_alone() if origin.kind == DIVERGED else None
            item = origin.item
            self._path.insert(0, (self._place(item), self._changed_text(name, origin)))
            self._way.insert(0, (item, name, origin))
            seen.add(item)
            since = self._since(origin)
            parents = self._parents(item) + since
            outside = list(dict.fromkeys(parent for parent, where in parents if where.kind == HIDDEN))
            earlier = [(parent, where) for parent, where in parents if where.kind != HIDDEN and where.item not in seen]
            if earlier and len(seen) < PATH_LINES_MAX:
                back = min(earlier, key=lambda entry: (entry[1].item, entry[0]))
                if back in since and back not in parents[: -len(since)] and not self._is_linked(name, item, back):
                    self._is_guessed = True
                name, origin = back
                continue
            changed = changed_before_save(self._alignment, item, outside, self._parents)
            if changed is not None and changed[1].item not in seen:
                name, origin = changed
                continue
            walked = walked_before(self._alignment, item) if all(name[0] == "o" for name in outside) else None
            if walked is not None:
                self._path = [(self._place(walked), "its turns")]
                return self._cause(walked, "", ValueOrigin(HERE, walked), [])
            cause = self._with_changes(self._first_use(outside), outside)
            chosen = self._chosen(item) if cause.kind in ("unseen", "line") else None
            if chosen is None or chosen[1].item in seen:
                return without_claim(cause) if self._is_guessed and cause.kind in _CLAIMS else cause
            name, origin = chosen

    def _with_changes(self, cause: Cause, outside: list[str]) -> Cause:
        """With the lines before that change elements of what differed before the step: they read it, too."""
        known = {place for place, _ in cause.way}
        changes = (
            changed_in_place(self._alignment, outside, cause.place) if cause.kind in ("outside", "version") else []
        )
        way = [(self._place(item), self._shown(name, item)) for item, name in changes]
        return attrs.evolve(cause, way=[*(one for one in way if one[0] not in known), *cause.way])

    def _first_alone(self) -> Cause | None:
        """The first line of the step, if only one of the two ran it, and both were traced to their ends."""
        first, traces = next(iter(self._items), None), (self._alignment.first, self._alignment.second)
        if any(trace.limited or not trace.records for trace in traces):
            return None
        if first is None or (first.first is not None and first.second is not None):
            return None
        trace = self._alignment.first if first.first is not None else self._alignment.second
        number = first.first if first.first is not None else first.second
        return Cause("alone", self._place_of(trace.records[number or 0]), None, None, (), None, [], [])

    def _first_use(self, outside: list[str]) -> Cause:
        """The cause at the first line of the path that does more than fetch an object that differs already inside."""
        cause, end = first = self._cause(*self._way[0], outside), self._way[0][0]
        if only_fetches(cause) and len(self._way) > 1:
            parents = self._parents(self._way[1][0])
            if (user := used_between(self._way[0], self._way[1][0], parents, self._reads)) is not None:
                self._way.insert(1, user)
                self._path.insert(1, (self._place(user[0]), self._shown(user[1], user[0])))
        for (item, name, origin), further in itertools.pairwise(self._way):
            inner, outer, statement = self._record(further[0]), self._record(item), self._statement(item)
            # The one that is called draws.
            only_passes = origin.kind == ARGUMENT and draws_from(cause) and hands_over(cause)
            # A branch makes no part of an object, and a line that does not read the object is not about it.
            is_fetched = only_fetches(cause) and origin.kind != DIVERGED and name in set(self._reads(further[0]))
            if not (is_fetched or only_passes) or is_called_by_others(inner, outer, statement):
                break
            cause, end = self._cause(*further, outside), further[0]
        if only_fetches(cause) and not names_what_differs(cause):
            cause, end = first  # A line that hands the object on, as it is, reads nothing of it.
        if draws_from(cause) and cause.place != self._place(self._way[0][0]):
            return cause
        return self._inner_use(cause, end) or self._choice(cause, self._way[0][0]) or cause

    def _inner_use(self, cause: Cause, end: int) -> Cause | None:
        """Of a line that calls methods of objects that differ inside: the line of those that reads what differs.

        It ran before the line, or in what that called: a later one may read what the line itself has changed. Its values must begin to differ there, or the two take different branches: what is read without an effect is none.
        """
        lost = {name.rpartition(".")[2] for one in cause.outside for name, *_ in one.parts if "." in name}
        if cause.kind not in ("outside", "unseen") or not cause.calls or not lost:
            return None
        for item, pair in enumerate(self._items):
            if pair.first is None or pair.second is None or self._place(item) == cause.place:
                continue
            if item > end and not self._is_called_in(item, end):
                continue
            read = [
                name
                for name in dict.fromkeys(self._reads(item))
                if name[0] == "o" and name.rpartition(":")[2] in lost and self._is_hidden(name, item)
            ]
            origin = self._effect(item) if read and not is_save(self._record(item).function) else None
            if origin is not None:
                name, where = origin
                inner = self._cause(item, name, where, read)
                # It may only read that: what it changes is told of it, or that it takes one of two branches.
                changed = self._shown(name, item) if where.kind == HERE else "its branch"
                way = [(inner.place, changed), *self._written(read, item)]
                return attrs.evolve(inner, kind="outside", way=[*way, *(one for one in cause.way if one not in way)])
        return None

    def _written(self, names: Collection[str], item: int) -> list[tuple[SourceLocation, str]]:
        """The first later line of the call that an item is of which changes one of these values, where it differs after that."""
        frame = self._record(item).frame
        for place in range(item, len(self._items)):
            pair, record = self._items[place], self._record(place)
            if pair.first is None or pair.second is None or record.frame != frame:
                continue
            for name in names:
                digests = [self._alignment.digest_after(name, place, variant) for variant in (0, 1)]
                if name in record.after and digests[0] != digests[1]:
                    line = self._place(place)
                    return [(line, self._shown(name, place))] if line != self._place(item) else []
        return []

    def _is_called_in(self, item: int, end: int) -> bool:
        """Return True if an item is of a call that the statement of an earlier one made."""
        outer, record = self._record(end), self._record(item)
        while record.parent >= 0:
            caller, record = record.parent, self._alignment.first.records[record.parent]
            if record.frame == outer.frame:
                # A later turn of a loop runs the statement again, after others of its function.
                own = range(end, self._alignment.item_of[caller] + 1)
                run = [
                    one for one in own if self._items[one].first is not None and self._record(one).frame == outer.frame
                ]
                return all(self._statement(one) == self._statement(end) for one in run)
        return False

    def _choice(self, cause: Cause, item: int) -> Cause | None:
        """Of a method that the two call for different objects: the last line before it that reads what differs."""
        frame = self._record(item).frame
        if cause.kind not in ("unseen", "line") or frame not in self._alignment.swapped:
            return None
        begin = next(
            place
            for place, pair in enumerate(self._items)
            if pair.first is not None and self._record(place).frame == frame
        )
        for place in range(begin - 1, -1, -1):
            pair = self._items[place]
            if pair.first is None or pair.second is None or self._record(place).kind == RESUME:
                continue
            read = [name for name in self._reads(place) if name[0] == "o" and self._is_hidden(name, place)]
            if read:
                chosen = self._cause(place, "", ValueOrigin(HERE, place), read)
                return attrs.evolve(chosen, kind="outside", value=None, way=[(chosen.place, "the object"), *cause.way])
        return None

    def _effect(self, item: int) -> tuple[str, ValueOrigin] | None:
        """What begins to differ at an item, in what its function returns, or by branches; None if nothing does."""
        following = self._items[item + 1] if item + 1 < len(self._items) else None
        if following is not None and (following.first is None or following.second is None):
            return "", ValueOrigin(DIVERGED, item)
        changed = self._alignment.changed_at(item)
        return (changed[0], ValueOrigin(HERE, item)) if changed else None

    # --- going back

    def _parents(self, item: int) -> list[tuple[str, ValueOrigin]]:
        """The values that an item reads and that differ already, with the origins of their differences."""
        origins = []
        record, records = self._record(item), self._alignment.first.records
        for name in self._reads(item):
            origin = self._alignment.origin(name, item)
            if origin is not None:
                source, call = self._alignment.source(record.path), self._place(max(origin.item, 0)).text
                is_hidden = origin.kind == ARGUMENT and is_not_passed(source, records, record, name, call)
                resumed = self._resumed(item, name) if origin.kind in (ARGUMENT, HIDDEN) else None
                origins.append(resumed or (name, ValueOrigin(HIDDEN, -1) if is_hidden else origin))
        if record.kind == RESUME or self._group(item) != [item]:
            if (chosen := self._chosen_below(item)) is not None:
                return [chosen]
            origins += self._returned(item)
            if not [entry for entry in origins if entry[1].kind != HIDDEN]:
                origins += self._inside(item)
        if not origins:
            origins += self._entered(item) or self._fetched(item)
        return origins

    def _entered(self, item: int) -> list[tuple[str, ValueOrigin]]:
        """Of a later turn of a loop: what the calls returned that made the values that the loop goes through."""
        record, statement = self._record(item), self._statement(item)
        if not self._place(item).text.startswith("for "):
            return []
        for place in range(item - 1, -1, -1):
            pair = self._items[place]
            if pair.first is None or pair.second is None:
                continue
            other = self._record(place)
            if other.frame == record.frame and other.kind == RESUME and self._statement(place) == statement:
                return self._returned(place)
        return []

    def _fetched(self, item: int) -> list[tuple[str, ValueOrigin]]:
        """Of variables that are objects, whose attributes alone are compared: the lines that chose them by what differs."""
        record, found = self._record(item), []
        for word in sorted({word.partition(".")[0] for one in self._statements(item) for word in one.reads}):
            name = f"f{record.frame}:{word}"
            if any(self._alignment.digest_after(name, item, variant) != 0 for variant in (0, 1)):
                continue
            made = (place for place in range(item - 1, -1, -1) if self._makes(name, place))
            place = next(made, None)
            if place is not None and any(where.kind != HIDDEN for _, where in self._parents(place)):
                found.append((name, ValueOrigin(HERE, place)))
        return found

    def _returned(self, item: int) -> list[tuple[str, ValueOrigin]]:
        """Returns from functions that the item's line called, if they returned different values."""
        returns = []
        for place in self._below(item):
            record = self._record(place)
            if record.kind == RETURN and self._alignment.origin(f"f{record.frame}:return", place + 1) is not None:
                returns.append((f"f{record.frame}:return", ValueOrigin("here", place)))
        return returns

    def _inside(self, item: int) -> list[tuple[str, ValueOrigin]]:
        """The first item inside the calls that the line made where a value began to differ."""
        for place in self._below(item):
            changed = self._alignment.changed_at(place)
            if changed:
                return [(changed[0], ValueOrigin("here", place))]
        return []

    # --- the result

    def _cause(self, item: int, name: str, origin: ValueOrigin, outside: list[str]) -> Cause:
        place, other = self._place(item), self._other_place(item)
        operation = self._operation(item)
        only = self._only_in_one(item) if origin.kind == DIVERGED else None
        kind, read_at, record = "line", None, self._record(item)
        defined = edited_definition(self._alignment, record.module, record.function, outside)
        # One of the two may have more lines to run before the statement is over, such as those of a call.
        settled, orders = self._alignment.next_pair(item), self._orders(name, item)
        is_known = settled < len(self._items) or not (self._alignment.first.limited or self._alignment.second.limited)
        is_known = is_known and not (name in outside and self._is_as_before(name, item, settled))
        value = self._value_of_line(name, item, settled) if is_known else None
        is_operation = operation is not None and not is_frozen(operation[0], outside)
        if operation is not None and is_operation and other is None:
            kind, place = "operation", attrs.evolve(place, line=operation[0].line)
            value = self._result(operation) or value
        elif other is not None or only is not None:
            kind, (place, other) = "edited", only or (place, other)
        elif outside:
            kind = "outside" if self._is_one_version() else "version"
            if defined is not None:
                kind, read_at, (place, other), defined = "edited", place, defined, None
        elif origin.kind == DIVERGED:
            kind = "branch"
        elif orders:
            kind = "order"
        elif (inner := self._only_below(item)) is not None:
            kind, place, value = "edited", inner, None
        statement = self._statement(item)
        is_seen = self._is_one_version() and may_make_values(statement)  # Of two versions, class statements may differ.
        if kind == "line" and (self._reads_held_objects(item) or not is_seen):
            kind = "unseen"
        return Cause(
            kind,
            place,
            other,
            operation[0].name if operation is not None else None,
            statement.calls if statement is not None else (),
            value,
            [value for value in (self._outside_value(name, item) for name in outside) if value is not None],
            [(place, text) for _, text in self._path[: self._may_change(only, name)]] + self._path[only is not None :],
            orders if kind == "order" else [],
            read_at,
            saved_at=self._saved_at(outside) if kind == "outside" else None,
            defined_at=defined,
            is_of_branches=kind in ("outside", "version") and not self._is_one_statement(item, settled),
            may_call=statement.may_call if statement is not None else frozenset(),
            memory=OPEN
            if kind == "operation" and operation and self._alignment.memory.is_read_by(operation[0])
            else "",
        )

    def _is_one_version(self) -> bool:
        """Return True if both variants ran the same code, from the same files: these may read others beside them."""
        is_same = all(lines.same for lines in self._alignment.line_maps.values())
        return is_same and all(first == second for first, second in self._alignment.paths.values())

    def _reads_held_objects(self, item: int) -> bool:
        """Return True if a line reads an object whose attributes were read only where one of its methods ran."""
        held = (self._alignment.first.holds, self._alignment.second.holds)
        return any(name in holds for name in self._reads(item) for holds in held if not name.endswith(f":{_OWN}"))

    def _orders(self, name: str, item: int) -> list[DifferingValue]:
        """The sets that a line iterates over, with the same members in different orders."""
        traces = first, second = self._alignment.first, self._alignment.second
        pairs = [(self._items[place].first, self._items[place].second) for place in self._group(item)]
        records = [(first.records[a], second.records[b]) for a, b in pairs if a is not None and b is not None]
        if (found := orders_of_names(records)) or (statement := self._statement(item)) is None:
            return found
        made = orders_of_made(*traces, records[-1], name) if statement.displays else []
        return made or orders_of_returned(self._alignment, item, statement)

    def _operation(self, item: int) -> tuple[Operation, Operation] | None:
        """The first operation of a statement, in both traces, that gave different results from the same inputs."""
        group, memory = self._group(item), self._alignment.memory
        by_variant = [
            [
                operation
                for operation in trace.operations
                if operation.record in {getattr(self._items[place], name) for place in group}
            ]
            for trace, name in ((self._alignment.first, "first"), (self._alignment.second, "second"))
        ]
        pairs = [
            pair
            for pair in zip(*by_variant, strict=False)
            if pair[0].name == pair[1].name and not memory.are_same_outputs(*pair)
        ]
        return next((pair for pair in pairs if memory.are_same_inputs(*pair)), None)

    def _result(self, operation: tuple[Operation, Operation]) -> DifferingValue | None:
        first, second = operation
        for number, (one, other) in enumerate(zip(first.outputs, second.outputs, strict=False)):
            if one != other:
                part = f"{first.parts[number]} of " if number < len(first.parts) else ""
                return self._value_of(f"{part}the result of {first.name}", one, other)
        return None

    def _only_below(self, item: int) -> SourceLocation | None:
        """The first line that only one version of the code has, and ran in a call that the item's statement made."""
        found = map(self._new_line, range(self._group(item)[0] + 1, item))
        return next((one for one in found if one is not None), None)

    def _only_in_one(self, item: int) -> tuple[SourceLocation, SourceLocation | None] | None:
        """The line that only one version of the code has, if the two diverged at it."""
        places = (self._new_line(place) for place in range(item + 1, min(item + 3, len(self._items))))
        found = next((place for place in places if place is not None), None)
        return None if found is None else (found, None)
