"""What a session is called: every source in its turn, and nothing that is none."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deadline import deadline
from lifecycle._records import ENDS
from lifecycle._titles import title_of
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
    # Whoever has the content already gives it, and nothing is read.
    assert title_of("/nowhere.jsonl", directory, path.read_bytes()) == f"from {kinds[0]}"


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
    monkeypatch.setattr("lifecycle._titles._streamed_title", None)
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


@pytest.mark.parametrize("distance", [*range(2_000, 2_120, 7), 5_000])
def test_the_last_title_wins_at_any_distance_from_the_end(path: Path, distance: int) -> None:
    titles = [source("ai-title", "early"), source("ai-title", "late")]
    write_lines(path, [*titles, user("x" * distance, SID, AT)])
    assert title_of(str(path)) == "late"


def test_a_long_title_is_cut_to_200_characters(path: Path) -> None:
    write_lines(path, [user("é" * 300, SID, AT)])
    assert title_of(str(path)) == "é" * 200


def test_between_two_lines_longer_than_the_ends_the_title_is_still_found(path: Path) -> None:
    long = record("attachment", SID, AT, cwd="", attachment="x" * 2 * ENDS)
    write_lines(path, [long, source("custom-title", "found"), long])
    assert title_of(str(path)) == "found"
