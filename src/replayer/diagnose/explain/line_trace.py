"""Trace the lines of one step and the values that each changed: fields of the state, locals, attributes, globals.

Before each line, and at each return, all values that the running function can see are read. A value that differs from
its last reading was changed by the line in between. Large values are read again only where a line names them.
"""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from recorder.ambient.roots import is_users
from replayer.diagnose.explain.held.instance_objects import InstanceObjects
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import LINE, RESUME, RETURN, Operation, Record, StepTrace, Values, is_inner
from replayer.diagnose.explain.texts.value_texts import text_of
from replayer.diagnose.explain.value_hash import Digester, is_cache, is_data
from replayer.diagnose.explain.values.attributes_before import UnseenChanges, attributes_before
from replayer.diagnose.explain.values.class_data import asked_of_class, kept_by_classes, named_class
from replayer.diagnose.explain.values.compiled_globals import compiled_globals
from replayer.diagnose.explain.values.named_attributes import (
    asked_identities,
    named_attributes,
    set_made,
    value_of_word,
    watched_attributes,
)
from replayer.diagnose.explain.values.named_functions import NamedMethods, is_compared, is_function
from replayer.diagnose.explain.values.value_parts import TOTAL_MAX, is_of_parts, order_text, parts_of
from replayer.playback.line_hooks import is_yield
from sim.kernel.hashing import hash_arena
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.simulation import Simulation, inner_of
from sim.kernel.state import State

RECORDS_MAX = 200_000
OPERATIONS_MAX = 200_000
HASHED_BYTES_MAX = 8 << 30  # Takes about a second; afterwards only the order of lines is traced.
KEPT_BYTES_MAX = 64 << 20  # Of values, to show their elements; each is kept once.
LARGE_BYTES = 1 << 16  # An array above this is read again only where a line names it.
READS_MAX = 16  # Of a large value at one line; beyond that, at the 32nd time, the 64th and so on.
MEMBERS_MAX = 50_000  # Of sets whose orders are noted, in all.
LARGE_PARTS = 200  # An object or a container of more parts is read again only where a line names it.

_WITH_CONTENT = (list, tuple, dict, set, frozenset, deque)  # Their attributes, if they have any, are not all of them.

_WORD = re.compile(r"[A-Za-z_]\w*")


