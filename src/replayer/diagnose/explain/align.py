"""Align two traces of one step: pair their records, and find from where on each value differs.

Two records are paired if they are of the same line (in two versions of the code: of corresponding lines) and in the
same order, in calls that correspond. After the two traces diverge, the nearest item is searched where both continue with the same lines.

A difference that vanishes again, such as that of a cache that one variant had to fill, is not seen at the end.
"""

from __future__ import annotations

from collections import defaultdict

import attrs

from replayer.diagnose.explain.foreign.fresh_memory import FreshMemory
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.paired_records import RecordPairing
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import Record, StepTrace, Values

History = dict[str, list[tuple[int, int | None]]]  # By value name: digests, each with the item that follows it.

HERE, DIVERGED, ARGUMENT, HIDDEN = "here", "diverged", "argument", "hidden"


@attrs.frozen
class ValueOrigin:
    """The origin of a difference of a value.

    Attributes:
        kind: HERE (the item's line changed it), DIVERGED (the two took different branches after it), ARGUMENT (the call
            that the item made passed it), HIDDEN (it differed before the step).
        item: index of the item; -1 if it differed before the step.
        since: the item after which the value was last read, -1 if before the first item; None if that was just before.
    """

    kind: str
    item: int
    since: int | None = None


@attrs.define
class _Spell:
    """The items during which a value differed."""

    origin: ValueOrigin
    end: int | None = None


