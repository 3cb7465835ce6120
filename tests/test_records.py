"""What records say: titles, directories, times, who said what, and whose file it is."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deadline import deadline
from lifecycle._records import (
    ENDS,
    first_cwd,
    last_recorded,
    latest_in,
    message_of,
    parse,
    sole_session_id,
    title_of,
)
from sample import Record, assistant, bookkeeping, record, user, write_lines

SID = "0b54a1c2-7d1e-4f0a-9c55-3e2f1d4b8a90"
AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
PADDING = [record("attachment", SID, AT, cwd="", attachment="x" * 1000)] * 80
DEEP = b"[" * 100_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the test writes its one transcript."""
    return tmp_path / f"{SID}.jsonl"


# The sources of a title, best first, and the field that holds it.
SOURCES = {
    "custom-title": "customTitle",
    "file": "customTitle",
    "ai-title": "aiTitle",
    "last-prompt": "lastPrompt",
    "summary": "summary",
    "prompt": "",
}
RECORDED = [kind for kind in SOURCES if kind != "file"]


def source(kind: str, text: object) -> Record:
    """A record that gives a title."""
    if kind == "prompt":
        return user(str(text), SID, AT)
    return bookkeeping(kind, SID, **{SOURCES[kind]: text})


def title_file(path: Path, content: str) -> str:
    """Writes the title file of the session; returns the session's own directory."""
    directory = path.with_suffix("")
    directory.mkdir()
    (directory / "custom-title.json").write_text(content, encoding="utf-8")
    return str(directory)


@pytest.mark.parametrize("best", range(len(SOURCES)), ids=SOURCES)
def test_the_first_source_that_exists_gives_the_title(path: Path, best: int) -> None:
    kinds = list(SOURCES)[best:]
    directory = title_file(path, '{"customTitle": "from file"}') if "file" in kinds else None
    write_lines(path, [source(kind, f"from {kind}") for kind in kinds if kind != "file"])
    assert title_of(str(path), directory) == f"from {kinds[0]}"


@pytest.mark.parametrize("block", [700, 1 << 20], ids=["small blocks", "one block"])
@pytest.mark.parametrize("best", range(len(RECORDED)), ids=RECORDED)
def test_what_the_ends_do_not_have_is_looked_for_between_them(
    path: Path, monkeypatch: pytest.MonkeyPatch, best: int, block: int
) -> None:
    monkeypatch.setattr("lifecycle._transcript.BLOCK", block)
    records = [source(kind, f"from {kind}") for kind in RECORDED[best:]]
    later = source("prompt", "typed later")
    write_lines(path, [*PADDING, *records, *PADDING[:2], later, *PADDING])
    assert title_of(str(path)) == f"from {RECORDED[best]}"


@pytest.mark.parametrize("kind", RECORDED[:-1])
@pytest.mark.parametrize(
    ("before", "between", "behind"),
    [(0, 0, 0), (0, 1, 0), (1, 0, 1)],
    ids=["side by side", "in both ends", "between the ends"],
)
def test_the_last_record_of_a_kind_wins(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    before: int,
    between: int,
    behind: int,
) -> None:
    monkeypatch.setattr("lifecycle._transcript.BLOCK", 700)
    old, new = source(kind, "old"), source(kind, " 新しい 🚀\n")
    records = [*PADDING * before, old, *PADDING * between, new, *PADDING * behind]
    write_lines(path, records)
    assert title_of(str(path)) == "新しい 🚀"


@pytest.mark.parametrize("text", ["", " \n", None, 7, ["x"]], ids=repr)
def test_a_title_without_text_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch, text: object
) -> None:
    monkeypatch.setattr("lifecycle._transcript.BLOCK", 700)
    records = [source(kind, text) for kind in RECORDED[:3]]
    records = [source("ai-title", "good"), *PADDING, *records]
    for around in ([], PADDING):
        write_lines(path, [*around, *records, *around])
        assert title_of(str(path)) == "good"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"customTitle": 7}', '{"customTitle": " "}'], ids=repr
)
def test_a_title_file_without_a_title_is_none(path: Path, content: str) -> None:
    write_lines(path, [source("ai-title", "good")])
    assert title_of(str(path), title_file(path, content)) == "good"


