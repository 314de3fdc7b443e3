"""The outside world of a replay is compared with what the recording noted; only what was compared is called different."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from recorder.ambient.outside.outside_note import NotedFact, OutsideNote
from recorder.ambient.outside.outside_read import VARIABLE, OutsideRead, content_fact, variable_fact
from recorder.ambient.outside.process_facts import process_facts
from replayer.desync.outside_comparison import (
    DIFFERS,
    EQUAL,
    LATER,
    NOT_COMPARED,
    NOT_NOTED,
    ReadComparison,
    compare_reads,
    compare_settings,
    few_texts,
    most_telling,
    with_later_changes,
)

FACTS = [  # Kind, name, fact when the recording began, fact now, result, words.
    ("file", "a.json", "3 aa", "3 aa", "equal", "as when the recording began"),
    ("file", "a.json", "3 aa", "3 bb", "differs", "other content than when the recording began"),
    (
        "file",
        "a.json",
        "3 aa",
        "absent",
        "differs",
        "not found now in the present folder, there when the recording began",
    ),
    ("arguments", "sys.argv", "aa", "bb", "differs", "other arguments than when the recording began"),
    (
        "arguments",
        "sys.argv",
        "aa",
        "aa",
        "not compared",
        "as when the recording began; the name of the program, sys.argv[0], is not compared",
    ),
    ("file", "/a.json", "3 aa", "absent", "differs", "not found now, there when the recording began"),
    ("file", "a.json", "absent", "3 aa", "differs", "there now, missing when the recording began"),
    ("file", "a.json", "absent", "absent", "equal", "as when the recording began"),
    ("file", "a.json", None, "3 aa", "not compared", "not compared: it could not be read then or now"),
    ("file", "a", f"{4 << 20} a", f"{4 << 20} a", "equal", "as when the recording began"),
    (
        "file",
        "a",
        f"{(4 << 20) + 1} a",
        f"{(4 << 20) + 1} a",
        "equal",
        "size and the first 4 MiB as when the recording began",
    ),
    (
        "attributes",
        "a",
        "folder",
        "folder",
        "not compared",
        "kind and size as when the recording began; its times and rights are not compared",
    ),
    ("attributes", "a", "absent", "absent", "equal", "as when the recording began"),
    ("folder", "units", "2 aa bb", "2 aa bb", "equal", "as when the recording began"),
    (
        "folder",
        "units",
        "2 aa bb",
        "2 aa cc",
        "differs",
        "the same entries in another order than when the recording began",
    ),
    ("folder", "units", "2 aa bb", "3 dd cc", "differs", "other entries than when the recording began"),
    (
        "attributes",
        "a",
        "folder",
        "file of 3 bytes",
        "differs",
        "a file of 3 bytes now, a folder when the recording began",
    ),
    ("variable", "HOME", "aa", "bb", "differs", "another value than when the recording began"),
    ("variable", "HOME", "aa", "unset", "differs", "not set now, set when the recording began"),
    ("variable", "HOME", "unset", "aa", "differs", "set now, not set when the recording began"),
    ("variable", "HOME", "unset", "unset", "equal", "as when the recording began"),
    ("threads", "os.cpu_count", "8", "2", "differs", "2 now, 8 when the recording began"),
    (
        "threads",
        "threading.active_count",
        None,
        None,
        "not compared",
        "not compared: the number, or the order in which threads run, was not noted",
    ),
    ("clock", "time.time", None, None, "not compared", "not compared: a clock differs from run to run"),
    ("entropy", "uuid.uuid4", None, None, "not compared", "not compared: it differs from run to run"),
    ("identity", "id", None, None, "not compared", "not compared: it differs from process to process"),
]


@pytest.mark.parametrize(("kind", "name", "recorded", "present", "result", "found"), FACTS)
def test_each_difference_has_its_words(
    kind: str, name: str, recorded: str | None, present: str | None, result: str, found: str
) -> None:
    note = OutsideNote(None, 3, (NotedFact(kind, name, "game.py:3", recorded),))
    (compared,) = compare_reads(note, [OutsideRead(kind, name, "/here/game.py", 31, present)])
    assert (compared.result, compared.found, compared.place) == (result, found, "game.py:31")
    assert str(compared) == f"{name}: {found} (read at game.py:31)"


@pytest.mark.parametrize(
    ("kind", "name", "fact", "result"),
    [
        ("file", "a.json", "3 aa", "not noted"),
        ("variable", "HOME", "aa", "not noted"),
        ("threads", "os.cpu_count", "2", "not compared"),
        ("clock", "time.time", None, "not compared"),
        ("time zone", "time.localtime", "UTC", "not noted"),
    ],
)
def test_what_was_not_noted_is_never_a_difference(kind: str, name: str, fact: str | None, result: str) -> None:
    (compared,) = compare_reads(OutsideNote(), [OutsideRead(kind, name, "game.py", 31, fact)])
    assert compared.result == result


def test_the_time_zone_is_compared_whether_or_not_a_watched_step_read_it() -> None:
    note = OutsideNote({"time_zone": "CET/CEST UTC+1", "locale": "C"})
    reads = [
        OutsideRead("time zone", "time.localtime", "game.py", 1, "UTC/UTC UTC+0"),
        OutsideRead("locale", "locale.localeconv", "game.py", 2, "C"),
    ]
    assert [(one.result, one.found) for one in compare_reads(note, reads)] == [
        ("differs", "UTC/UTC UTC+0 now, CET/CEST UTC+1 when the recording began"),
        ("equal", "as when the recording began"),
    ]


def test_the_seed_of_hashes_is_that_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variants of replay explain set another one."""
    read = OutsideRead("hash of text", "hash of a text", "game.py", 1, "PYTHONHASHSEED=0")
    note = OutsideNote(None, 1, (NotedFact("hash of text", "hash of a text", "game.py:1", "PYTHONHASHSEED=7"),))
    for seed, result in (("7", "equal"), ("8", "differs"), ("", "not compared")):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        assert [one.result for one in compare_reads(note, [read])] == [result]