class Alignment:
    """Two traces side by side.

    Attributes:
        items: in order.
        paths: for each of the user's modules that both had, its files in the two.
        line_maps: for each module that ran or has two files, from lines of the second version to lines of the first.
        memory: values that count as equal.
        item_of: indices of items, by indices of the first trace's records.
        swapped: frames of methods that the two called for different objects.
        suspended: frames of generators and coroutines, of which one of the two existed before the step.
    """

    def __init__(self, first: StepTrace, second: StepTrace, *, past_memory: bool = False) -> None:
        """past_memory: values that are what fresh memory holds count as equal."""
        self.first, self.second = first, second
        self.paths = {
            name: (path, second.modules[name]) for name, path in first.modules.items() if name in second.modules
        }
        self.line_maps = _map_lines(first, second, self.paths)
        self.sources: dict[str, SourceFile] = {}
        keys = self._keys(first.records, is_second=False), self._keys(second.records, is_second=True)
        is_same = all(lines.same for lines in self.line_maps.values())
        self.items = RecordPairing(first.records, second.records, keys, is_one_version=is_same).items()
        self.item_of = {item.first: index for index, item in enumerate(self.items) if item.first is not None}
        pairs = [(item.first, item.second) for item in self.items] if past_memory else []
        self.memory = FreshMemory((first, second), pairs)
        self._spells: dict[str, list[_Spell]] = {}
        self._values: tuple[Values, Values] = ({}, {})
        self._seen_owners: tuple[set[str], set[str]] = (set(), set())
        self._history: tuple[History, History] = ({}, {})
        self._made: tuple[set[str], set[str]] = (set(), set())  # Variables that a line gave their first value.
        self.swapped: set[int] = set()
        self.suspended: set[int] = set(first.suspended)
        numbers = {name: number for number, name in first.owners.items()}
        self._names: dict[str, str] = {  # From prefixes of the second trace to those of the first.
            f"o{number}": f"o{numbers[name]}" for number, name in second.owners.items() if name in numbers
        }
        self._functions = {  # By number of the frame, in each trace.
            variant: {record.frame: (record.module, record.function) for record in trace.records}
            for variant, trace in enumerate((first, second))
        }
        self._paired = defaultdict[str, set[int]](set)  # By each such call of the first trace, those of the second one.
        for item in self.items:
            if item.first is not None and item.second is not None:
                own = f"f{first.records[item.first].frame}"
                self._paired[own].add(second.records[item.second].frame)
        self._compare()

    def _keys(self, records: list[Record], *, is_second: bool) -> list[tuple[str, str, int]]:
        return [
            (
                record.kind,
                record.module,
                self.line_maps[record.module].to_first(record.line) if is_second else record.line,
            )
            for record in records
        ]

    # --- queries

    def source(self, path: str) -> SourceFile:
        """The source of a file."""
        return self.sources.setdefault(path, SourceFile(path))

    def origin(self, name: str, item: int) -> ValueOrigin | None:
        """The origin of the difference that a value had just before an item ran; None if it did not differ."""
        for spell in reversed(self._spells.get(name, [])):
            if spell.origin.item < item:
                return spell.origin if spell.end is None or spell.end >= item else None
        return None

    def final(self) -> dict[str, ValueOrigin]:
        """The values that differ at the end, with the origins of the differences."""
        return {name: spells[-1].origin for name, spells in self._spells.items() if spells[-1].end is None}

    def changed_at(self, item: int) -> list[str]:
        """The values that began to differ at an item."""
        return [
            name
            for name, spells in self._spells.items()
            if any(spell.origin.item == item and spell.origin.kind != ARGUMENT for spell in spells)
        ]

    def name_in_first(self, name: str) -> str:
        """The name of an object's attribute, of the second trace, as the first trace has it."""
        prefix, colon, rest = name.partition(":")
        return f"{self._names.get(prefix, prefix)}{colon}{rest}"

    def is_changed_here(self, name: str) -> bool:
        """Return True if a value began to differ in the step, and did not before it."""
        spells = self._spells.get(name, [])
        return bool(spells) and all(spell.origin.kind != HIDDEN for spell in spells)

    def names(self) -> list[str]:
        """The values that differed at any time."""
        return list(self._spells)

    def digest_after(self, name: str, item: int, variant: int) -> int | None:
        """The digest of a value after an item, in the first (0) or the second variant (1); None if it has none."""
        latest = None
        for position, digest in self._history[variant].get(name, ()):
            if position > item + 1:
                break
            latest = digest
        return latest

    def next_pair(self, item: int) -> int:
        """The index of the next pair of records after an item; the number of items if there is none."""
        for index in range(item + 1, len(self.items)):
            if self.items[index].first is not None and self.items[index].second is not None:
                return index
        return len(self.items)

    def first_digest(self, name: str, variant: int, item: int) -> int | None:
        """The digest of a value when first seen, in the first (0) or the second variant (1), before an item ran.

        None if it was not seen, or is a variable that the function was given in the step. An attribute that an object lacked is
        that of its class.
        """
        if name[0] == "f" and name in self._made[variant]:
            return None
        history = self._history[variant]
        seen = [name] if name in history and history[name][0][0] <= item else []
        if not seen and name.startswith("o"):
            own = f":{name.partition(':')[2]}"
            seen = [one for one in history if one.startswith("c") and one.endswith(own)]
        return history[seen[0]][0][1] if len(seen) == 1 else None

    # --- comparing

    def _compare(self) -> None:
        last_pair, touched = -1, set[str]()
        for index, item in enumerate(self.items):
            if item.first is not None and item.second is not None:
                first, second = self.first.records[item.first], self.second.records[item.second]
                self._pair(first, second)
                names = self._apply(0, first.before, index) | self._apply(1, second.before, index)
                passed = (
                    ValueOrigin(ARGUMENT, self.item_of[first.parent]) if first.parent >= 0 else ValueOrigin(HIDDEN, -1)
                )
                for name in sorted(filter(self.is_seen_by_both, names)):
                    self._mark(name, index, passed if name.startswith("f") else ValueOrigin(HIDDEN, -1))
                for name in sorted(touched):
                    self._mark(name, index, ValueOrigin(DIVERGED, last_pair))
                touched = set()
                for name in sorted(self._made_by(0, first, index + 1) | self._made_by(1, second, index + 1)):
                    self._mark(name, index + 1, ValueOrigin(HERE, index, self._last_read(first, name)))
                last_pair = index
            else:
                for variant, number in enumerate((item.first, item.second)):
                    if number is not None:
                        record = (self.first, self.second)[variant].records[number]
                        touched |= self._apply(variant, record.before, index)
                        touched |= self._made_by(variant, record, index)
        for name in sorted(touched):
            self._mark(name, len(self.items), ValueOrigin(DIVERGED, last_pair))

    def _last_read(self, record: Record, name: str) -> int | None:
        """See ValueOrigin.since. A value that was large before the step began was read then, before any record."""
        last_read = record.late.get(name)
        return self.item_of.get(last_read, -1) if last_read is not None else None

    def _pair(self, first: Record, second: Record) -> None:
        if f"f{second.frame}" not in self._names:
            self._rename(f"f{second.frame}?:", f"f{first.frame}:")
        self._names[f"f{second.frame}"] = f"f{first.frame}"
        if second.frame in self.second.suspended:
            self.suspended.add(first.frame)
        if first.owner >= 0 and second.owner >= 0:
            known = self._names.get(f"o{second.owner}", f"o{first.owner}")
            if self._are_others(first.owner, second.owner) or known != f"o{first.owner}":
                self.swapped.add(first.frame)
                if known == f"o{first.owner}":
                    self._names[f"o{second.owner}"] = f"o{second.owner}?"
                return
            self._names[f"o{second.owner}"] = f"o{first.owner}"

    def _rename(self, unpaired: str, paired: str) -> None:
        """Give what the second one's call had, in lines that the first one did not run, the names of the call that is its pair."""
        for own in [name for name in self._values[1] if name.startswith(unpaired)]:
            name = f"{paired}{own.removeprefix(unpaired)}"
            self._values[1][name] = self._values[1].pop(own)
            self._history[1][name] = self._history[1].pop(own)
            if own in self._made[1]:
                self._made[1].add(name)

    def is_seen_by_both(self, name: str) -> bool:
        """Return False for an attribute of an object of which only one of the two has read any."""
        owner = name.partition(":")[0]
        return name[0] != "o" or all(owner in seen for seen in self._seen_owners)

    def is_unread(self, name: str) -> bool:
        """Return True for an attribute of an object that one of the two reads later, or of which it reads none."""
        return name[:1] == "o" and (not self.is_seen_by_both(name) or all(name in history for history in self._history))

    def _are_others(self, first: int, second: int) -> bool:
        """Return True if two objects had names before the step, none of which leads to the other one, or if one was elsewhere."""
        if second in self.second.elsewhere if first in self.first.owners else first in self.first.elsewhere:
            return first in self.first.owners or second in self.second.owners
        one, other = self.first.owners.get(first), self.second.owners.get(second)
        if one is None or other is None or one == other:
            return False
        return self.first.identities.get(other) != one and self.second.identities.get(one) != other

    def _made_by(self, variant: int, record: Record, index: int) -> set[str]:
        """Note the values that a record's line changed, as _apply does."""
        known = {own for own in record.after if self._named_in(variant, own) in self._history[variant]}
        names = self._apply(variant, record.after, index)
        self._made[variant].update(self._named_in(variant, own) for own in record.after if own not in known)
        return names

    def _named_in(self, variant: int, own: str) -> str:
        return own if variant == 0 else self._name_of_second(own)

    def _apply(self, variant: int, values: Values, index: int) -> set[str]:
        """Note the values of a record; return their names as in the first trace."""
        current = self._values[variant]
        names = set()
        for own, read in values.items():
            digest = self.memory.digest(variant, read)
            name = self._named_in(variant, own)
            current[name] = digest
            if not _is_function((self.first, self.second)[variant], digest):
                self._seen_owners[variant].add(name.partition(":")[0])
            self._history[variant].setdefault(name, []).append((index, digest))
            names.add(name)
        return names

    def _name_of_second(self, own: str) -> str:
        """The name of a value of the second trace, as the first one has it: of the same call, object and variable."""
        prefix, colon, rest = own.partition(":")
        if prefix[0] not in "fo":
            return own
        if prefix[0] == "f":
            module, function = self._functions[1][int(prefix[1:])]
            rest = self.line_maps[module].renames(function).get(rest, rest)
        return f"{self._names.get(prefix, f'{prefix}?')}{colon}{rest}"

    def _is_of_one_version(self, name: str) -> bool:
        """Return True for a variable of a call that only one of the two made, or that only one version of its function has."""
        prefix, _, rest = name.partition(":")
        if prefix not in self._paired:
            return True
        module, function = self._functions[0][int(prefix[1:])]
        if any(self._functions[1][own][1] != function for own in self._paired[prefix]):
            return True  # Such as a loop, and the generator expression that another version has in its place.
        return rest != "return" and self.line_maps[module].is_of_one(function, rest)

    def _is_one_sided(self, name: str, kind: str) -> bool:
        """Return True if only one of the two has read a function, or the data of a module or a class: no difference.

        A function that one of the two did not call may be the same in both. Nor is a variable one that only one version of
        a function has.
        """
        pair = self._values[0].get(name), self._values[1].get(name)
        if name[0] not in "cfg" or (pair[0] is None) == (pair[1] is None):
            return False
        if name[0] == "f":
            return self._is_of_one_version(name)
        other = 0 if pair[0] is None else 1
        if name in self._history[other]:
            return False
        if _is_function((self.first, self.second)[1 - other], pair[1 - other]):
            return True
        if name[0] == "g":
            return kind == DIVERGED
        return name.partition(":")[0] not in self._seen_owners[other]

    def _mark(self, name: str, index: int, origin: ValueOrigin) -> None:
        if self._is_one_sided(name, origin.kind):
            return
        pair = self._values[0].get(name), self._values[1].get(name)
        spells = self._spells.setdefault(name, [])
        is_open = bool(spells) and spells[-1].end is None
        if pair[0] == pair[1]:
            if is_open:
                spells[-1].end = index - 1
        elif not is_open:
            spells.append(_Spell(origin))
        if not spells:
            del self._spells[name]


def _is_function(trace: StepTrace, digest: int | None) -> bool:
    """Return True for the digest of a function, which is read by name, and not with all else that its class keeps."""
    return digest is not None and trace.texts.get(digest, "").startswith("the function ")


def _map_lines(first: StepTrace, second: StepTrace, loaded: dict[str, tuple[str, str]]) -> dict[str, LineMap]:
    """Of modules that ran, and of those that were loaded from two files."""
    paths: dict[str, list[str | None]] = {name: [*pair] for name, pair in loaded.items() if pair[0] != pair[1]}
    for variant, trace in enumerate((first, second)):
        for record in trace.records:
            paths.setdefault(record.module, [None, None])[variant] = record.path
    return {
        module: LineMap(SourceFile(pair[0] or pair[1] or ""), SourceFile(pair[1] or pair[0] or ""))
        for module, pair in paths.items()
    }
