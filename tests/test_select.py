"""Which sessions the filters mean, what is reported instead of taken, and what a plan tells."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Place
from lifecycle import AmbiguousSessionError, DeleteOpts, DeletePlan, _judge, plan_delete
from sample import (
    APP,
    Record,
    add_bystanders,
    add_companions,
    add_live,
    assistant,
    project_name,
    set_modified,
    user,
    write_lines,
    write_session,
)

A = "aaaaaaaa-0000-4000-8000-000000000001"
B = "aaaaaaaa-0000-4000-8000-000000000002"
C = "cccccccc-0000-4000-8000-000000000003"
AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MILLISECOND = timedelta(milliseconds=1)
IN_APP = project_name(APP)
SECRET = "Please fix the login page"


def plan(place: Place, **filters: Any) -> DeletePlan:
    return plan_delete(place.root, place.cache, DeleteOpts(**filters))


def ids(found: DeletePlan) -> list[str]:
    return [item.session_id for item in found.matched]


def reasons(found: DeletePlan) -> dict[str, str]:
    """Name of what was skipped -> why."""
    return {skip.path.name: skip.reason for skip in found.skipped}


def nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def touch(path: Path, at_ns: int) -> Path:
    os.utime(path, ns=(at_ns, at_ns))
    return path


def write_raw(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


# before


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(-1, [A]), (0, []), (1, [])],
    ids=["a nanosecond earlier", "at the instant", "a nanosecond later"],
)
def test_before_is_strict_to_the_nanosecond(place: Place, offset: int, expected: list[str]) -> None:
    path = write_session(place.root, IN_APP, A, at=AT - HOUR)
    touch(path, nanoseconds(AT) + offset)
    assert ids(plan(place, before=AT)) == expected


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is nine hours ahead of UTC."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_naive_date_is_local_time(place: Place) -> None:
    for session_id, offset in ((A, -1), (B, 0)):
        path = write_session(place.root, IN_APP, session_id, at=AT - HOUR)
        touch(path, nanoseconds(AT) + offset)
    nine_hours_ahead = AT.replace(tzinfo=None) + 9 * HOUR
    assert ids(plan(place, before=nine_hours_ahead)) == [A]


@pytest.mark.parametrize(
    ("distance", "expected"),
    [(-MILLISECOND, [A]), (timedelta(0), []), (MILLISECOND, [])],
    ids=["earlier", "at the instant", "later"],
)
def test_the_last_record_must_be_before_the_date_like_the_file(
    place: Place, distance: timedelta, expected: list[str]
) -> None:
    records = [user("Go on", A, AT - HOUR), user("Go on", A, AT + distance)]
    write_lines(place.root / IN_APP / f"{A}.jsonl", records, modified=AT - HOUR)
    assert ids(plan(place, before=AT)) == expected


LATE = user("Go on", A, AT + HOUR)
TEXT = "Much was said. " * 2_000
LONG = user(TEXT, A, AT + HOUR)
EARLY: list[Record] = [assistant(TEXT[:900], A, AT - 9 * HOUR) for _ in range(100)]
MEGABYTES: list[Record] = [assistant(TEXT, A, AT - 9 * HOUR) for _ in range(100)]
BACKDATED: dict[str, list[Record]] = {
    "last record": [*EARLY, LATE],
    "record out of order near the end": [*EARLY, LATE, EARLY[0]],
    "record far before the end": [LATE, *EARLY],
    "record in the midst": [*EARLY, LATE, *EARLY],
    "record megabytes before the end": [LATE, *MEGABYTES],
    "one long record": [LONG],
}


@pytest.mark.parametrize("records", BACKDATED.values(), ids=BACKDATED)
def test_a_backdated_file_is_reported_and_not_matched(place: Place, records: list[Record]) -> None:
    path = write_lines(place.root / IN_APP / f"{A}.jsonl", records, modified=AT - 9 * HOUR)
    found = plan(place, before=AT)
    assert ids(found) == []
    assert list(reasons(found)) == [path.name]
    assert "not before the date" in reasons(found)[path.name]


def test_a_torn_record_with_a_later_time_keeps_a_backdated_file(place: Place) -> None:
    path = write_lines(place.root / IN_APP / f"{A}.jsonl", [LATE])
    os.truncate(path, path.stat().st_size - 3)
    set_modified(path, AT - HOUR)
    found = plan(place, before=AT)
    assert (ids(found), list(reasons(found))) == ([], [path.name])


def test_of_a_file_that_was_last_changed_before_the_date_only_the_end_is_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise AssertionError(path)

    monkeypatch.setattr("lifecycle._judge.latest_anywhere", refuse)
    write_lines(place.root / IN_APP / f"{A}.jsonl", EARLY, modified=AT - HOUR)
    soon = datetime.now(UTC) + 9 * HOUR
    assert ids(plan(place, before=soon)) == [A]
    with pytest.raises(AssertionError, match=A):
        plan(place, before=datetime.now(UTC))


def test_a_date_that_excludes_everything_opens_no_transcript(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, limit: int) -> None:
        raise AssertionError(path)

    monkeypatch.setattr("lifecycle._judge.measure", refuse)
    write_session(place.root, IN_APP, A, at=AT)
    assert ids(plan(place, before=AT - 9 * HOUR)) == []


@pytest.mark.parametrize("lines", [1, 2_000], ids=["in memory", "between the ends"])
def test_a_plan_tells_titles_where_it_is_asked_to(place: Place, lines: int) -> None:
    records: list[Record] = [{"type": "custom-title", "customTitle": "Mine"}, *EARLY[:1] * lines]
    write_lines(place.root / IN_APP / f"{A}.jsonl", records, modified=AT)
    opts = DeleteOpts(project="-")
    assert plan_delete(place.root, None, opts, with_titles=True).matched[0].title == "Mine"
    assert plan_delete(place.root, None, opts).matched[0].title is None


@pytest.mark.parametrize(
    ("distance", "expected"),
    [(-MILLISECOND, [A]), (timedelta(0), []), (MILLISECOND, [])],
    ids=["earlier", "at the instant", "later"],
)
def test_a_date_that_is_yet_to_come_is_as_exact(
    place: Place, distance: timedelta, expected: list[str]
) -> None:
    soon = (datetime.now(UTC) + HOUR).replace(microsecond=0)
    records = [user("Go on", A, soon + distance)]
    write_lines(place.root / IN_APP / f"{A}.jsonl", records, modified=AT)
    assert ids(plan(place, before=soon)) == expected


@pytest.mark.parametrize("late", [0, -1], ids=["first record", "last record"])
def test_a_record_from_after_the_date_counts_though_the_date_is_yet_to_come(
    place: Place, late: int
) -> None:
    soon = datetime.now(UTC) + HOUR
    records = EARLY[:3]
    records[late] = user("Go on", A, soon + HOUR)
    path = write_lines(place.root / IN_APP / f"{A}.jsonl", records, modified=AT)
    found = plan(place, before=soon)
    assert (ids(found), list(reasons(found))) == ([], [path.name])


@pytest.mark.parametrize("before", [datetime.min, datetime.max], ids=["first", "last"])
def test_the_ends_of_the_calendar_are_dates_like_any_other(place: Place, before: datetime) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    found = plan(place, before=before.replace(tzinfo=UTC))
    assert ids(found) == ([A] if before == datetime.max else [])


@pytest.mark.parametrize(
    "record",
    [
        user("Go on", A, AT - HOUR, toolUseResult={"timestamp": "2027-01-01T00:00:00.000Z"}),
        user(json.dumps({"timestamp": "2027-01-01T00:00:00.000Z"}), A, AT - HOUR),
        {"type": "mode", "mode": "normal", "sessionId": A},
        {"type": "user", "timestamp": "yesterday", "sessionId": A},
    ],
    ids=["time in a tool result", "time in a text", "no time", "time that is none"],
)
def test_only_times_of_the_records_themselves_hold_a_session_back(
    place: Place, record: Record
) -> None:
    write_lines(place.root / IN_APP / f"{A}.jsonl", [record], modified=AT - HOUR)
    assert ids(plan(place, before=AT)) == [A]


# project


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app", ["-home-me-app", "-home-me-app-next"]),
        ("-home-me-app", ["-home-me-app", "-home-me-app-next"]),
        ("-next", ["-home-me-app-next"]),
        ("App", ["-srv-App"]),
        ("APP", []),
        ("me/app", []),
        ("projects", []),
        (".claude", []),
        ("home/.claude", []),
        ("/", []),
        ("aaaaaaaa", []),
    ],
)
def test_project_is_a_part_of_the_directory_name_alone(
    place: Place, text: str, expected: list[str]
) -> None:
    for name, session_id in (("-home-me-app", A), ("-home-me-app-next", B), ("-srv-App", C)):
        write_session(place.root, name, session_id, at=AT)
    assert [item.project for item in plan(place, project=text).matched] == expected


def test_the_path_of_the_root_takes_no_part_in_the_project_filter(place: Place) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    assert ids(plan(place, project=str(place.root))) == []


TWINS = {A: "/home/me/a-b", B: "/home/me/a/b", C: None}


def write_in(root: Path, project: str, session_id: str, cwd: str | None) -> Path:
    if cwd is not None:
        return write_session(root, project, session_id, at=AT, cwd=cwd)
    record = {"type": "summary", "summary": "Without a directory", "leafUuid": session_id}
    return write_lines(root / project / f"{session_id}.jsonl", [record])


@pytest.mark.parametrize(
    ("path", "mine", "other"),
    [("/home/me/a-b", A, B), ("/home/me/a/b", B, A), ("/home/me/./a-b/", A, B)],
    ids=["with a dash", "with a slash", "not normal"],
)
def test_an_absolute_path_means_that_directory_and_its_twin_is_reported(
    place: Place, path: str, mine: str, other: str
) -> None:
    for session_id, cwd in TWINS.items():
        write_in(place.root, "-home-me-a-b", session_id, cwd)
    write_in(place.root, "-home-me-a-b-c", "longer-name", "/home/me/a-b/c")
    found = plan(place, project=path)
    assert ids(found) == [mine, C]
    reason = f"belongs to another working directory: {TWINS[other]}"
    assert reasons(found) == {f"{other}.jsonl": reason}


def test_a_linked_working_directory_means_the_real_one_too(place: Place) -> None:
    real = place.base / "real"
    real.mkdir()
    (place.base / "link").symlink_to(real)
    write_session(place.root, project_name(str(real)), A, at=AT, cwd=str(real))
    assert ids(plan(place, project=str(place.base / "link"))) == [A]


def test_a_project_name_that_was_cut_is_told_apart_by_what_the_sessions_record(
    place: Place,
) -> None:
    cwd = "/home/me/" + "x" * 240
    cut = project_name(cwd)[:200] + "-1a2b3c"
    for session_id, recorded in ((A, cwd), (B, cwd + "x"), (C, None)):
        write_in(place.root, cut, session_id, recorded)
    found = plan(place, project=cwd)
    assert ids(found) == [A]
    assert sorted(reasons(found)) == [f"{B}.jsonl", f"{C}.jsonl"]


# max_messages

LINES: dict[str, tuple[bytes, int]] = {
    "empty file": (b"", 0),
    "blank lines": (b"\n \t\n\r\n\v\f\n  ", 0),
    "last line without end": (b"{}\n{}", 2),
    "carriage returns": (b"{}\r\n\r\n{}\r\n", 2),
    "carriage return within": (b"{}\r{}\n", 1),
    "unicode line ends within": ("{\u2028\u0085\u2029}\n".encode(), 1),
    "NULs": (b"\0\0\0\n", 1),
    "no UTF-8": (b"\xff\xfe\n\xc3", 2),
    "blank in Unicode only": ("\u00a0\u3000\n".encode(), 1),
    "long line": (b"x" * 200_000 + b"\n{}\n", 2),
    "long blank line": (b"{}\n" + b" " * 200_000 + b"\n{}", 2),
    "long indent": (b" " * 200_000 + b"{}\n", 1),
}


@pytest.mark.parametrize(("content", "count"), LINES.values(), ids=LINES)
def test_max_messages_counts_lines_that_are_not_blank(
    place: Place, content: bytes, count: int
) -> None:
    write_raw(place.root / IN_APP / f"{A}.jsonl", content)
    (item,) = plan(place, max_messages=max(count, 1)).matched
    assert item.messages == count
    if count > 1:
        assert plan(place, max_messages=count - 1).matched == ()


# session_id


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (A, [A]),
        ("cccccccc", [C]),
        ("ccccccc", []),
        ("CCCCCCCC", []),
        ("0000-4000", []),
        (C + "0", []),
        (C + ".jsonl", []),
        ("short", ["short"]),
        ("shor", []),
    ],
    ids=[
        "full id",
        "8 characters",
        "7 characters",
        "other case",
        "middle",
        "longer",
        "file name",
        "short id",
        "part of a short id",
    ],
)
def test_a_session_id_is_taken_whole_or_by_8_characters(
    place: Place, wanted: str, expected: list[str]
) -> None:
    for session_id in (A, B, C, "short"):
        write_session(place.root, IN_APP, session_id, at=AT)
    assert ids(plan(place, session_id=wanted)) == expected


def test_a_prefix_of_several_is_refused_and_names_every_id_and_path(place: Place) -> None:
    paths = [
        write_session(place.root, project, session_id, at=AT)
        for project, session_id in (("-home-me-web", B), (IN_APP, A))
    ]
    write_session(place.root, IN_APP, C, at=AT)
    with pytest.raises(AmbiguousSessionError) as caught:
        plan(place, session_id="aaaaaaaa")
    assert caught.value.paths == tuple(sorted(paths))
    assert all(f"{path.stem} ({path})" in str(caught.value) for path in paths)


def test_a_full_id_in_two_projects_is_refused_unless_narrowed(place: Place) -> None:
    for project in (IN_APP, "-home-me-web"):
        write_session(place.root, project, A, at=AT)
    with pytest.raises(AmbiguousSessionError):
        plan(place, session_id=A)
    assert [item.project for item in plan(place, session_id=A, project="web").matched] == [
        "-home-me-web"
    ]


@pytest.mark.parametrize(
    "filters",
    [{"project": "web"}, {"before": AT}, {"max_messages": 12}],
    ids=["project", "date", "messages"],
)
def test_other_filters_narrow_a_prefix_of_several(place: Place, filters: dict[str, Any]) -> None:
    write_session(place.root, "-home-me-web", A, at=AT - 9 * HOUR, prompts=["Go on"])
    write_session(place.root, IN_APP, B, at=AT, prompts=["Go on"] * 2)
    assert ids(plan(place, session_id="aaaaaaaa", **filters)) == [A]


def test_a_live_session_counts_when_a_prefix_fits_several(place: Place) -> None:
    """Else the prefix would mean another session as soon as one of the two is opened."""
    for session_id in (A, B):
        write_session(place.root, IN_APP, session_id, at=AT)
    add_live(place.config, A, os.getpid())
    with pytest.raises(AmbiguousSessionError):
        plan(place, session_id="aaaaaaaa")


# routine, and all together


def write_greeting(root: Path, session_id: str) -> Path:
    records = [user("hi", session_id, AT), assistant("Hello!", session_id, AT)]
    return write_lines(root / IN_APP / f"{session_id}.jsonl", records, modified=AT)


def test_routine_takes_what_the_math_floor_calls_so(place: Place) -> None:
    write_greeting(place.root, A)
    write_session(place.root, IN_APP, B, at=AT)
    assert ids(plan(place, routine=True)) == [A]


FITS: dict[str, Any] = {
    "before": AT + HOUR,
    "project": APP,
    "max_messages": 2,
    "session_id": "aaaaaaaa",
    "routine": True,
}


@pytest.mark.parametrize(
    "failing",
    [
        {"before": AT},
        {"project": APP + "-next"},
        {"max_messages": 1},
        {"session_id": "bbbbbbbb"},
        {"routine": True},
    ],
    ids=lambda failing: next(iter(failing)),
)
def test_a_session_must_pass_every_filter(place: Place, failing: dict[str, Any]) -> None:
    path = write_greeting(place.root, A)
    assert ids(plan(place, **FITS)) == [A]
    if "routine" in failing:
        replies = [user("Go on", A, AT), assistant("Done. " * 100, A, AT)]
        write_lines(path, replies, modified=AT)
    assert ids(plan(place, **(FITS | failing))) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"before": "2026-11-01"}, TypeError),
        ({"before": date(2026, 11, 1)}, TypeError),
        ({"before": 0}, TypeError),
        ({"project": None}, TypeError),
        ({"project": Path("/home/me/app")}, TypeError),
        ({"session_id": b"aaaaaaaa"}, TypeError),
        ({"max_messages": "3"}, TypeError),
        ({"max_messages": True}, TypeError),
        ({"max_messages": 2.0}, TypeError),
        ({"max_messages": -1}, ValueError),
        ({"routine": 1}, TypeError),
        ({"include_live": "no"}, TypeError),
        ({"dry_run": None}, TypeError),
    ],
    ids=str,
)
def test_a_filter_of_the_wrong_kind_is_refused(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(options))):
        DeleteOpts(**options)


# What is reported instead


def link_outside(path: Path) -> None:
    target = path.parent.parent.parent / "outside.jsonl"
    write_lines(target, [user(SECRET, A, AT)])
    path.symlink_to(target)


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "linked transcript": (link_outside, "the transcript is a symbolic link"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "the transcript is a symbolic link"),
    "directory": (Path.mkdir, "not a regular file"),
    "FIFO": (os.mkfifo, "not a regular file"),
}


@pytest.mark.parametrize(("make", "reason"), ODD.values(), ids=ODD)
def test_what_only_looks_like_a_transcript_is_reported_and_the_rest_goes_on(
    place: Place, make: Callable[[Path], None], reason: str
) -> None:
    write_session(place.root, IN_APP, B, at=AT)
    make(place.root / IN_APP / f"{A}.jsonl")
    found = plan(place, project="app")
    assert ids(found) == [B]
    assert [(skip.session_id, skip.path, skip.reason) for skip in found.skipped] == [
        (A, place.root / IN_APP / f"{A}.jsonl", reason)
    ]


def test_a_linked_project_is_reported_and_not_entered(place: Place) -> None:
    elsewhere = place.base / "elsewhere"
    write_session(elsewhere, IN_APP, A, at=AT)
    (place.root / IN_APP).symlink_to(elsewhere / IN_APP)
    found = plan(place, max_messages=99)
    assert ids(found) == []
    assert [(skip.session_id, skip.path, skip.reason) for skip in found.skipped] == [
        ("", place.root / IN_APP, "the project directory is a symbolic link")
    ]


def test_the_projects_root_itself_may_be_a_link(place: Place) -> None:
    real = place.root.rename(place.base / "real")
    place.root.symlink_to(real)
    write_session(place.root, IN_APP, A, at=AT)
    made = add_companions(place.config, IN_APP, A)
    (item,) = plan(place, project="app").matched
    assert (item.session_id, sorted(item.companions)) == (A, made)


def deny(monkeypatch: pytest.MonkeyPatch, name: str, path: Path) -> None:
    """The system call fails for this path; a test that runs as root is denied nothing else."""
    original = getattr(os, name)

    def call(given: Any, *arguments: Any, **options: Any) -> Any:
        if given == str(path):
            raise PermissionError(13, "Permission denied", given)
        return original(given, *arguments, **options)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize(
    ("call", "name"),
    [("open", f"{IN_APP}/{A}.jsonl"), ("scandir", IN_APP)],
    ids=["transcript", "project directory"],
)
def test_what_cannot_be_read_is_reported_and_the_rest_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    write_session(place.root, "-home-me-web", B, at=AT)
    deny(monkeypatch, call, place.root / name)
    found = plan(place, max_messages=99)
    assert ids(found) == [B]
    assert [(skip.path, skip.reason) for skip in found.skipped] == [
        (place.root / name, "permission denied")
    ]


no_utf8 = pytest.mark.skipif(sys.platform == "darwin", reason="macOS has UTF-8 names alone")


@pytest.mark.parametrize(
    "name", [pytest.param("\udcff", marks=no_utf8), "a\nb", "a\u2028b", " a"], ids=ascii
)
def test_an_id_that_no_tombstone_can_hold_is_reported(place: Place, name: str) -> None:
    path = write_session(place.root, IN_APP, name, at=AT)
    found = plan(place, project="app")
    assert (ids(found), [skip.path for skip in found.skipped]) == ([], [path])
    assert found.skipped[0].reason.startswith("the id ")


@no_utf8
def test_a_project_whose_name_is_not_utf8_is_walked_like_any_other(place: Place) -> None:
    path = write_session(place.root, "-home-\udcff", A, at=AT)
    assert [item.path for item in plan(place, project="\udcff").matched] == [path]


@pytest.mark.parametrize(
    "filters", [{"project": "web"}, {"session_id": B}], ids=["other project", "other id"]
)
def test_what_does_not_fit_is_not_reported(place: Place, filters: dict[str, Any]) -> None:
    (place.root / "-home-me-app-linked").symlink_to("nowhere-to-go")
    (place.root / IN_APP).mkdir()
    link_outside(place.root / IN_APP / f"{A}.jsonl")
    write_session(place.root, "-home-me-web", B, at=AT)
    found = plan(place, **filters)
    assert (ids(found), found.skipped) == ([B], ())


def test_a_live_session_is_reported_unless_live_ones_are_included(place: Place) -> None:
    path = write_session(place.root, IN_APP, A, at=AT)
    add_live(place.config, A, os.getpid())
    found = plan(place, project="app")
    assert (ids(found), list(reasons(found))) == ([], [path.name])
    assert reasons(found)[path.name].startswith("live: ")
    assert ids(plan(place, project="app", include_live=True)) == [A]


# What a plan tells


def test_items_and_skipped_ones_are_sorted_by_path(place: Place) -> None:
    names = ["-b", "-a", "-a-b", "-a.b", "-A"]
    for number, name in enumerate(names):
        for session_id in (f"{number}.5-session", f"{number}-session", f"{number}session"):
            write_session(place.root, name, session_id, at=AT)
        (place.root / name / "linked.jsonl").symlink_to("nowhere")
        (place.root / f"{name}-linked").symlink_to(place.root / name)
    found = plan(place, max_messages=99)
    paths = [item.path for item in found.matched]
    skipped = [skip.path for skip in found.skipped]
    assert (len(paths), len(skipped)) == (15, 10)
    assert (paths, skipped) == (sorted(paths), sorted(skipped))


def size_of(*paths: Path) -> int:
    """Bytes of all files at and below the paths, one with several names once."""
    files = {}
    for top in paths:
        for path in filter(Path.is_file, [top, *top.rglob("*")]):
            files[path.stat().st_ino] = path.stat().st_size
    return sum(files.values())


def test_an_item_holds_the_whole_unit_and_its_size(place: Place) -> None:
    path = write_session(place.root, IN_APP, A, at=AT)
    made = add_companions(place.config, IN_APP, A)
    write_session(place.root, IN_APP, B, at=AT)
    add_companions(place.config, IN_APP, B)
    add_bystanders(place.config)
    (item,) = plan(place, session_id=A).matched
    assert sorted(item.companions) == made
    assert item.companion_bytes == size_of(*made)
    assert (item.session_id, item.path, item.project) == (A, path, IN_APP)
    status = path.stat()
    assert (item.bytes, item.modified_ns) == (status.st_size, status.st_mtime_ns)
    assert (item.device, item.inode) == (status.st_dev, status.st_ino)
    assert item.messages == path.read_bytes().count(b"\n")


def test_the_total_counts_companions(place: Place) -> None:
    everything = []
    for session_id in (A, B):
        everything.append(write_session(place.root, IN_APP, session_id, at=AT))
        everything += add_companions(place.config, IN_APP, session_id)
    assert plan(place, project="app").total_bytes == size_of(*everything)


def test_under_a_root_of_another_name_only_what_lies_in_the_project_is_taken(
    place: Place,
) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    made = add_companions(place.config, IN_APP, A)
    root = place.root.rename(place.config / "transcripts")
    (item,) = plan_delete(root, place.cache, DeleteOpts(session_id=A)).matched
    inside = [root / path.relative_to(place.root) for path in made if IN_APP in path.parts]
    assert sorted(item.companions) == inside


def test_of_two_copies_one_takes_what_lies_beside_it_alone(place: Place) -> None:
    for project in (IN_APP, "-home-me-web"):
        write_session(place.root, project, A, at=AT)
        made = add_companions(place.config, project, A)
    (item,) = plan(place, project="web").matched
    assert item.also_in == (IN_APP,)
    assert sorted(item.companions) == [path for path in made if path.parent == item.directory]
    assert item.companion_bytes == size_of(*item.companions)


def test_of_all_copies_the_last_takes_what_is_keyed_by_the_id(place: Place) -> None:
    made: set[Path] = set()
    for project in (IN_APP, "-home-me-web"):
        write_session(place.root, project, A, at=AT)
        made.update(add_companions(place.config, project, A))
    first, last = plan(place, max_messages=99).matched
    assert {path.parent for path in first.companions} == {first.directory}
    assert set(first.companions) | set(last.companions) == made
    assert not set(first.companions) & set(last.companions)


def test_a_session_written_to_while_it_is_judged_is_not_planned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(place.root / IN_APP / f"{A}.jsonl", [user("hi", A, AT)], modified=AT)
    original = _judge._is_routine

    def judge(given: str) -> bool:
        verdict = original(given)
        with path.open("a") as file:
            file.writelines(f"{json.dumps(user('Please fix it', A, AT))}\n" for _ in range(5))
        return verdict

    assert ids(plan(place, routine=True)) == [A]
    monkeypatch.setattr(_judge, "_is_routine", judge)
    assert ids(plan(place, routine=True)) == []
