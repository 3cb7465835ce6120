"""The command: what it shows, what it asks, how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import Place, Run, command, finish, snapshot
from lifecycle import DeleteOpts, load_tombstones, plan_delete
from lifecycle._json import stamp
from lifecycle._plan import local_time
from lifecycle._words import OPTIONS
from lifecycle.cli import _COMMANDS
from sample import (
    Sample,
    add_bystanders,
    identifier,
    make_sample,
    set_modified,
    write_session,
)

OLD = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def sample(place: Place) -> Sample:
    return make_sample(place.config)


@pytest.fixture
def two(place: Place) -> tuple[Path, Path]:
    """Two old sessions in one project."""
    return (
        write_session(place.root, "-home-me-app", ONE, at=OLD),
        write_session(place.root, "-home-me-app", TWO, at=OLD),
    )


@pytest.mark.parametrize("answer", ["y", "Y", "yes", "YES", " y "])
def test_yes_carries_out_the_plan(
    place: Place, two: tuple[Path, Path], run: Run, answer: str
) -> None:
    result = run("delete", "--before", "1d", answer=answer)
    assert (result.status, set(load_tombstones())) == (0, {ONE, TWO})
    assert "Delete 2 sessions" in result.err
    assert not two[0].exists()


@pytest.mark.parametrize("answer", ["", "n", "no", "yep", "j", "y y", None])
def test_anything_but_yes_changes_nothing(
    place: Place, two: tuple[Path, Path], run: Run, answer: str | None
) -> None:
    before = place.everything()
    result = run("delete", "--before", "1d", answer=answer)
    assert result.status == 1
    assert "aborted" in result.err
    assert place.everything() == before


def test_ctrl_c_at_the_question_is_no(place: Place, two: tuple[Path, Path]) -> None:
    before = place.everything()
    process = command("delete", "--before", "1d")
    wait_for_question(process)
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert (result.status, "Traceback" in result.err) == (1, False)
    assert place.everything() == before


def wait_for_question(process: object) -> None:
    """Reads standard error up to the end of the question."""
    said = b""
    stream = process.stderr  # type: ignore[attr-defined]
    while not said.endswith(b"[y/N] "):
        piece = os.read(stream.fileno(), 1000)
        assert piece, said
        said += piece


def test_what_was_shown_is_what_is_done(place: Place, two: tuple[Path, Path]) -> None:
    process = command("delete", "--before", "1d")
    wait_for_question(process)
    with two[0].open("ab") as file:
        file.write(b'{"type":"user"}\n')
    late = write_session(place.root, "-home-me-app", identifier("late"), at=OLD)
    result = finish(process, "y\n")
    assert result.status == 3
    assert f"{two[0]}: changed since the plan was made" in result.err
    assert [two[0].exists(), two[1].exists(), late.exists()] == [True, False, True]
    assert load_tombstones() == {TWO}


def test_a_plan_names_projects_rows_the_rest_and_the_total(sample: Sample, run: Run) -> None:
    add_bystanders(sample.config)
    result = run("delete", "--before", "2026-11-01T00:00:00Z", "-n")
    assert result.status == 0
    assert "last modified before 2026-11-01T00:00:00+00:00" in result.out
    assert "-home-me-shop  (/home/me/shop)" in result.out
    assert re.search(r"  423fb404  2026-08-27 +32\.6 KiB +20  Split the checkout\n", result.out)
    assert re.search(r"left alone:\n(.*\n)+total: 11 sessions in 5 projects", result.out)
    assert "symbolic link" in result.out
    assert result.out.endswith("dry run: nothing was changed\n")


def test_list_is_newest_first_with_marks_and_sums(sample: Sample, run: Run) -> None:
    lines = run("list").out.splitlines()
    rows = [line for line in lines if re.match(r"[0-9a-f]{8}  ", line)]
    dates = [line.split()[1] for line in rows]
    assert (len(rows), dates) == (15, sorted(dates, reverse=True))
    assert next(line for line in rows if "(live)" in line).endswith("Sort the notes by date")
    assert sum("(also in -home-me-app" in line for line in rows) == 2
    assert any(re.match(r"-home-me-shop: 3 sessions, ", line) for line in lines)
    assert lines[-1].startswith("total: 15 sessions, ")


def test_list_archived_takes_the_same_filters(sample: Sample, run: Run) -> None:
    ids = [sample.sessions[name].stem for name in ("login", "search", "refactor")]
    assert run("archive", *ids).status == 0
    found = [run("list", "--archived", *words).out.splitlines()[-1].split(",")[0] for words in (
        (), ("--project", "-home-me-app"), ("--before", "2026-10-01"), ("--max-messages", "1"),
    )]  # fmt: skip
    assert found == [
        "total: 3 sessions",
        "total: 2 sessions",
        "total: 1 session",
        "total: 0 sessions",
    ]


def test_ids_are_as_long_as_it_takes_to_tell_them_apart(place: Place, run: Run) -> None:
    for ending in ("01", "02"):
        write_session(place.root, "-p", f"abcdefgh-{ending}", at=OLD)
    assert [line.split()[0] for line in run("list").out.splitlines()[:2]] == [
        "abcdefgh-01",
        "abcdefgh-02",
    ]


def test_a_session_without_a_title_shows_its_prompt_or_a_dash(place: Place, run: Run) -> None:
    write_session(place.root, "-p", ONE, at=OLD, prompts=("Please paint it",))
    (place.root / "-p" / f"{TWO}.jsonl").write_text("{}\n")
    out = run("list").out.splitlines()
    assert out[0].endswith("  -")
    assert "paint it" in out[1].lower()


GOOD = {
    "local date": "2026-11-01",
    "zulu": "2026-11-01T00:00:00Z",
    "offset": "2026-11-01T02:00:00.5+02:00",
    "hours": "12h",
    "days": "30d",
    "weeks": "2w",
}


@pytest.mark.parametrize("when", GOOD.values(), ids=GOOD)
def test_a_date_is_echoed_as_an_instant_with_its_offset(
    place: Place, two: tuple[Path, Path], run: Run, when: str
) -> None:
    result = run("delete", "--before", when, "-n")
    assert result.status == 0
    assert re.search(r"before \d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d\n", result.out)


# Nothing on disk changes, one line says why, and this is the exit status.
BAD: dict[str, tuple[int, list[str]]] = {
    "no command": (2, []),
    "unknown command": (2, ["purge"]),
    "unknown option": (2, ["delete", "--all"]),
    "no filter": (2, ["delete"]),
    "no filter but flags": (2, ["delete", "-n", "-y", "--include-live"]),
    "no filter for archive": (2, ["archive"]),
    "ids and filters": (2, ["archive", ONE, "--before", "1d"]),
    "ids and a dry run": (2, ["archive", ONE, "-n"]),
    "two projects": (2, ["delete", "--project", "app", "--project=web", "-y"]),
    "two dates": (2, ["archive", "--before", "1d", "--before", "2d", "-y"]),
    "two limits": (2, ["list", "--max-messages", "5", "--max-messages", "9"]),
    "no project before an option": (2, ["delete", "--project", "-n", "-y"]),
    "a value for a flag": (2, ["delete", ONE, "--dry-run=no"]),
    "empty id": (2, ["delete", ""]),
    "blank id": (2, ["archive", " "]),
    "empty project": (2, ["delete", "--project", ""]),
    "empty date": (2, ["delete", "--before", ""]),
    "empty root": (2, ["delete", ONE, "--projects-root", ""]),
    "zero messages": (2, ["delete", "--max-messages", "0"]),
    "negative messages": (2, ["delete", "--max-messages", "-1"]),
    "no number": (2, ["delete", "--max-messages", "few"]),
    "other digits": (2, ["delete", "--max-messages", "٣"]),
    "no date": (2, ["delete", "--before", "yesterday"]),
    "naive time": (2, ["delete", "--before", "2026-11-01T10:00"]),
    "month 13": (2, ["delete", "--before", "2026-13-01"]),
    "age that overflows": (2, ["delete", "--before", "99999999999999d"]),
    "age before the calendar": (2, ["delete", "--before", "900000d"]),
    "year zero": (2, ["delete", "--before", "0000-01-01"]),
    "minutes": (2, ["delete", "--before", "5m"]),
    "unknown id": (1, ["delete", "no-such-session"]),
    "short prefix": (1, ["delete", ONE[:7]]),
    "unknown id for archive": (1, ["archive", "no-such-session"]),
    "unknown id for restore": (1, ["restore", "no-such-session"]),
    "unknown id for floor": (1, ["floor", "no-such-session"]),
    "unknown id for list": (1, ["list", "no-such-session"]),
    "root is a file": (1, ["delete", ONE, "--projects-root", "FILE"]),
    "archive directory is a file": (1, ["archive", ONE, "--archive-dir", "FILE"]),
    "archive directory below a file": (1, ["archive", ONE, "--archive-dir", "FILE/x"]),
    "archive inside the root": (1, ["archive", ONE, "--archive-dir", "ROOT/x"]),
    "archive in a store": (1, ["archive", ONE, "--archive-dir", "CONFIG/todos/x"]),
    "archive around the root": (1, ["archive", "--before", "1d", "--archive-dir", "CONFIG"]),
    "cache directory is a file": (1, ["delete", ONE, "-y", "--cache-dir", "FILE"]),
    "cache directory is a file, dry": (1, ["delete", ONE, "-n", "--cache-dir", "FILE"]),
    "tombstones are a directory": (1, ["delete", ONE, "-y", "--cache-dir", "DIRECTORY"]),
    "tombstones are rubbish": (1, ["delete", ONE, "-y", "--cache-dir", "RUBBISH"]),
    "listing rubbish": (1, ["tombstones", "--cache-dir", "RUBBISH"]),
    "listing a directory": (1, ["tombstones", "--cache-dir", "DIRECTORY"]),
    "config directory for root": (1, ["delete", "--before", "1d", "--projects-root", "CONFIG"]),
    "a NUL in a path": (1, ["list", "--projects-root", "a\0b"]),
    "a live session": (1, ["delete", "LIVE", "-y"]),
    "a live session, dry": (1, ["delete", "LIVE", "-n"]),
    "a live session for archive": (1, ["archive", "LIVE"]),
}


@pytest.mark.parametrize(("status", "words"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_bad_input_is_one_clear_line_and_changes_nothing(
    sample: Sample, two: tuple[Path, Path], place: Place, run: Run,
    status: int, words: list[str], as_json: bool,
) -> None:  # fmt: skip
    (place.base / "FILE").write_text("x")
    (place.config / "settings.json").write_text("{}")
    (place.base / "DIRECTORY/.deleted").mkdir(parents=True)
    (place.base / "RUBBISH").mkdir()
    (place.base / "RUBBISH/.deleted").write_bytes(b"\0\xff\xfe\n")
    known = {"LIVE": sample.sessions["live"].stem}
    given = [known.get(word, word) for word in words]
    for name in ("FILE", "DIRECTORY", "RUBBISH"):
        given = [re.sub(f"^{name}", str(place.base / name), word) for word in given]
    for name, path in (("ROOT", place.root), ("CONFIG", place.config)):
        given = [re.sub(f"^{name}", str(path), word) for word in given]
    before = place.everything()
    result = run(*given, *(["--json"] if as_json else []))
    assert result.status == status, result
    assert re.fullmatch(r"session-lifecycle: [^\n]+\n", result.err), result.err
    assert place.everything() == before
    if as_json:
        assert json.loads(result.out)["status"] == status


ODD: dict[str, bytes | None] = {
    "directory": None,
    "torn": b'{"type":"user","mess',
    "nuls": b"\0" * 5000,
    "empty": b"",
    "no text": b"\xff\xfe\n" * 9,
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_an_odd_transcript_does_not_stop_the_rest(
    place: Place, two: tuple[Path, Path], run: Run, content: bytes | None
) -> None:
    odd = place.root / "-home-me-app" / "odd-odd-odd.jsonl"
    odd.mkdir() if content is None else odd.write_bytes(content)
    if content is not None:
        set_modified(odd, OLD)
    result = run("delete", "--before", "1d", "-y")
    assert (result.status, {ONE, TWO} <= load_tombstones()) == (0, True)
    assert odd.exists() is (content is None)


@pytest.mark.parametrize(
    "words", [("list",), ("delete", "--project", "-", "-n")], ids=["list", "plan"]
)
def test_a_fifo_is_named_and_never_opened(
    place: Place, two: tuple[Path, Path], run: Run, words: tuple[str, ...]
) -> None:
    fifo = place.root / "-home-me-app" / "pipe-pipe-pipe.jsonl"
    os.mkfifo(fifo)
    result = run(*words)
    assert (result.status, f"{fifo}: not a regular file" in result.out) == (0, True)


def test_a_name_that_is_no_utf8_is_left_alone_and_named(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    odd = os.fsencode(place.root / "-home-me-app") + b"/\xff\xfe-session.jsonl"
    Path(os.fsdecode(odd)).write_bytes(two[0].read_bytes())
    os.utime(odd, (0, 0))
    result = run("delete", "--max-messages", "99", "-y")
    assert (result.status, os.path.exists(odd)) == (0, True)
    assert "the id is not UTF-8" in result.out
    assert "\ufffd\ufffd-session" in result.out


HOSTILE = "\x1b]0;pwned\x07\x1b[2J\r\n\u202egnp\u2066\u200f\x9b31m"


@pytest.mark.parametrize(
    "words", [("list",), ("delete", "--project", "-", "-n")], ids=["list", "plan"]
)
def test_nothing_from_disk_can_drive_the_terminal(
    place: Place, run: Run, words: tuple[str, ...]
) -> None:
    name = HOSTILE.replace("\n", "")
    write_session(place.root, f"-{name}", f"abcdefgh{name}", at=OLD, title=HOSTILE, cwd=HOSTILE)
    (place.root / f"-{name}" / f"link{name}.jsonl").symlink_to("/dev/null")
    result = run(*words)
    text = result.out + result.err
    assert "gnp" in text
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "pwned" not in text.splitlines()[-1] or "total" not in text.splitlines()[-1]


def test_columns_line_up_for_wide_characters(place: Place, run: Run) -> None:
    from lifecycle._show import width

    for number, project in enumerate(("-ascii", "-検索を速くする", "-e\u0301tude")):
        write_session(place.root, project, f"{number}" * 12, at=OLD, title="HERE")
    rows = [line for line in run("list").out.splitlines() if line.endswith("HERE")]
    assert len({width(row) for row in rows}) == 1


def test_a_project_that_begins_with_a_dash_needs_no_equals_sign(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    assert "2 sessions" in run("delete", "--project", "-home-me-app", "-n").out


@pytest.mark.parametrize("given", [".", "./", "~/app"])
def test_a_relative_project_is_the_working_directory(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    here = place.base / "app"
    here.mkdir()
    monkeypatch.chdir(here)
    name = re.sub(r"[^A-Za-z0-9]", "-", str(here))
    write_session(place.root, name, ONE, at=OLD, cwd=str(here))
    write_session(place.root, f"{name}-too", TWO, at=OLD, cwd=str(here))
    result = run("delete", "--project", given, "-n")
    assert (ONE[:8] in result.out, TWO[:8] in result.out) == (True, False)


JSON = {
    "list": ["list"],
    "list archived": ["list", "--archived"],
    "dry run": ["delete", "--before", "1d", "-n"],
    "declined": ["delete", "--before", "1d"],
    "done": ["delete", ONE, "-y"],
    "nothing to do": ["delete", "--before", "9000d", "-y"],
    "archive ids": ["archive", ONE, "no-such-session"],
    "archive filter": ["archive", "--before", "1d", "-y"],
    "archive declined": ["archive", "--before", "1d"],
    "restore list": ["restore"],
    "restore": ["restore", "no-such-session"],
    "floor": ["floor", ONE, TWO],
    "tombstones": ["tombstones"],
}


@pytest.mark.parametrize("words", JSON.values(), ids=JSON)
def test_json_is_exactly_one_document_on_every_path(
    sample: Sample, two: tuple[Path, Path], run: Run, words: list[str]
) -> None:
    result = run(*words, "--json")
    assert json.loads(result.out)["status"] == result.status
    assert result.out.isascii()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["list"], 1, "session-lifecycle: interrupted\n"),
        (["delete", ONE, "-y"], 3, "deleted 1 session, but the result could not be written: "),
    ],
)
def test_an_interrupt_in_the_middle_of_a_document_adds_no_second_one(
    two: tuple[Path, Path], run: Run, monkeypatch: pytest.MonkeyPatch,
    words: list[str], status: int, said: str,
) -> None:  # fmt: skip
    def document(_: object) -> Iterator[str]:
        yield '{"half": '
        raise KeyboardInterrupt

    monkeypatch.setattr("lifecycle._json.document", document)
    result = run(*words, "--json")
    assert (result.status, result.out) == (status, '{"half": ')
    assert said in result.err


@pytest.mark.parametrize("seconds", [-70_000_000_000, -1, 0, 250_000_000_000, 300_000_000_000])
def test_a_time_in_json_is_one_that_a_datetime_can_read(seconds: int) -> None:
    text = stamp(seconds * 1_000_000_000)
    assert datetime.fromisoformat(text) == local_time(seconds * 1_000_000_000)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_error_stream_does_not_stop_what_was_asked_for(
    two: tuple[Path, Path], place: Place
) -> None:
    two[0].rename(two[0].with_suffix(".lcdel"))
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "lifecycle", "delete", "--before", "1d", "-y", "--json"]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=full, check=True)
    assert len(json.loads(done.stdout)["deleted"]) == 2


def test_json_before_the_command_counts_too(two: tuple[Path, Path], run: Run) -> None:
    assert json.loads(run("--json", "list").out)["command"] == "list"


def test_json_with_a_value_is_refused_in_json(run: Run) -> None:
    result = run("list", "--json=1")
    assert (result.status, json.loads(result.out)["status"]) == (2, 2)


def test_every_option_is_known_to_be_none_of_the_names_that_begin_with_a_dash(run: Run) -> None:
    texts = [
        finish(command(*words, "--help")).out for words in ([], *([name] for name in _COMMANDS))
    ]
    found = {option for text in texts for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text)}
    assert found == set(OPTIONS)


def test_several_ids_go_on_past_one_that_fails(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    assert run("archive", ONE, "no-such-session", TWO).status == 3
    assert run("restore", TWO, "no-such-session", ONE).status == 3
    assert [path.exists() for path in two] == [True, True]


def test_what_an_interrupted_delete_left_is_named_by_a_dry_run_and_settled_by_a_real_one(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    staged = two[0].with_suffix(".lcdel")
    two[0].rename(staged)
    before = place.everything()
    for words in (["list"], ["delete", "--before", "1d", "-n"]):
        assert f"{staged}: staged by an interrupted delete" in run(*words).out
    assert place.everything() == before
    result = run("delete", "--before", "1d", answer="n")
    assert "1 session given back" in result.err
    assert two[0].exists()


def test_a_session_that_is_not_found_is_said_to_be_archived_or_deleted(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    assert run("archive", ONE).status == run("delete", TWO, "-y").status == 0
    for words in (("delete", ONE), ("floor", ONE[:8]), ("list", ONE)):
        assert "it is archived: see restore" in run(*words).err
    for words in (("delete", TWO), ("restore", TWO)):
        result = run(*words, "--json")
        assert (result.status, "it was deleted" in result.err) == (1, True)
        assert "SessionNotFoundError" in result.out


def test_a_session_that_is_not_in_the_archive_is_said_to_be_in_its_project(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    for words in (("restore", ONE), ("list", "--archived", ONE)):
        result = run(*words)
        assert (result.status, "it is in its project" in result.err) == (1, True)


def test_a_session_that_other_filters_leave_out_is_found_and_not_listed(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    assert run("archive", TWO).status == 0
    for words in (("list", ONE), ("list", "--archived", TWO)):
        result = run(*words, "--before", "9000d")
        assert (result.status, result.out) == (0, "total: 0 sessions, 0 B\n")


def test_where_nothing_matches_the_filters_are_named(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    assert run("delete", "--project", "App", "-y").out == "nothing to delete (project App)\n"


def test_an_archive_that_is_not_there_is_named(place: Place, run: Run) -> None:
    missing = place.base / "nowhere"
    for words in (("restore",), ("list", "--archived")):
        result = run(*words, "--archive-dir", missing)
        assert (result.status, f"{missing} does not exist" in result.out) == (0, True)


def test_a_projects_root_that_is_not_there_is_named(place: Place, run: Run) -> None:
    missing = place.base / "nowhere"
    for words in (("list",), ("delete", "--before", "1d", "-y")):
        result = run(*words, "--projects-root", missing)
        assert (result.status, f"{missing} does not exist" in result.out) == (0, True)


def test_module_and_version(run: Run) -> None:
    result = finish(command("--version"))
    assert (result.status, result.out) == (0, "session-lifecycle 1.0.0\n")


def test_first_rows_reach_a_pipe_before_the_last_are_read(place: Place) -> None:
    for number in range(40):
        write_session(place.root, "-p", identifier("row", number), at=OLD)
    last = place.root / "-p" / f"{identifier('last')}.jsonl"
    last.write_bytes(b"{}\n" * 20_000_000)
    set_modified(last, datetime(2020, 1, 1, tzinfo=UTC))
    process = command("list")
    assert process.stdout
    started = time.monotonic()
    assert os.read(process.stdout.fileno(), 8)
    first = time.monotonic() - started
    finish(process)
    assert first < time.monotonic() - started


def test_everything_else_stays_as_it_was(sample: Sample, place: Place, run: Run) -> None:
    add_bystanders(sample.config)
    before = snapshot(place.base)
    assert run("delete", sample.sessions["login"].stem, "-y").status == 0
    after = snapshot(place.base)
    gone = {name for name in before if name not in after}
    assert gone
    assert all(sample.sessions["login"].stem in name or "/agent-" in name for name in gone)
    new = {name for name in after if after[name] != before.get(name)}
    assert {str(place.cache), str(place.tombstones)} <= new
    assert all(str(place.cache).startswith(name) or name == str(place.tombstones) for name in new)


def in_terminal(*arguments: str, seconds: float) -> str:
    """What a terminal gets to see on standard error of a plan that takes at least so long."""
    code = (
        f"import sys, time\nfrom lifecycle import cli, delete\nreal = delete.select\n"
        f"def slow(*a, **k): time.sleep({seconds}); return real(*a, **k)\n"
        f"delete.select = slow\nsys.exit(cli.main({list(arguments)!r}))"
    )
    ours, theirs = pty.openpty()
    line = [sys.executable, "-W", "error", "-c", code]
    with subprocess.Popen(line, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        process.communicate(timeout=60)
    os.close(theirs)
    seen = b""
    # Linux ends with an error what others end with nothing.
    with suppress(OSError):
        while piece := os.read(ours, 4096):
            seen += piece
    os.close(ours)
    assert process.returncode == 0, seen
    return seen.decode()


def test_a_terminal_is_told_that_slow_work_goes_on_and_then_the_line_is_cleared(
    place: Place, two: tuple[Path, Path]
) -> None:
    assert in_terminal("delete", "--project", "app", "-n", seconds=0) == ""
    seen = in_terminal("delete", "--project", "app", "-n", seconds=1.3)
    assert seen.startswith("\rreading sessions ... 1 s ")
    assert seen.endswith("\r")
    assert seen.rstrip("\r").endswith(" " * 20)


def test_a_terminal_that_goes_away_does_not_disturb_the_work(
    place: Place, two: tuple[Path, Path]
) -> None:
    code = (
        "import sys, time\nfrom lifecycle import cli, delete\n"
        "real = delete.rename_new\n"
        "def slow(*a):\n"
        "    end = time.monotonic() + 1.6\n"
        "    while time.monotonic() < end: pass\n"
        "    return real(*a)\n"
        "delete.rename_new = slow\n"
        "sys.exit(cli.main(['delete', '--project', 'app', '-y']))"
    )
    ours, theirs = pty.openpty()
    line = [sys.executable, "-W", "error", "-c", code]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        assert b"1 s" in os.read(ours, 4096)
        os.close(ours)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, b"deleted 2 sessions" in out) == (0, True)
    assert load_tombstones() == {ONE, TWO}


def test_what_is_in_the_way_of_a_hint_does_not_stop_the_other_sessions(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    place.cache.mkdir(parents=True)
    place.tombstones.write_bytes(b"\0\xff")
    result = run("archive", ONE, "no-such-session", TWO, "--json")
    found = json.loads(result.out)
    assert (result.status, found["status"]) == (3, 3)
    assert ["error" in one for one in found["results"]] == [False, True, False]
    assert found["results"][1]["error"]["type"] == "SessionNotFoundError"
    assert "cannot be told" in result.err


def test_an_archived_session_that_is_not_there_is_not_found(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    run("archive", ONE)
    assert run("list", "--archived", ONE).status == 0
    assert run("list", "--archived", TWO).status == 1


def test_a_title_given_beside_the_transcript_is_shown_in_the_archive_too(
    place: Place, two: tuple[Path, Path], run: Run
) -> None:
    own = two[0].with_suffix("")
    own.mkdir()
    (own / "custom-title.json").write_text('{"customTitle": "My own words"}')
    assert "My own words" in run("list").out
    run("archive", ONE)
    assert "My own words" in run("list", "--archived").out
    assert run_json(run, "restore")["archived"][0]["title"] == "My own words"


def test_every_session_in_json_is_what_json_would_make_of_it(place: Place, run: Run) -> None:
    odd = os.fsdecode(b'-home-"me"-\xff')
    names = [
        'quote" and \\ and \t too',
        "größe-検索-🚀",
        "plain-one",
    ]
    for name in names:
        write_session(place.root, odd, name, at=OLD)
        (place.root / odd / name).mkdir()
    write_session(place.root, "-twin", names[-1], at=OLD)
    plan = plan_delete(place.root, place.cache, DeleteOpts(project="-"))
    for item, found in zip(
        plan.matched, run_json(run, "delete", "--project", "-", "-n")["matched"], strict=True
    ):
        assert found == {
            "session_id": item.session_id,
            "path": str(item.path),
            "project": item.project,
            "bytes": item.bytes,
            "messages": item.messages,
            "modified": item.modified.isoformat(),
            "companions": list(map(str, item.companions)),
            "companion_bytes": item.companion_bytes,
            "also_in": list(item.also_in),
        }
    assert {item.session_id for item in plan.matched} == set(names)
    assert all(item.companions for item in plan.matched if item.project != "-twin")


def run_json(run: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").out)
    return found


UNWRITTEN = {
    "deletion": (["delete", "--project", "app", "-y", "--json"], "deleted 2 sessions, but"),
    "archive by filter": (
        ["archive", "--project", "app", "-y", "--json"],
        "archived 2 sessions, but",
    ),
    "archive by id": (["archive", ONE, TWO], "archive: 2 done, but"),
    "archive by id, JSON": (["archive", ONE, TWO, "--json"], "archive: 2 done, but"),
}


@pytest.mark.parametrize(("words", "said"), UNWRITTEN.values(), ids=UNWRITTEN)
@pytest.mark.parametrize("unbuffered", [False, True])
def test_what_was_done_is_told_where_the_result_cannot_be_written(
    place: Place, two: tuple[Path, Path], words: list[str], said: str, unbuffered: bool
) -> None:
    environment = {**os.environ, **({"PYTHONUNBUFFERED": "1"} if unbuffered else {})}
    with open("/dev/full", "w") as full:
        result = finish(command(*words, stdout=full, env=environment))
    assert result.status == 3
    assert said in result.err
    assert "no space left" in result.err
    assert len(result.err.splitlines()) == 1
    assert not any(path.exists() for path in two)


@pytest.mark.parametrize("words", [["archive", ONE, TWO], ["archive", ONE, "--json"]])
def test_what_cannot_be_shown_anywhere_is_not_done(
    place: Place, two: tuple[Path, Path], words: list[str]
) -> None:
    before = place.everything()
    line = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "lifecycle", *words]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, b"standard output is closed" in err) == (1, True)
    assert place.everything() == before


def test_of_several_all_are_done_though_nobody_reads_any_more(
    place: Place, two: tuple[Path, Path]
) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody:
        result = finish(command("archive", ONE, TWO, stdout=nobody))
    assert (result.status, "2 done" in result.err) == (3, True)
    assert not any(path.exists() for path in two)


def test_too_little_memory_is_one_clear_line(
    place: Place, two: tuple[Path, Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("lifecycle.delete.select", exhausted)
    result = run("delete", "--project", "app", "-n")
    assert (result.status, result.err) == (1, "session-lifecycle: out of memory\n")