class LineTracer:
    """Receives lines (see line_hooks.py) and operations (see traced_array.py), and makes a StepTrace."""

    def __init__(self, simulation: Simulation) -> None:
        self.trace = StepTrace()
        self.digester = Digester(self._state_offset_of)
        self._by_content, self._held = Digester(), InstanceObjects()
        self._simulation = simulation
        self._is_captured = hook(inner_of(simulation), HasAdapter) is not None
        self._running: dict[int, int] = {}  # By frame id: the record that the frame runs.
        self._frames: dict[int, int] = {}  # By frame id: its number.
        self._suspended: dict[int, FrameType] = {}  # Suspended generators.
        self._frame_count, self._last, self._members_left = 0, -1, MEMBERS_MAX
        self._seen: Values = {}
        self._objects: dict[int, tuple[int, Any]] = {}  # Kept alive: no other object may get their ids.
        self._large: dict[str, tuple[int, int, int]] = {}  # Of large values: id, digest and record at the last reading.
        self._kept_bytes = 0
        self._kept_parts = [0, 0]  # Of small and of large values: neither leave no room for the other.
        self._read_counts: dict[tuple[str, str, int], int] = {}  # Of large values, by name and line.
        self._put_off: set[str] = set()  # Large values that were not read where a line named them.
        self._coming: tuple[str, int] | None = ("", 0)  # The line that is about to run; None after the step.
        self._arena_hash: int | None = None
        self._sources: dict[str, SourceFile] = {}
        self._named_methods = NamedMethods()
        self._words: dict[tuple[str, int], frozenset[str]] = {}
        self._owners: dict[str, Any] = {}  # The objects by their prefixes.
        self._unseen = UnseenChanges(Digester(self._state_offset_of))

    def hold(self, held: InstanceObjects) -> None:
        """Take the objects as they are before the step."""
        self._held = self.digester.held = self._by_content.held = self._unseen.digester.held = held
        self._unseen.hold(attributes_before(held.named, self.digester))

    # --- events

    def line(self, frame: FrameType) -> None:
        """Trace a line that is about to run."""
        if len(self.trace.records) >= RECORDS_MAX:
            self.trace.limited = f"only the first {RECORDS_MAX:,} lines of the step were watched"
            return
        self._coming = (frame.f_code.co_filename, frame.f_lineno)
        fresh = self._read(frame)
        key = id(frame)
        if key not in self._frames:
            self._frames[key] = self._frame_count
            if self._held.was_suspended(frame):
                self.trace.suspended.add(self._frame_count)
            self._frame_count += 1
            fresh |= self._read_locals(frame)
        self._append(LINE, frame, fresh)
        statement = self._source(frame.f_code.co_filename).statement(frame.f_lineno)
        self.trace.records[self._last].named |= {
            word: name for word, name, _ in named_attributes(frame, [statement], self._number_of)
        }
        self._note_orders(frame)
        self.trace.records[self._last].asked |= asked_identities(frame, statement)

    def returned(self, frame: FrameType, value: Any) -> None:
        """Trace the return from a function of the user's."""
        key = id(frame)
        if key not in self._frames or len(self.trace.records) >= RECORDS_MAX:
            return
        is_last = self._caller(frame) is None and not is_yield(frame)
        self._coming = None if is_last else ("", 0)
        self._read(frame)
        number = self._frames[key]
        self._append(RETURN, frame, {})
        self.trace.records[self._last].after[f"f{number}:return"] = self._digest(value)
        self._note_order(RETURN, value)
        if is_yield(frame):
            self._suspended[key] = frame  # Kept alive: no other frame may get its id.
        else:
            self._forget(key, number)
        caller = self._caller(frame)
        if caller is not None:
            self._append(RESUME, caller, {})

    def ended_early(self) -> None:
        """Note that the rest of the step was not traced."""
        record = self.trace.records[self._last] if self._last >= 0 else None
        where = f" after {Path(record.path).name}:{record.line}" if record is not None else ""
        self.trace.limited = (
            f"no line{where} was watched: the trace ended there, as it does where recursion is too deep"
        )

    def _forget(self, key: int, number: int) -> None:
        del self._frames[key], self._running[key]
        self._suspended.pop(key, None)
        for name in [name for name in self._seen if name.startswith(f"f{number}:")]:
            del self._seen[name]
            self._large.pop(name, None)

    def note(self, name: str, inputs: list[int], outputs: list[int], parts: list[str]) -> None:
        """Note an operation. parts: see Operation."""
        if len(self.trace.operations) < OPERATIONS_MAX and self._last >= 0:
            record = self.trace.records[self._last]
            self.trace.operations.append(Operation(name, self._last, record.path, record.line, inputs, outputs, parts))

    def digest(self, value: Any) -> int:
        """The digest of an operation's input or output: by content, also inside the state."""
        return self._digest(value, self._by_content)

    def finish(self) -> StepTrace:
        """Return the trace after the step; the last changes belong to its last line."""
        self._read_state({})
        for key, (number, owner) in self._objects.items():
            name, named = self._held.named.get(key, ("", None))
            if named is owner:
                self.trace.owners[number] = name
            if self._held.is_elsewhere(owner):
                self.trace.elsewhere.add(number)
        return self.trace

    # --- reading values

    def _append(self, kind: str, frame: FrameType, before: Values) -> None:
        code, key = frame.f_code, id(frame)
        caller = self._caller(frame)
        parent = self._running[id(caller)] if caller is not None else -1
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        number = self._objects[id(owner)][0] if id(owner) in self._objects else -1
        if is_inner(code.co_name) and parent >= 0:
            number = self.trace.records[parent].owner
        record = Record(
            kind,
            str(frame.f_globals.get("__name__", "")),
            code.co_filename,
            frame.f_lineno,
            code.co_qualname,
            self._frames[key],
            parent,
            number,
            before,
        )
        self._last = self._running[key] = len(self.trace.records)
        self.trace.records.append(record)

    def _number_of(self, value: Any) -> int | None:
        """The number of an object whose attributes are read one by one."""
        entry = self._objects.get(id(value))
        return None if entry is None or isinstance(value, _WITH_CONTENT) else entry[0]

    def _caller(self, frame: FrameType) -> FrameType | None:
        caller = frame.f_back
        while caller is not None and id(caller) not in self._running:
            caller = caller.f_back
        return caller

    def _read(self, frame: FrameType) -> Values:
        """Add changes since the last reading to the lines that made them; return the values that are new."""
        if self.digester.hashed_bytes > HASHED_BYTES_MAX:
            self.trace.limited = f"values were watched up to line {len(self.trace.records):,} of the step"
            return {}
        fresh: Values = {}
        self._read_state(fresh)
        read_before = len(self._objects)
        running = self._running.get(id(frame), -1)
        lines = [frame.f_lineno, *([self.trace.records[running].line] if running >= 0 else [])]
        statements = [self._source(frame.f_code.co_filename).statement(line) for line in lines]
        named = {name: value for _, name, value in named_attributes(frame, statements, self._number_of)}
        for name, value in (named | self._shared(frame)).items():
            # A new attribute of an object whose attributes were read before was created by a line since then.
            is_made = name.startswith("o") and int(name[1:].partition(":")[0]) < read_before
            self._take(name, value, self._last, fresh, is_made=is_made)
        if id(frame) in self._frames:
            fresh |= self._read_locals(frame)
        return fresh

    def _read_locals(self, frame: FrameType) -> Values:
        fresh: Values = {}
        prefix = f"f{self._frames[id(frame)]}:"
        running = self._running.get(id(frame), -1)
        present = {f"{prefix}{name}": value for name, value in frame.f_locals.items()}
        for name, value in present.items():
            self._take(name, value, running, fresh, is_made=True)
        for name in [name for name in self._seen if name.startswith(prefix) and name not in present]:
            del self._seen[name]
            if running >= 0:
                self.trace.records[running].after[name] = None
        return fresh

    def _take(self, name: str, value: Any, record: int, fresh: Values, *, is_made: bool = False) -> None:
        last_read = self._large[name][2] if name in self._large else None
        digest = self._current_digest(name, value, record)
        if name[0] == "f" and self._seen.get(name, -1) != digest:
            self._unseen.note(name, value, record)
        if name not in self._seen:
            by = record
            if record >= 0 and not is_made:
                prefix, _, attribute = name.partition(":")
                by = self._unseen.changed_at(self._owners.get(prefix), attribute, value, record)
            if by >= 0:
                self.trace.records[by].after[name] = digest  # A variable or an attribute that the line created.
            else:
                fresh[name] = digest
        elif self._seen[name] != digest and record >= 0:
            self.trace.records[record].after[name] = digest
            if last_read is not None and last_read < record - 1:
                self.trace.records[record].late[name] = last_read
        self._seen[name] = digest

    def _current_digest(self, name: str, value: Any, record: int) -> int:
        if id(value) in self._objects and not isinstance(value, _WITH_CONTENT):
            self.trace.holds[name] = self._objects[id(value)][0]
            return 0  # Its attributes are read one by one.
        self.trace.holds.pop(name, None)
        large = self._large.get(name)
        if large is not None and large[0] == id(value) and not self._is_due(name, record):
            return large[1]
        digest = self._digest(value)
        is_large = value.nbytes > LARGE_BYTES if isinstance(value, np.ndarray) else self.digester.parts > LARGE_PARTS
        if is_large:
            self._large[name] = (id(value), digest, self._last)
        else:
            self._large.pop(name, None)
        return digest

    def _is_due(self, name: str, record: int) -> bool:
        """Return True if a large value is read again: where a line names it, the less often the more often that ran.

        A loop over many objects names all of them in each turn. A reading that was put off is made up for before another
        line that names the value, and after the step.
        """
        is_put_off = name in self._put_off
        if is_put_off and (self._coming is None or self._is_rare(name, *self._coming)):
            is_due = True
        elif record < 0:
            return True
        else:
            place = (self.trace.records[record].path, self.trace.records[record].line)
            if not self._names(name, *place):
                return False
            count = self._read_counts[name, *place] = self._read_counts.get((name, *place), 0) + 1
            is_due = count <= READS_MAX or count.bit_count() == 1
        (self._put_off.discard if is_due else self._put_off.add)(name)
        return is_due

    def _is_rare(self, name: str, path: str, line: int) -> bool:
        """Return True if a line names a value, and has not done so often."""
        return self._names(name, path, line) and self._read_counts.get((name, path, line), 0) < READS_MAX

    def _note_orders(self, frame: FrameType) -> None:
        """Note the orders of the sets that the line that is about to run may iterate over."""
        statement = self._source(frame.f_code.co_filename).statement(frame.f_lineno)
        for word in statement.iterates if statement is not None else ():
            self._note_order(word, value_of_word(frame, word))
        for made in statement.makes if statement is not None else ():
            self._note_order(made, set_made(frame, made))

    def _note_order(self, word: str, value: Any) -> None:
        if type(value) in {set, frozenset} and 1 < len(value) <= self._members_left:
            self._members_left -= len(value)
            members, order = self.digester.order_of(value)
            self.trace.records[self._last].orders[word] = (members, order, order_text(value))

    def _source(self, path: str) -> SourceFile:
        if path not in self._sources:
            self._sources[path] = SourceFile(path)
        return self._sources[path]

    def _names(self, name: str, path: str, line: int) -> bool:
        """Return True if the statement of a line contains the last part of a value's name."""
        if (path, line) not in self._words:
            self._words[path, line] = frozenset(_WORD.findall(self._source(path).statement_text(line)))
        return name.rpartition(":")[2] in self._words[path, line]

    def _shared(self, frame: FrameType) -> dict[str, Any]:
        """The values that a function sees besides its locals and the state: attributes, and globals that it names."""
        values: dict[str, Any] = {}
        code = frame.f_code
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        attributes = watched_attributes(owner)
        if isinstance(attributes, dict) and not isinstance(owner, type | ModuleType | State | np.ndarray):
            number = self._objects.setdefault(id(owner), (len(self._objects), owner))[0]
            self._owners[f"o{number}"] = owner
            values |= {f"o{number}:{name}": value for name, value in attributes.items() if is_data(value)}
            self.trace.not_kept.update(name for name in attributes if f"o{number}:{name}" not in values)
            values |= kept_by_classes(type(owner))
        elif isinstance(owner, type) and is_users(owner.__module__):  # A method of the class.
            values |= kept_by_classes(owner)
        module = frame.f_globals.get("__name__", "")
        values |= {f"g:{module}:{name}": frozen for name, frozen in compiled_globals(frame).items()}
        for name in code.co_names:
            value = frame.f_globals.get(name)
            if name in frame.f_globals and (is_data(value) or is_cache(value) or is_function(value)):
                values[f"g:{module}:{name}"] = value
            if isinstance(value, ModuleType):  # As in memos.COSTS: of a module that the function names.
                for inner in (one for one in code.co_names if one in vars(value)):
                    member, label = vars(value)[inner], f"g:{value.__name__}:{inner}"
                    values |= {label: member} if is_compared(value, inner) else asked_of_class(member, label)
            if isinstance(value, type):
                values |= asked_of_class(value, f"g:{module}:{name}") | named_class(value, module, code)
        reached = [*(attributes.values() if isinstance(attributes, dict) else ()), *frame.f_locals.values()]
        for kind in {type(value) for value in reached}:
            values |= self._named_methods.of(kind, code)
        return values

    def _read_state(self, fresh: Values) -> None:
        if self._is_captured:
            return  # It is taken from the objects after the step: no line of the step writes it.
        state = self._simulation.state
        arena_hash = hash_arena(state.layout, state.arena)
        self.digester.hashed_bytes += state.layout.size_bytes
        if arena_hash == self._arena_hash:
            return
        self._arena_hash = arena_hash
        snapshot = state.snapshot()
        for name in snapshot:
            self._take(f"s:{name}", snapshot[name], self._last, fresh)

    def _state_offset_of(self, array: np.ndarray[Any, Any]) -> int | None:
        arena = self._simulation.state.arena
        start = array.__array_interface__["data"][0] - arena.__array_interface__["data"][0]
        return start if array.size and 0 <= start < arena.nbytes else None

    def _digest(self, value: Any, digester: Digester | None = None) -> int:
        digest = (digester or self.digester).digest(value)
        if digest not in self.trace.texts:
            self.trace.texts[digest] = text_of(value, self._held)
            self._keep(digest, value, by_content=digester is not None)
            is_large = (digester or self.digester).parts > LARGE_PARTS
            if self._kept_parts[is_large] < TOTAL_MAX and is_of_parts(value):
                self.trace.parts[digest] = parts_of(value, self._held)
                self._kept_parts[is_large] += len(self.trace.parts[digest])
        return digest

    def _keep(self, digest: int, value: Any, *, by_content: bool) -> None:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject or (not by_content and self._state_offset_of(value) is not None):
                return
        elif not isinstance(value, np.generic | float) and type(value) not in {int, bool}:
            return
        if isinstance(value, int) and value.bit_length() > 63:
            return
        kept = np.array(np.asarray(value))
        if self._kept_bytes + kept.nbytes <= KEPT_BYTES_MAX:
            self._kept_bytes += kept.nbytes
            self.trace.arrays[digest] = kept