def test_a_title_file_that_is_a_link_or_a_fifo_is_not_read(path: Path, tmp_path: Path) -> None:
    write_lines(path, [source("ai-title", "good")])
    file = Path(title_file(path, '{"customTitle": "bad"}'), "custom-title.json")
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert title_of(str(path), str(file.parent)) == "good"
    file.unlink()
    os.mkfifo(file)
    with deadline():
        assert title_of(str(path), str(file.parent)) == "good"


def test_a_title_in_the_ends_is_found_without_reading_the_rest(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(path, [*PADDING * 9, source("custom-title", "found")])
    monkeypatch.setattr("lifecycle._records._streamed_title", None)
    assert title_of(str(path)) == "found"


def test_a_title_in_a_record_of_another_kind_is_none(path: Path) -> None:
    quoted = json.dumps(source("custom-title", "quoted"))
    other = bookkeeping("mode", SID, customTitle="other", aiTitle="other", summary="other")
    write_lines(path, [user(quoted, SID, AT), assistant(quoted, SID, AT), other])
    assert title_of(str(path)) == quoted


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("<system-reminder>\nBe brief\n</system-reminder>\n fix it ", "fix it"),
        ("[Request interrupted by user] go on", "go on"),
        ("<b>bold</b> is broken", "<b>bold</b> is broken"),
        ("[draft] text", "[draft] text"),
    ],
    ids=["behind an envelope", "behind an interruption", "opens with <", "opens with ["],
)
def test_a_prompt_is_shown_as_it_was_typed(path: Path, typed: str, title: str) -> None:
    write_lines(path, [user(typed, SID, AT), user("second", SID, AT)])
    assert title_of(str(path)) == title


RESULT: Record = {"type": "tool_result", "tool_use_id": "1", "content": "42"}


@pytest.mark.parametrize(
    "records",
    [
        [],
        [bookkeeping("mode", SID, mode="normal")],
        [user("Caveat", SID, AT, isMeta=True)],
        [user("This session continues", SID, AT, isCompactSummary=True)],
        [user("<command-name>/clear</command-name>", SID, AT)],
        [user([RESULT], SID, AT)],
        [user("Look for callers", SID, AT, isSidechain=True)],
        [assistant("Hello", SID, AT), record("system", SID, AT, content="Hook ran")],
    ],
    ids=["empty", "bookkeeping", "meta", "compaction", "envelope", "result", "side", "no user"],
)
def test_where_nobody_typed_there_is_no_title(path: Path, records: list[Record]) -> None:
    write_lines(path, [*PADDING, *records, *PADDING] if records else [])
    assert title_of(str(path)) is None


@pytest.mark.parametrize("content", [None, b"\0" * 500, b"\xff\xfe\n" * 9, DEEP, b'{"type":"us'])
def test_what_cannot_be_read_has_neither_title_nor_anything_else(
    path: Path, content: bytes | None
) -> None:
    if content is None:
        assert title_of(str(path)) is None
        assert sole_session_id(str(path)) is None
        for read in (first_cwd, last_recorded):
            with pytest.raises(FileNotFoundError):
                read(str(path))
        return
    path.write_bytes(content)
    assert {read(str(path)) for read in (title_of, sole_session_id, first_cwd)} == {None}
    assert last_recorded(str(path)) is None


@pytest.mark.parametrize(
    ("records", "cwd"),
    [
        pytest.param([{"cwd": "/a"}, {"cwd": "/b"}], "/a", id="the first of two"),
        pytest.param([{"type": "mode"}, {"cwd": ""}, {"cwd": 7}, {"cwd": "/b"}], "/b", id="odd"),
        pytest.param([*PADDING, {"cwd": "/é 😀"}, *PADDING], "/é 😀", id="between the ends"),
        pytest.param([{"message": {"cwd": "/a"}, "text": '"cwd":"/a"'}], None, id="not its own"),
        pytest.param([{"type": "mode"}], None, id="none"),
    ],
)
def test_the_first_recorded_directory_is_found(
    path: Path, records: Sequence[Mapping[str, object]], cwd: str | None
) -> None:
    assert first_cwd(str(write_lines(path, records))) == cwd


