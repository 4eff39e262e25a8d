"""Files are looked at before they are believed."""

import os

import pytest

from eniac import RunError
from eniac.runs.files import TEMPORARY, write_atomically
from eniac.runs.log import read_records
from eniac.runs.manifest import read_manifest
from eniac.runs.reading import (
    DEEPEST,
    MAX_JSON,
    MAX_LOG,
    open_file,
    parse_json,
    read_json,
    require_own,
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"  \n", "it is empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"\xff\xfe{\0}\0", "byte order mark"),
        (b'{"a": "\xe9"}', "not text in UTF-8, from byte 7 on"),
        (b"NaN", "it has NaN"),
        (b"[-Infinity]", "it has -Infinity"),
        (b"1e400", "1e400, which is too large"),
        (b"9" * 400, "a number of 400 digits"),
        (b"-" + b"9" * 5000, "a number of 5,000 digits"),
        (b"[" * 10_000 + b"]" * 10_000, "nested more than"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "nested more than"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "nested more than"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'[{"b": {"a": 1, "a": 1}}]', "'a' twice"),
        (b'"\\ud800"', "not Unicode"),
        (b'{"\\udfff": 1}', "not Unicode"),
        (b"{'a': 1}", "line 1 column 2"),
        (b"[1] [2]", "Extra data"),
        (b'["\0"]', "control character"),
    ],
)
def test_what_is_no_json_or_what_readers_differ_about_is_refused(content, words):
    with pytest.raises(ValueError) as caught:
        parse_json(content)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


def test_json_is_read_as_it_stands():
    text = (
        '{"a": [1, -2.5, 1e3, true, null, "\\u00e9\\ud83d\\ude00"], "b": {}, "c": 123456789012345}'
    )
    assert parse_json(text.encode()) == {
        "a": [1, -2.5, 1000.0, True, None, "é😀"],
        "b": {},
        "c": 123456789012345,
    }
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    assert parse_json(deep) is not None


def test_what_is_no_file_is_told_by_its_kind_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "round").symlink_to("round")
    for name, words in (
        ("pipe", "is a named pipe"),
        ("folder", "is a folder"),
        ("device", "is a device"),
        ("round", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(RunError, match=words) as caught:
            read_json(tmp_path / name)
        assert str(caught.value).isprintable()


def test_a_link_to_a_file_is_followed_unless_it_may_not_be(tmp_path):
    (tmp_path / "file").write_text("[1]")
    (tmp_path / "link").symlink_to("file")
    assert read_json(tmp_path / "link") == [1]
    with pytest.raises(RunError, match="is a symbolic link"):
        open_file(tmp_path / "link", follow=False)
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "nothing")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    for name, size, read in (
        ("config.json", MAX_JSON + 1, read_json),
        ("metrics.jsonl", MAX_LOG + 1, read_records),
    ):
        path = tmp_path / name
        path.touch()
        os.truncate(path, size)
        with pytest.raises(RunError, match="and is not read"):
            read(path)


def test_a_log_is_written_only_to_a_file_of_its_own(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("the user's")
    (tmp_path / "metrics.jsonl").symlink_to(outside)
    with pytest.raises(RunError, match="is a symbolic link"):
        require_own(tmp_path / "metrics.jsonl")
    require_own(outside)
    require_own(tmp_path / "nothing yet")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_stands_in_the_way_of_a_write_is_replaced_and_not_written_to(tmp_path, kind):
    outside, temporary = tmp_path / "outside", tmp_path / f"file{TEMPORARY}"
    outside.write_text("the user's")
    if kind == "link":
        temporary.symlink_to(outside)
    else:
        os.mkfifo(temporary)
    write_atomically(tmp_path / "file", b"ours")
    assert (tmp_path / "file").read_bytes() == b"ours"
    assert not (tmp_path / "file").is_symlink()
    assert outside.read_text() == "the user's"


@pytest.mark.parametrize("text", ["[]", "3", '{"sessions": 3}', "{}", "[" * 10_000, "{", "NaN"])
def test_a_manifest_that_cannot_be_read_is_as_none(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    assert read_manifest(tmp_path) == {}
