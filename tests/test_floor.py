"""The math floor: what counts as small, and that doubt counts for the person."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import Place
from lifecycle import FloorStats, Message, evaluate_math_floor, read_messages
from lifecycle.floor import deciding_rule, is_routine
from sample import Record, assistant, bookkeeping, make_sample, record, user, write_lines

SID = "0b54a1c2-7d1e-4f0a-9c55-3e2f1d4b8a90"
AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
FILL = Message("system", "Hook ran")


def conversation(human: int, total: int, prose: str = "") -> list[Message]:
    """So many typed messages, one answer where there is prose, and system messages."""
    messages = [Message("user", f"Please do {n}") for n in range(human)]
    messages += [Message("assistant", prose)] if prose else []
    return messages + [FILL] * (total - len(messages))


@pytest.mark.parametrize(
    ("human", "total", "prose", "routine", "rule"),
    [
        pytest.param(0, 0, 0, True, "no human turn and at most 2 messages", id="nothing"),
        pytest.param(0, 2, 9999, True, "no human turn and at most 2 messages", id="0-2-much"),
        pytest.param(0, 3, 400, True, "at most 1 human turn, 4 messages and 400", id="0-3-400"),
        pytest.param(0, 3, 401, False, "more than 400 bytes of prose", id="0-3-401"),
        pytest.param(0, 4, 0, True, "at most 1 human turn, 4 messages and 400", id="0-4-none"),
        pytest.param(0, 5, 0, False, "more than 4 messages", id="0-5-none"),
        pytest.param(1, 1, 0, True, "at most 1 human turn, 4 messages and 400", id="1-1-none"),
        pytest.param(1, 2, 401, False, "more than 400 bytes of prose", id="1-2-401"),
        pytest.param(1, 4, 400, True, "at most 1 human turn, 4 messages and 400", id="1-4-400"),
        pytest.param(1, 4, 401, False, "more than 400 bytes of prose", id="1-4-401"),
        pytest.param(1, 5, 1, False, "more than 4 messages", id="1-5-1"),
        pytest.param(2, 2, 0, False, "more than 1 human turn", id="2-2-none"),
        pytest.param(2, 4, 400, False, "more than 1 human turn", id="2-4-400"),
    ],
)
def test_the_verdict_follows_from_the_three_numbers(
    human: int, total: int, prose: int, routine: bool, rule: str
) -> None:
    messages = conversation(human, total, "x" * prose)
    stats = FloorStats(human, total, prose)
    assert evaluate_math_floor(iter(messages)) == (routine, stats)
    assert is_routine(iter(messages)) is routine
    verdict, words = deciding_rule(stats)
    assert verdict is routine
    assert words.startswith(rule)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("é" * 200, 400, id="two bytes each"),
        pytest.param("検" * 100, 300, id="three bytes each"),
        pytest.param("😀" * 100, 400, id="four bytes each"),
        pytest.param("\udcff", 3, id="a lone surrogate"),
        pytest.param("  a \n\n\t b\u2003\u2003c \r\n", 5, id="runs of white space fold"),
        pytest.param("[TOOL:Read] file_path=/a b", 0, id="a call reaches to the end"),
        pytest.param("[TOOL_RESULT] 1\n2\n3", 0, id="a result over lines"),
        pytest.param("[TOOL_RESULT:Read] 1", 0, id="a result with a name"),
        pytest.param("[THINKING] about it", 0, id="a thought"),
        pytest.param("Done. [TOOL:Bash] ls a[0] [1] [x] [", 5, id="lower case ends no run"),
        pytest.param("Done. [TOOL:Bash] ls [NOTE] kept", 17, id="the next marker ends a run"),
        pytest.param("[TOOL:A] x [TOOL_RESULT] y [THINKING] z", 0, id="runs one after another"),
        pytest.param("[TOOL:A] x [OK] y [TOOL:B] z [END]", 12, id="text between runs"),
        pytest.param("[note] a[0] [DONE] [TOOLS: none]", 32, id="brackets that open no run"),
    ],
)
def test_prose_is_the_utf_8_length_without_runs(text: str, size: int) -> None:
    assert evaluate_math_floor([Message("assistant", text)])[1].assistant_prose_bytes == size


@pytest.mark.parametrize("role", ["user", "system", "summary", "unreadable"])
def test_only_the_assistant_writes_prose(role: str) -> None:
    stats = evaluate_math_floor([Message(role, "x" * 500)])[1]
    assert stats == FloorStats(int(role == "user"), 1, 0)


def is_human(text: str, role: str = "user") -> bool:
    return evaluate_math_floor([Message(role, text)])[1].substantive_human_turns == 1


GREETINGS = ("hi", "hey", "hello", "yo", "sup", "thanks", "thx", "ok", "okay", "ty")
CONTROLS = ("clear", "compact", "resume", "help", "exit", "quit", "init", "cost", "review")


@pytest.mark.parametrize("word", GREETINGS)
def test_a_lone_greeting_says_nothing_however_it_is_spelt(word: str) -> None:
    for spelling in (word, word.title(), word.upper()):
        for form in ("{}", "{}!", " {}... ", "¡{}!!", "{} :)", "{} 👍", "\n{}\n"):
            assert not is_human(form.format(spelling)), form


@pytest.mark.parametrize("word", CONTROLS)
def test_a_bare_control_command_says_nothing_whatever_its_arguments(word: str) -> None:
    for form in ("/{}", " /{} ", "/{} with words", "/{}\n1\n2", "/{} [1]"):
        assert not is_human(form.format(word)), form


@pytest.mark.parametrize(
    "text",
    [
        *("hi there", "thanks, now fix it", "high", "yolo", "hello world", "ok ok do it", "no"),
        *("/fix it", "/clearly wrong", "/help-me", "please /clear", "/", "clear"),
        *("[draft] fix it", "[1]", "[TODO] later", "[ERROR] login fails", "[tool: hammer]"),
        *('{"a": 1} is wrong', "{", "<div> is not closed", "<b>hi</b>", "<", "<3"),
        *("<system-reminder> is never closed", "<my-tag>text</my-tag>", "x = [TOOL:", "7"),
        "<system-reminder>a</system-reminder> fix it",
        "fix it <system-reminder>a</system-reminder>",
        "[Request interrupted by user] go on",
        "[Request for comments] read it",
        "fix it [TOOL_RESULT] 42",
        "検索が遅い",
    ],
)
def test_what_a_person_may_have_typed_counts_for_the_person(text: str) -> None:
    assert is_human(text)
    assert not is_human(text, "assistant")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "[TOOL_RESULT] the file has 40 lines",
        "[TOOL_RESULT]",
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "<command-name>/model</command-name>\n<command-args>opus</command-args>",
        "<command-message>x</command-message>\n<command-name>/x</command-name>",
        "<local-command-stdout>Bye!</local-command-stdout>",
        "<local-command-stderr>\nfailed\n</local-command-stderr>",
        "<local-command-caveat>Caveat: local</local-command-caveat>",
        "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>",
        "<system-reminder>\nBe brief\n</system-reminder>\n",
        "<task-notification><id>1</id></task-notification>",
        "<user-prompt-submit-hook>a</user-prompt-submit-hook>",
        "<system-reminder>a</system-reminder> thanks!",
        "<system-reminder>a</system-reminder>\n/clear",
    ],
)
def test_what_no_person_typed_says_nothing(text: str) -> None:
    assert not is_human(text)


RESULT: Record = {"type": "tool_result", "tool_use_id": "1", "content": "42"}
CALL: Record = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file": "x" * 999}}
THOUGHT: Record = {"type": "thinking", "thinking": "x" * 999}
IMAGE: Record = {"type": "image", "source": {"data": "x" * 999}}
TEXT: Record = {"type": "text", "text": "It  works"}
TRANSCRIPTS: dict[str, tuple[Sequence[Record], tuple[int, int, int]]] = {
    "empty": ([], (0, 0, 0)),
    "bookkeeping": ([bookkeeping("mode", SID), {"type": "progress"}], (0, 0, 0)),
    "of no type": ([{"a": 1}, {"type": 1}, {}], (0, 3, 0)),
    "typed": ([user("Fix it", SID, AT)], (1, 1, 0)),
    "an answer": ([assistant([THOUGHT, CALL, TEXT], SID, AT)], (0, 1, 8)),
    "a tool result": ([user([RESULT], SID, AT)], (0, 1, 0)),
    "typed beside a result": ([user([RESULT, TEXT], SID, AT)], (1, 1, 0)),
    "a pasted image": ([user([IMAGE], SID, AT)], (1, 1, 0)),
    "an image in a result": ([user([RESULT | {"content": [IMAGE]}], SID, AT)], (0, 1, 0)),
    "meta": ([user("Caveat: generated", SID, AT, isMeta=True)], (0, 1, 0)),
    "compaction": ([user("It was about", SID, AT, isCompactSummary=True)], (0, 1, 0)),
    "a hook banner": ([record("system", SID, AT, content="Hook ran")], (0, 1, 0)),
    "summaries": ([{"type": "summary", "summary": "A plan"}] * 2, (0, 2, 0)),
    "sidechain": (
        [
            user("Look", SID, AT, isSidechain=True),
            assistant("No", SID, AT, isSidechain=True),
            user("Fix it", SID, AT),
        ],
        (1, 1, 0),
    ),
    "2024": (
        [
            {"type": "user", "message": {"role": "user", "content": "Fix it"}},
            {"type": "assistant", "message": {"role": "assistant", "content": "Done."}},
        ],
        (1, 2, 5),
    ),
}


@pytest.mark.parametrize(("records", "numbers"), TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_the_numbers_of_a_transcript(
    tmp_path: Path, records: Sequence[Record], numbers: tuple[int, int, int]
) -> None:
    path = write_lines(tmp_path / "x.jsonl", records)
    assert evaluate_math_floor(read_messages(path))[1] == FloorStats(*numbers)


@pytest.mark.parametrize(
    ("content", "total"),
    [
        (b'{"type":"user","mess', 1),
        (b"\0" * 900, 1),
        (b'[1]\n"a"\nrubbish\n\xff\n', 4),
        (b"\n \t\r\n\r\n", 0),
    ],
    ids=["torn", "NULs", "no objects", "blank"],
)
def test_lines_that_are_no_record_count_as_messages_of_nobody(
    tmp_path: Path, content: bytes, total: int
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    assert list(read_messages(str(path))) == [Message("unreadable", "")] * total
    assert evaluate_math_floor(read_messages(path))[1] == FloorStats(0, total, 0)


def up_to(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages; whoever asks for one more fails."""
    yield from messages
    pytest.fail("a message too many was read")