def ns(**later: int) -> int:
    """The instant so much later than AT, in ns since the epoch."""
    since = AT + timedelta(**later) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1000


# Records on lines of their own, and the latest time; each holds for `latest_in` too.
TIMES = {
    "one": ('{"timestamp":"2026-11-01T09:30:00.000Z"}', ns()),
    "to the microsecond": ('{"timestamp":"2026-11-01T09:30:00.123456Z"}', ns(microseconds=123456)),
    "a space after the colon": ('{"timestamp": "2026-11-01T09:30:00.000Z"}', ns()),
    "an offset": ('{"timestamp":"2026-11-01T11:30:00.000+02:00"}', ns()),
    "not in order": (
        '{"timestamp":"2026-11-01T09:30:02.000Z"}\n{"timestamp":"2026-11-01T09:30:01.000Z"}',
        ns(seconds=2),
    ),
    "an earlier hour that is later": (
        '{"timestamp":"2026-11-01T11:30:00.000Z"}\n{"timestamp":"2026-11-01T10:30:00.000-02:00"}',
        ns(hours=3),
    ),
    "no fraction before a fraction": (
        '{"timestamp":"2026-11-01T09:30:00Z"}\n{"timestamp":"2026-11-01T09:30:00.500Z"}',
        ns(milliseconds=500),
    ),
    "a later one that is none": (
        '{"timestamp":"2026-11-01T09:30:00.000Z"}\n{"timestamp":"2026-99-01T09:30:00.000Z"}',
        ns(),
    ),
    "torn behind the time": ('{"timestamp":"2026-11-01T09:30:00.000Z","type":"us', ns()),
    "torn in the time": (
        '{"timestamp":"2026-11-01T09:30:00.000Z"}\n{"timestamp":"2026-11-02T09:3',
        ns(),
    ),
    "quoted in a text": (
        '{"timestamp":"2026-11-01T09:30:00.000Z","text":"\\"timestamp\\":\\"2030-01-01\\""}',
        ns(),
    ),
    "a number": ('{"timestamp":1793525400}', None),
    "none": ('{"type":"mode"}', None),
}


@pytest.mark.parametrize(("text", "latest"), TIMES.values(), ids=TIMES)
def test_the_latest_time_is_the_maximum_of_what_is_recorded(
    path: Path, text: str, latest: int | None
) -> None:
    path.write_text(text, encoding="utf-8")
    assert last_recorded(str(path)) == latest
    assert latest_in(text.encode()) == latest


def test_a_time_without_an_offset_is_utc_wherever_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert latest_in(b'"timestamp":"2026-11-01T09:30:00"') == ns()
    time.tzset()


def test_a_time_in_a_tool_result_is_none_of_the_session(path: Path) -> None:
    """The quick look counts it, and so asks for the exact one."""
    result = {"timestamp": "2030-01-01T00:00:00.000Z"}
    write_lines(path, [user("hi", SID, AT, toolUseResult=result), {"snapshot": result}])
    assert last_recorded(str(path)) == ns()
    later = latest_in(path.read_bytes())
    assert later is not None
    assert later > ns(days=1000)


def test_of_a_line_too_long_to_parse_its_beginning_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lifecycle._records.LONGEST", 200)
    long = {"timestamp": "2026-11-01T09:30:05.000Z", "data": "x" * 500}
    write_lines(path, [*PADDING, user("hi", SID, AT), long, *PADDING])
    assert path.stat().st_size > 2 * ENDS
    assert last_recorded(str(path)) == ns(seconds=5)


def said(kind: str, content: object, **fields: object) -> Record:
    return {"type": kind, "message": {"role": kind, "content": content}, **fields}


