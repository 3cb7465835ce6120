"""What records say: directories, times, who said what, and whose file it is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lifecycle._records import (
    ENDS,
    first_cwd,
    last_recorded,
    latest_in,
    message_of,
    parse,
    sole_session_id,
)
from lifecycle._titles import title_of
from sample import Record, record, user, write_lines

SID = "0b54a1c2-7d1e-4f0a-9c55-3e2f1d4b8a90"
AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
PADDING = [record("attachment", SID, AT, cwd="", attachment="x" * 1000)] * 80
DEEP = b"[" * 100_000
RESULT: Record = {"type": "tool_result", "tool_use_id": "1", "content": "42"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the test writes its one transcript."""
    return tmp_path / f"{SID}.jsonl"


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


@pytest.mark.parametrize("size", [300, 1_000, 1_050, 3_000], ids=str)
def test_of_a_line_too_long_to_parse_its_end_counts_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("lifecycle._records.LONGEST", 200)
    monkeypatch.setattr("lifecycle._transcript.BLOCK", 512)
    long = {"data": "x" * size, "timestamp": "2026-11-01T09:30:05.000Z"}
    write_lines(path, [user("hi", SID, AT), long, *PADDING])
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


def test_between_two_lines_longer_than_the_ends_the_rest_is_still_read(path: Path) -> None:
    long = user("x" * 2 * ENDS, SID, AT)
    del long["cwd"]
    write_lines(path, [long, user("Go on", SID, AT, cwd="/a/b"), long])
    assert first_cwd(str(path)) == "/a/b"