def test_differences_come_first() -> None:
    facts = [NotedFact("variable", name, "game.py:1", "aa") for name in "AB"]
    reads = [
        OutsideRead("variable", name, "game.py", 1, fact) for name, fact in (("A", "aa"), ("C", "cc"), ("B", "bb"))
    ]
    compared = compare_reads(OutsideNote(None, 1, tuple(facts)), reads)
    assert [(one.name, one.result) for one in compared] == [("B", "differs"), ("C", "not noted"), ("A", "equal")]


def test_a_setting_that_the_step_does_not_read_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = process_facts()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    monkeypatch.setenv("OMP_NUM_THREADS", "31")
    try:
        for kind, is_read in (("clock", False), ("time zone", True)):
            compared = compare_settings(OutsideNote(recorded), [OutsideRead(kind, "time.x", "game.py", 3, None)])
            assert compared is not None
            zone = f"time_zone {recorded['time_zone']} recorded, JST/JST UTC+9 now"
            assert (zone in compared.different, zone in compared.unread) == (is_read, not is_read)
            threads = f"OMP_NUM_THREADS {recorded.get('OMP_NUM_THREADS', 'not set')} recorded, 31 now"
            assert threads in compared.different  # A library reads it before the first step.
            assert "locale" in compared.equal
    finally:
        monkeypatch.undo()
        time.tzset()
    assert compare_settings(OutsideNote(), []) is None


def test_features_of_processors_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def differences(recorded: str, present: str) -> Any:
        facts: dict[str, str] = {"time_zone": "UTC", "cpu_features": present}
        monkeypatch.setattr("replayer.desync.outside_comparison.process_facts", lambda: facts)
        compared = compare_settings(OutsideNote(facts | {"cpu_features": recorded}), [])
        assert compared is not None
        return compared.different

    assert differences("SSE AVX", "SSE AVX") == []
    assert differences("SSE AVX2", "SSE AVX512F") == ["cpu_features: AVX2 recorded, not now, AVX512F now, not recorded"]
    assert differences("SSE AVX2", "SSE") == ["cpu_features: AVX2 recorded, not now"]