TEXT: Record = {"type": "text", "text": "Done"}
CALL: Record = {"type": "tool_use", "name": "Read", "input": {"text": "secret"}}
THOUGHT: Record = {"type": "thinking", "thinking": "secret"}
MESSAGES = {
    "typed": (said("user", "hi"), ("user", "hi")),
    "blocks": (said("user", [TEXT, {"type": "text", "text": "it"}]), ("user", "Done it")),
    "strings as blocks": (said("user", ["a", "b"]), ("user", "a b")),
    "a result": (said("user", [RESULT]), ("user", "[TOOL_RESULT]")),
    "an image": (said("user", [{"type": "image", "source": {}}]), ("user", "[image]")),
    "a call before text": (said("assistant", [CALL, TEXT]), ("assistant", "Done [TOOL:Read]")),
    "a thought": (said("assistant", [THOUGHT]), ("assistant", "[THINKING]")),
    "hidden": (said("assistant", [{"type": "redacted_thinking"}]), ("assistant", "[THINKING]")),
    "a server's call": (
        said("assistant", [{"type": "server_tool_use", "name": "web"}]),
        ("assistant", "[TOOL:web]"),
    ),
    "2024: text content": (said("assistant", "Done: it."), ("assistant", "Done: it.")),
    "2024: text message": ({"type": "user", "message": "hi"}, ("user", "hi")),
    "2024: summary": ({"type": "summary", "summary": "A plan"}, ("summary", "A plan")),
    "system": ({"type": "system", "content": "Hook ran"}, ("system", "Hook ran")),
    "system without text": ({"type": "system", "subtype": "turn_duration"}, ("system", "")),
    "meta": (said("user", "Caveat", isMeta=True), ("system", "Caveat")),
    "compaction": (said("user", "It was", isCompactSummary=True), ("system", "It was")),
    "no sidechain": (said("user", "hi", isSidechain=False), ("user", "hi")),
    "sidechain": (said("user", "hi", isSidechain=True), None),
    "no message": ({"type": "user"}, ("user", "")),
    "odd content": (said("user", {"text": "hi"}), ("user", "")),
    "odd blocks": (said("user", [None, 7, []]), ("user", "")),
    "bookkeeping": ({"type": "attachment", "message": {"content": "hi"}}, None),
    "a new type": ({"type": "brand-new", "content": "hi"}, None),
    "no type": ({"message": {"content": "hi"}}, None),
    "a type that is a list": ({"type": ["user"]}, None),
    "a type that is an object": ({"type": {"user": 1}}, None),
}


@pytest.mark.parametrize(("one", "message"), MESSAGES.values(), ids=MESSAGES)
def test_a_record_is_a_message_by_its_shape(one: Record, message: tuple[str, str] | None) -> None:
    assert message_of(one) == message


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"a": "\xe2\x80\xa8\\ud800"}', {"a": "\u2028\ud800"}),
        (b'["a"]', None),
        (b'"a"', None),
        (b"{} {}", None),
        (b'{"a": "\xff"}', None),
        (b'{"a": ' + b"9" * 5000 + b"}", None),
        (b'{"a": ' + DEEP, None),
        (b"\0" * 9, None),
    ],
    ids=["object", "array", "text", "two", "not UTF-8", "huge number", "deep", "NULs"],
)
def test_a_line_is_a_record_only_where_it_is_one_json_object(
    line: bytes, found: dict[str, object] | None
) -> None:
    assert parse(line) == found


@pytest.mark.parametrize(
    ("content", "owner"),
    [
        (f'{{"sessionId":"{SID}"}}\n\n{{"sessionId":"{SID}"}}\n', SID),
        (f'{{"sessionId":"{SID}"}}\n{{"sessionId":"other"}}\n', None),
        (f'{{"sessionId":"{SID}"}}\n{{"type":"mode"}}\n', None),
        (f'{{"sessionId":"{SID}"}}\n{{"sessionId":"{SID}"', None),
        (f'{{"sessionId":["{SID}"]}}\n', None),
        ('{"sessionId":7}\n', None),
        ("\n", None),
    ],
    ids=["every record", "two", "one without", "torn", "a list", "a number", "blank"],
)
def test_a_file_belongs_to_a_session_only_if_every_record_names_it(
    path: Path, content: str, owner: str | None
) -> None:
    path.write_text(content, encoding="utf-8")
    assert sole_session_id(str(path)) == owner
