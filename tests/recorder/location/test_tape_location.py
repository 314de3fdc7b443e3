"""Locations: what is a URL and what is a path, and the parts of a URL."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

from recorder.location.tape_location import tape_location
from recorder.location.tape_url import TapeUrl, shown_url
from recorder.text import shown_path
from replayer.commands.main import main

from oracle.command_lines import run


@pytest.mark.parametrize(
    "text", ["s3://bucket/a/run.tape", "gs://b/run.tape", "memory://run.tape", "https://h:1/run.tape"]
)
def test_a_url_stays_as_it_is(text: str) -> None:
    location = tape_location(text)

    assert isinstance(location, TapeUrl)
    assert (location.text, location.name, location.suffix) == (text, "run.tape", ".tape")
    assert ForkingPickler.loads(ForkingPickler.dumps(location)) == location
    assert shown_path(location) == text
    assert location.absolute() is location


@pytest.mark.parametrize("text", ["run.tape", "/a/run.tape", "s3:run.tape", "a/b://c", "://a", "1s://b/c", ""])
def test_anything_else_is_a_path(text: str) -> None:
    assert tape_location(text) == Path(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///a/run.tape", "/a/run.tape"),
        ("file://localhost/a/run.tape", "/a/run.tape"),
        ("FILE:///a/with%20blank", "/a/with blank"),
        ("file:///a?b#c", "/a?b#c"),
    ],
)
def test_a_file_url_is_a_path(text: str, path: str) -> None:
    assert tape_location(text) == Path(path)


@pytest.mark.parametrize("text", ["s3://", "s3:///", "file://host/a", "file://", "memory://"])
def test_a_url_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        tape_location(text)


def test_a_path_that_ate_a_slash_is_named() -> None:
    with pytest.raises(ValueError, match="a Path cannot hold a URL"):
        tape_location(Path("s3://bucket/run.tape"))


@pytest.mark.parametrize(
    ("text", "meant"), [("memory:/runs/a.tape", "memory://runs/a.tape"), ("file:/runs/a.tape", "file:///runs/a.tape")]
)
@pytest.mark.parametrize(
    "command", ["info", "ls", "verify", "view", "extract -o data", "plot", "tree", "cut -o part.tape"]
)
def test_a_text_with_one_slash_is_refused_in_one_line(text: str, meant: str, command: str, capsys: Any) -> None:
    assert run(main, f"{command} {text}") == 2
    assert (
        capsys.readouterr().err
        == f"error: {text}: expected {meant.removesuffix('runs/a.tape')} at the beginning of a URL: {meant}\n"
    )


def test_of_a_store_in_memory_a_command_says_that_it_is_its_own(capsys: Any) -> None:
    needs("fsspec")
    assert run(main, "info memory://nowhere/run.tape") == 2
    assert capsys.readouterr().err == (
        "error: memory://nowhere/run.tape: No such file or directory (memory:// has only what this process put there)\n"
    )


def test_a_folder_with_the_name_of_a_scheme_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()

    assert tape_location(Path("s3:/run.tape")) == Path("s3:/run.tape")


def test_names_next_to_a_url() -> None:
    url = TapeUrl("s3://bucket/a/run.tape", options={"anon": True}, read_ahead_bytes=5)

    assert url.with_name("run.tape.1").text == "s3://bucket/a/run.tape.1"
    assert url.parent.text == "s3://bucket/a"
    assert (url.parent / "b").text == "s3://bucket/a/b"
    assert url.parent.parent.parent.text == "s3://bucket"
    assert (url.parent.options, url.parent.read_ahead_bytes) == ({"anon": True}, 5)
    assert "anon" not in repr(url)


def test_a_query_stays_at_the_end_and_is_not_shown() -> None:
    url = TapeUrl("https://me:secret@host/a/run.tape?sign=ed/x")

    assert url.name == "run.tape"
    assert url.with_name("b").text == "https://me:secret@host/a/b?sign=ed/x"
    assert url.parent.text == "https://me:secret@host/a?sign=ed/x"
    assert str(url) == "https://host/a/run.tape"
    assert "secret" not in repr(url)


def test_a_question_mark_is_part_of_an_object_s_name() -> None:
    assert TapeUrl("s3://bucket/what?.tape").name == "what?.tape"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("http://u:SECRET@h:1/a.tape?sig=SECRET", "http://h:1/a.tape"),
        ("-o=https://h/a?sig=SECRET", "-o=https://h/a"),
        ("-ohttps://u:SECRET@h/a#SECRET", "-ohttps://h/a"),
        ("s3://key:SECRET@bucket/what?.tape", "s3://bucket/what?.tape"),
        ("a@b/run.tape?x", "a@b/run.tape?x"),
        ("--long", "--long"),
    ],
)
def test_a_word_is_shown_without_secrets(word: str, shown: str) -> None:
    assert shown_url(word) == shown
    if word.startswith("http"):
        assert shown_path(word) == shown


@pytest.mark.parametrize(
    "text", ["http://u:SECRET@h:notaport/a.tape", "http://[h/a.tape", "https://:80/a", "http://h:99999/a"]
)
def test_a_server_that_has_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected the name of a server") as caught:
        tape_location(text)
    assert "SECRET" not in str(caught.value)