@pytest.mark.parametrize(
    ("noted", "now", "found"),
    [
        ("found", "absent", "not found now, found when the recording began"),
        ("absent", "found", "found now, not found when the recording began"),
        ("found", "found", None),
        (None, "absent", None),
    ],
)
def test_a_module_is_named_only_where_it_differs(noted: str | None, now: str, found: str | None) -> None:
    """One that is there, as it was, is loaded once and not read in each step."""
    facts = (NotedFact("import", "fast_math", "game.py:7", noted),) if noted is not None else ()
    compared = compare_reads(OutsideNote(None, 1, facts), [OutsideRead("import", "fast_math", "game.py", 7, now)])

    assert [(one.result, one.found) for one in compared] == ([(DIFFERS, found)] if found is not None else [])


@pytest.mark.parametrize(
    ("content", "now", "found"),
    [
        ("absent", "file of 3 bytes", "there now, missing when the recording began"),
        ("3 aa", "absent", "not found now, there when the recording began"),
        ("3 aa", "file of 4 bytes", "a file of 4 bytes now, a file of 3 bytes when the recording began"),
        ("3 aa", "file of 3 bytes", "kind and size as when the recording began; its times and rights are not compared"),
        (None, "absent", "the recording did not note it"),
    ],
)
def test_the_content_that_was_noted_tells_the_attributes(content: str | None, now: str, found: str) -> None:
    """A step that asks whether a file is there asks about one of which the recording noted what is in it."""
    named = (("file", "/a.json", content),) if content is not None else ()
    [read] = compare_reads(OutsideNote(named=named), [OutsideRead("attributes", "/a.json", "game.py", 7, now)])
    assert read.found == found


def test_a_file_that_was_changed_after_the_recording_began_is_marked(tmp_path: Path) -> None:
    """Only one of which the recording noted nothing; the time of the tape decides."""
    path = tmp_path / "menu.json"
    path.write_text("{}")
    os.utime(path, (1_600_000_000, 1_600_000_000))
    compared = compare_reads(OutsideNote(), [OutsideRead("file", str(path), "game.py", 7, "2 00")])

    [later] = with_later_changes(compared, "2020-09-13T12:00:00+00:00")
    assert later.result == LATER
    assert later.found.startswith(
        "changed on 2020-09-13 12:26:40 UTC, after the recording began (2020-09-13 12:00:00 UTC)"
    )
    for created in ("2020-09-13T13:00:00+00:00", None, "soon"):
        assert with_later_changes(compared, created) == compared


@pytest.mark.parametrize(("noted", "result"), [("de_DE.UTF-8", EQUAL), ("C.UTF-8", DIFFERS), (None, DIFFERS)])
def test_a_variable_that_each_recording_notes_of_its_process_is_compared(
    monkeypatch: pytest.MonkeyPatch, noted: str | None, result: str
) -> None:
    """Whether or not a watched step read it when it was recorded."""
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    process = {"processors": "2"} | ({"LANG": noted} if noted is not None else {})
    read = OutsideRead(VARIABLE, "LANG", "game.py", 3, variable_fact("de_DE.UTF-8"))
    (compared,) = compare_reads(OutsideNote(process=process), [read])
    assert compared.result == result


def test_a_file_that_a_replayed_step_has_changed_is_marked(tmp_path: Path) -> None:
    """Its time tells that it was changed since the recording began, and not by whom."""
    path = tmp_path / "menu.json"
    path.write_text("{}")
    compared = compare_reads(OutsideNote(), [OutsideRead("file", str(path), "game.py", 7, "2 00")])

    [later] = with_later_changes(compared, "2020-09-13T12:00:00+00:00")
    assert later.result == LATER
    assert ", by a step that ran again or by another program, after the recording began" in later.found


@pytest.mark.parametrize(
    ("read", "result"),
    [
        (OutsideRead("attributes", "night.txt", "game.py", 3, "absent"), "different"),
        (OutsideRead("file", "night.txt", "game.py", 3, "3 aa"), "different"),
        (OutsideRead("file", "/night.txt", "game.py", 3, "3 aa"), "not told"),
        (OutsideRead("file", "known.txt", "game.py", 3, "3 aa"), "not told"),  # Its content is as it was.
        (OutsideRead("clock", "time.time", "game.py", 3, None), "not told"),
    ],
)
@pytest.mark.parametrize("is_same", [True, False])
def test_the_working_directory_matters_to_relative_paths(read: OutsideRead, result: str, *, is_same: bool) -> None:
    """It is compared where the step reads a relative path whose content is not known to be as it was."""
    recorded = process_facts() | ({} if is_same else {"working_directory": "0123456789abcdef"})
    known = NotedFact("file", "known.txt", "game.py:3", "3 aa")
    compared = compare_settings(OutsideNote(recorded, 1, (known,)), [read])
    assert compared is not None
    told = [text for text in (*compared.different, *compared.unread) if "working directory" in text]
    place = "and the step reads there night.txt (read at game.py:3)"
    words = [f"the working directory is another one than when the recording began, {place}"]
    is_told = result == "different"
    assert told == (words if is_told and not is_same else [])
    assert ("working_directory" in compared.equal) == (is_told and is_same)
    assert compared.read == []  # That it matters is not known.