@pytest.mark.parametrize(
    "messages",
    [
        conversation(2, 2),
        conversation(0, 5),
        [*conversation(1, 1), Message("assistant", "x" * 401)],
    ],
    ids=["a second human turn", "a fifth message", "prose"],
)
def test_reading_stops_as_soon_as_the_answer_is_no(messages: Sequence[Message]) -> None:
    assert not is_routine(up_to(messages))
    assert is_routine(messages[:-1])


def test_messages_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def lines(path: str) -> Iterator[bytes]:
        for number in range(9):
            given.append(path)
            yield b'{"type":"user","message":{"content":"Do %d"}}' % number

    monkeypatch.setattr("lifecycle.floor.lines", lines)
    messages = read_messages("/x.jsonl")
    assert given == []
    assert next(messages) == Message("user", "Do 0")
    assert given == ["/x.jsonl"]


def test_a_path_may_begin_with_a_tilde_and_must_lead_to_a_file(place: Place) -> None:
    write_lines(place.base / "x.jsonl", [user("Fix it", SID, AT)])
    assert list(read_messages("~/x.jsonl")) == [Message("user", "Fix it")]
    for missing in (place.base / "missing.jsonl", place.base):
        with pytest.raises(OSError, match=os.fspath(missing)):
            list(read_messages(missing))


def test_of_the_sample_tree_only_the_greeting_and_the_bounced_session_are_routine(
    place: Place,
) -> None:
    sample = make_sample(place.config)
    verdicts = {name: is_routine(read_messages(path)) for name, path in sample.sessions.items()}
    assert {name for name, routine in verdicts.items() if routine} == {"greeting", "bounced"}
