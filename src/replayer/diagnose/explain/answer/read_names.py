"""The names of the values that a line may read, as the traces have them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replayer.diagnose.explain.align import DIVERGED, HERE, ValueOrigin
from replayer.diagnose.explain.answer.aligned_lines import AlignedLines
from replayer.diagnose.explain.line_pairs.taken_defaults import DEFAULT, called_name, calls_in, may_pass
from replayer.diagnose.explain.step_trace import Record, is_inner, is_of_module


class ReadNames(AlignedLines):
    """The lines of two aligned traces, with the names that each reads."""

    def _reads(self, item: int) -> Iterator[str]:
        record = self._record(item)
        around = self._frame_around(item) if is_inner(record.function) else None
        statements = self._statements(item)
        bound = frozenset[str]().union(*(statement.inner for statement in statements))
        calls = {call for one in statements for call in one.calls}
        yield from sorted({f"g:{record.module}:{call}" for call in calls})  # Compiled ones.
        for method in sorted({call.rpartition(".")[2] for call in calls if "." in call}):
            yield from (f"c{name}:{method}" for name in self._classes(method))
        yield from self._defaults_taken(item)
        words = frozenset[str]().union(*(statement.reads for statement in statements))
        chains = frozenset[str]().union(*(statement.chains for statement in statements))
        for word in sorted(chains & self._named_at(item).keys()):
            name = self._named_at(item)[word]
            yield from (name, *self._changed_in(name))
        for word in sorted(words - self._named_at(item).keys()):
            is_bound = word.partition(".")[0] in bound
            if not is_bound or is_inner(record.function):
                for name in self._named(word, record, None if is_bound else around):
                    yield from (name, *self._changed_in(name))

    def _named_at(self, item: int) -> dict[str, str]:
        """The attributes of other objects that a line names, as written and as the traces name them, where both agree."""
        pair = self._items[item]
        if pair.first is None or pair.second is None:
            return {}
        first, second = (
            self._alignment.first.records[pair.first].named,
            self._alignment.second.records[pair.second].named,
        )
        own = self._alignment.name_in_first
        return {word: name for word, name in first.items() if word not in second or own(second[word]) == name}

    def _named(self, word: str, record: Record, around: int | None) -> Iterator[str]:
        """The values that a word in the source of a line may mean."""
        base, dot, attribute = word.partition(".")
        if word[0] in "'\"":
            yield f"s:{word[1:-1]}"
        elif dot and base == "self":
            yield f"o{record.owner}:{attribute}"
            yield from (f"c{name}:{attribute}" for name in self._classes(attribute))
        elif dot:
            classes = self._classes(attribute)
            yield from (f"c{name}:{attribute}" for name in classes if name.endswith(base) or base == "cls")
            yield f"f{record.frame}:{base}"
            if not any(
                name.rpartition(".")[2] == base for name in classes
            ):  # Else the attribute alone is read of the class.
                yield f"g:{record.module}:{base}"
            objects = [name for name in self._alignment.names() if name[0] == "o" and name.endswith(f":{attribute}")]
            yield from objects if len(objects) == 1 else ()  # Of several, it is not known which one is meant.
            yield from (name for name in self._alignment.names() if is_of_module(name, base, attribute))
        else:
            yield f"f{record.frame}:{word}"
            yield f"g:{record.module}:{word}"
            if around is not None:
                yield f"f{around}:{word}"

    def _changed_in(self, name: str) -> Iterator[str]:
        """Of an object whose attributes are read one by one: those that began to differ in the step."""
        number = self._alignment.first.holds.get(name)
        if number is not None:
            inner = [one for one in self._alignment.names() if one.startswith(f"o{number}:")]
            yield from (one for one in inner if self._alignment.is_changed_here(one))

    def _frame_around(self, item: int) -> int | None:
        """The frame of the function around an expression with its own frame; None if it is not known."""
        first, record = self._items[item].first, self._record(item)
        return self._alignment.first.records[record.parent].frame if first is not None and record.parent >= 0 else None

    def _classes(self, attribute: str) -> list[str]:
        return [
            name[1:].rpartition(":")[0]
            for name in self._alignment.names()
            if name.startswith("c") and name.endswith(f":{attribute}") and not name.endswith(f"):{attribute}")
        ]

    def _defaults_taken(self, item: int) -> Iterator[str]:
        """The defaults of attributes that the objects which a line makes were not given in its calls."""
        names = [(match, name) for name in self._alignment.names() if (match := DEFAULT.match(name))]
        calls = calls_in(self._place(item).text) if names else []
        may_call = frozenset[str]().union(*(one.may_call for one in self._statements(item)))
        for match, name in names:
            made = match["kind"].rpartition(".")[2]
            own = [call for call in calls if called_name(call) == made and not may_pass(call, match)]
            if own and (not any(one.rpartition(".")[2] == made for one in may_call) or self._gives(item, made)):
                yield name

    def _gives(self, item: int, kind: str) -> bool:
        """Return True if a value that a line changed is an object of a class, in both traces."""
        titles = [
            [trace.parts.get(self._alignment.digest_after(name, item, variant) or 0, {}).get("", "") for name in names]
            for variant, trace in enumerate((self._alignment.first, self._alignment.second))
            for names in [self._alignment.changed_at(item)]
        ]
        return all(any(f"{title} ".startswith(f"a {kind} ") for title in one) for one in titles)

    def _since(self, origin: ValueOrigin) -> list[tuple[str, ValueOrigin]]:
        """For a large value, which is not read after each line: the first difference since its last reading."""
        span = range(origin.item if origin.since is None else origin.since + 1, origin.item)
        for place in span:
            changed = self._alignment.changed_at(place)
            if changed:
                return [(changed[0], ValueOrigin(HERE, place))]
        for place in span:
            for name in self._reads(place):  # It differed before, and a line that ran since then may have used it.
                where = self._alignment.origin(name, place)
                if where is not None and where.kind in (HERE, DIVERGED):
                    return [(name, where)]
        return []

    def _is_linked(self, name: str, item: int, begun: tuple[str, ValueOrigin]) -> bool:
        """Return True if what began to differ is the large value under another name, or a line used it that names that.

        name, item: of the large value, and where it was read.
        """
        other, begin = begun[0], begun[1].item
        digests = [
            (self._alignment.digest_after(name, item, variant), self._alignment.digest_after(other, begin, variant))
            for variant in (0, 1)
        ]
        if all(one is not None and one == two for one, two in digests):
            return True
        word = name.rpartition(":")[2]
        for place in range(begin, item):
            if self._items[place].first is None or not re.search(rf"\b{re.escape(word)}\b", self._place(place).text):
                continue
            others = (one for one in self._reads(place) if one.rpartition(":")[2] != word)
            if place == begin or any(self._alignment.origin(one, place) is not None for one in others):
                return True
        return False