def test_usable_processors_are_compared_where_the_step_asks_for_them() -> None:
    """They may be fewer than the machine has. A tape of an earlier version does not tell."""
    count = len(os.sched_getaffinity(0))
    asked = [OutsideRead("threads", "os.sched_getaffinity", "game.py", 3, str(count))]
    recorded = process_facts() | {"usable_processors": "77"}
    words = f"usable_processors 77 recorded, {count} now"

    compared = compare_settings(OutsideNote(recorded), asked)
    assert compared is not None
    assert compared.read == [words]
    (read,) = compare_reads(OutsideNote(recorded), asked)
    assert (read.result, read.found) == (DIFFERS, f"{count} now, 77 when the recording began")
    unasked = compare_settings(OutsideNote(recorded), [])
    assert unasked is not None
    assert words in unasked.unread
    del recorded["usable_processors"]
    earlier = compare_settings(OutsideNote(recorded), asked)
    assert earlier is not None
    assert not [text for text in (*earlier.different, *earlier.unread, *earlier.equal) if "usable" in text]


def test_a_step_that_asks_for_the_working_directory_is_compared_by_it() -> None:
    asked = [OutsideRead("contact", "os.getcwd", "game.py", 3, None)]
    (same,) = compare_reads(OutsideNote(process_facts()), asked)
    assert same.result == "equal"
    (other,) = compare_reads(OutsideNote(process_facts() | {"working_directory": "00"}), asked)
    assert (other.result, other.found) == (DIFFERS, "another one than when the recording began")


@pytest.mark.parametrize(
    ("content", "result", "found"),
    [
        ("hello, all", DIFFERS, "other content than when the recording began"),
        ("hell", DIFFERS, "other content than when the recording began"),
        ("", DIFFERS, "other content than when the recording began"),
        ("hullo", DIFFERS, "other content than when the recording began"),
        ("hello", EQUAL, "as when the recording began"),
        (None, DIFFERS, "not found now, there when the recording began"),
    ],
)
def test_a_file_is_compared_by_what_is_in_it(tmp_path: Path, content: str | None, result: str, found: str) -> None:
    """Edited, truncated, emptied, or replaced by one of the same size and time; written again as it was; and removed."""
    path = tmp_path / "menu.txt"
    path.write_text("hello")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    note = OutsideNote(None, 1, (NotedFact("file", str(path), "game.py:7", content_fact(str(path))),))
    path.unlink()
    if content is not None:
        path.write_text(content)
        os.utime(path, ns=times)
    (compared,) = compare_reads(note, [OutsideRead("file", str(path), "game.py", 7, content_fact(str(path)))])
    assert (compared.result, compared.found) == (result, found)


def test_a_sentence_names_a_few_reads_and_counts_the_others() -> None:
    """Files that were changed later come first, then what is no file; of few reads the order stays."""
    files = [ReadComparison("file", f"{number}.json", "game.py", 1, "game.py:1", NOT_NOTED, "") for number in range(20)]
    clock = ReadComparison("clock", "time.time", "game.py", 2, "game.py:2", NOT_COMPARED, "")
    later = ReadComparison("file", "later.json", "game.py", 1, "game.py:1", LATER, "")
    named = few_texts([read.name for read in most_telling([*files, clock, later])])
    assert named == ["later.json", "time.time", *(f"{number}.json" for number in range(6)), "and 14 more reads"]
    assert most_telling([*files[:3], clock]) == [*files[:3], clock]
    assert few_texts(["a", "b"]) == ["a", "b"]
