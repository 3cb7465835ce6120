"""Delete does the plan that was shown, whole units only, and the tombstone is the commit."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import Place, snapshot, without
from lifecycle import (
    AmbiguousSessionError,
    DeleteOpts,
    DeletePlan,
    NoFilterError,
    PlanItem,
    TombstoneFileError,
    _disk,
    _staging,
    archive_session,
    delete,
    delete_sessions,
    execute_delete,
    load_tombstones,
    plan_delete,
    restore_session,
    tombstone_ids,
)
from lifecycle._live import Live
from lifecycle._plan import why
from lifecycle.delete import recover_sessions
from sample import (
    APP,
    add_bystanders,
    add_companions,
    add_live,
    make_sample,
    project_name,
    write_lines,
    write_session,
)

A = "aaaaaaaa-0000-4000-8000-000000000001"
B = "bbbbbbbb-0000-4000-8000-000000000002"
C = "cccccccc-0000-4000-8000-000000000003"
AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
IN_APP = project_name(APP)
IN_WEB = "-home-me-web"
ALL = DeleteOpts(project="-home-me")


pytestmark = pytest.mark.usefixtures("no_waiting")


def write_unit(place: Place, session_id: str, project: str = IN_APP) -> list[Path]:
    """A session with every kind of companion; the transcript comes first."""
    path = write_session(place.root, project, session_id, at=AT)
    return [path, *add_companions(place.config, project, session_id)]


def reasons(found: DeletePlan) -> dict[str, str]:
    """Id of what was skipped -> why."""
    return {skip.session_id: skip.reason for skip in found.skipped}


def deleted(found: DeletePlan) -> list[str]:
    return [item.session_id for item in found.deleted]


# The plan


@pytest.mark.parametrize("function", [plan_delete, delete_sessions])
@pytest.mark.parametrize(
    "opts", [DeleteOpts(), DeleteOpts(include_live=True, dry_run=True)], ids=["empty", "flags only"]
)
def test_no_filter_is_refused_before_anything_is_read(
    place: Place, function: Callable[..., DeletePlan], opts: DeleteOpts
) -> None:
    unreadable = place.base / "a-file"
    unreadable.touch()
    message = "refusing to delete all sessions: set at least one filter"
    with pytest.raises(NoFilterError, match=message):
        function(unreadable, place.cache, opts)


@pytest.mark.parametrize("function", [plan_delete, delete_sessions])
def test_a_plan_and_a_dry_run_change_nothing_at_all(
    place: Place, function: Callable[..., DeletePlan]
) -> None:
    sample = make_sample(place.config)
    stage(sample.sessions["search"], place)
    before = place.everything()
    found = function(sample.root, place.cache, DeleteOpts(max_messages=9_999, dry_run=True))
    assert place.everything() == before
    assert len(found.matched) > 10
    assert "staged by an interrupted delete" in reasons(found)[sample.sessions["search"].stem]
    assert (found.deleted, found.failed) == ((), ())


def test_a_missing_projects_root_is_an_empty_plan(place: Place) -> None:
    place.root.rmdir()
    before = place.everything()
    found = delete_sessions(place.root, place.cache, ALL)
    assert (found.matched, found.skipped, found.deleted) == ((), (), ())
    assert place.everything() == before


def test_where_nothing_matches_nothing_changes(place: Place) -> None:
    write_unit(place, A)
    before = place.everything()
    assert delete_sessions(place.root, place.cache, DeleteOpts(project="other")).matched == ()
    assert place.everything() == before


# The unit


def test_the_whole_unit_goes_and_nothing_else(place: Place) -> None:
    sample = make_sample(place.config)
    path = sample.sessions["login"]
    outside = place.config / "elsewhere"
    (path.parent / path.stem / "link").symlink_to(outside)
    before = snapshot(place.config)
    companions = add_companions(place.config, IN_APP, path.stem)
    done = delete_sessions(sample.root, place.cache, DeleteOpts(session_id=path.stem))
    assert deleted(done) == [path.stem]
    assert snapshot(place.config) == without(before, [path, *companions])


def test_the_directory_of_the_last_session_in_a_project_is_kept(place: Place) -> None:
    write_unit(place, A)
    delete_sessions(place.root, place.cache, ALL)
    assert list(snapshot(place.root)) == [str(place.root), str(place.root / IN_APP)]


def test_what_is_a_link_stays_and_so_does_what_it_leads_to(place: Place) -> None:
    path = write_session(place.root, IN_APP, A, at=AT)
    elsewhere = place.base / "elsewhere"
    (elsewhere / A).mkdir(parents=True)
    (elsewhere / A / "1.json").write_text("{}")
    (elsewhere / f"{A}.txt").write_text("log")
    (place.root / IN_APP / A).symlink_to(elsewhere / A)
    (place.config / "tasks").symlink_to(elsewhere)
    (place.config / "debug").mkdir()
    (place.config / "debug" / f"{A}.txt").symlink_to(elsewhere / f"{A}.txt")
    before = snapshot(place.config, elsewhere)
    assert deleted(delete_sessions(place.root, place.cache, ALL)) == [A]
    assert snapshot(place.config, elsewhere) == without(before, [path])


def test_every_id_is_tombstoned_beside_those_that_were(place: Place) -> None:
    tombstone_ids(place.cache, ["earlier"])
    for session_id, project in ((B, IN_APP), (A, IN_WEB), (C, IN_WEB)):
        write_unit(place, session_id, project)
    done = delete_sessions(place.root, place.cache, ALL)
    assert done.tombstone_path == place.tombstones
    assert place.tombstones.read_text() == f"earlier\n{B}\n{A}\n{C}\n"


@pytest.mark.parametrize("length", [249, 248])
def test_the_longest_ids_are_deleted_like_any_other(place: Place, length: int) -> None:
    session_id = "x" * length
    write_session(place.root, IN_APP, session_id, at=AT)
    before = snapshot(place.config)
    gone = place.root / IN_APP / f"{session_id}.jsonl"
    assert deleted(delete_sessions(place.root, place.cache, ALL)) == [session_id]
    assert snapshot(place.config) == without(before, [gone])
    assert load_tombstones(place.cache) == {session_id}


# What was shown is what is done


def append(place: Place, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"{}\n")


def replace(place: Place, path: Path) -> None:
    """Same name, content, mode and time, but another file."""
    copy = place.base / "copy"
    shutil.copy2(path, copy)
    os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    copy.replace(path)


def rewrite(place: Place, path: Path) -> None:
    """Same file, size and name, but another content."""
    path.write_bytes(path.read_bytes().replace(b"login", b"LOGIN"))


def touch(place: Place, path: Path) -> None:
    """Opening a session does no more than this, and the next thing is a new record."""
    os.utime(path)


def link(place: Place, path: Path) -> None:
    path.symlink_to(path.rename(place.base / "moved.jsonl"))


def add_companion(place: Place, path: Path) -> None:
    (path.parent / A / "subagents" / "agent-new.jsonl").write_text("{}\n")


def add_sidecar(place: Place, path: Path) -> None:
    (path.parent / f"{A}.ccr-tip.json.tmp.1").touch()


def change_companion(place: Place, path: Path) -> None:
    append(place, place.config / "tasks" / A / "1.json")


def remove_companion(place: Place, path: Path) -> None:
    (place.config / "debug" / f"{A}.txt").unlink()


def open_session(place: Place, path: Path) -> None:
    add_live(place.config, A, os.getpid())


def link_project(place: Place, path: Path) -> None:
    moved = path.parent.rename(place.base / "moved")
    path.parent.symlink_to(moved)


CHANGES: dict[str, tuple[Callable[[Place, Path], None], str]] = {
    "appended to": (append, "changed since the plan was made"),
    "replaced by its copy": (replace, "changed since the plan was made"),
    "rewritten": (rewrite, "changed since the plan was made"),
    "touched": (touch, "changed since the plan was made"),
    "now a link": (link, "changed since the plan was made"),
    "removed": (lambda place, path: path.unlink(), "gone since the plan was made"),
    "companion added": (add_companion, "what belongs to it changed since the plan was made"),
    "sidecar added": (add_sidecar, "what belongs to it changed since the plan was made"),
    "companion changed": (change_companion, "what belongs to it changed since the plan was made"),
    "companion removed": (remove_companion, "what belongs to it changed since the plan was made"),
    "live now": (open_session, "live: "),
    "project now a link": (link_project, "the project directory is a symbolic link now"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_what_changed_since_it_was_shown_is_left_and_named_and_the_rest_goes(
    place: Place, change: Callable[[Place, Path], None], reason: str
) -> None:
    path = write_unit(place, A)[0]
    other = write_unit(place, B, IN_WEB)
    planned = plan_delete(place.root, place.cache, ALL)
    change(place, path)
    before = snapshot(place.base)
    done = execute_delete(planned)
    assert deleted(done) == [B]
    assert list(reasons(done)) == [A]
    assert reasons(done)[A].startswith(reason)
    assert load_tombstones(place.cache) == {B}
    assert without(snapshot(place.base), [place.cache.parent]) == without(before, other)


def test_what_matches_only_since_it_was_shown_is_left(place: Place) -> None:
    shown = write_unit(place, A)
    planned = plan_delete(place.root, place.cache, ALL)
    write_unit(place, B)
    write_unit(place, C, IN_WEB)
    before = snapshot(place.config)
    assert deleted(execute_delete(planned)) == [A]
    assert snapshot(place.config) == without(before, shown)


def test_a_copy_that_appeared_since_keeps_what_is_keyed_by_the_id(place: Place) -> None:
    shown = write_unit(place, A)
    planned = plan_delete(place.root, place.cache, ALL)
    write_session(place.root, IN_WEB, A, at=AT)
    before = snapshot(place.config)
    assert deleted(execute_delete(planned)) == [A]
    beside = [path for path in shown if path.parent == shown[0].parent]
    assert snapshot(place.config) == without(before, beside)


def once_after(monkeypatch: pytest.MonkeyPatch, name: str, action: Callable[[], None]) -> None:
    """Does something right after the first call of a function that the module uses."""
    original = getattr(delete, name)

    def call(*arguments: Any) -> Any:
        monkeypatch.setattr(delete, name, original)
        result = original(*arguments)
        action()
        return result

    monkeypatch.setattr(delete, name, call)


def test_what_is_appended_while_it_is_staged_comes_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that opened the file before it was renamed."""
    path = write_unit(place, A)[0]
    planned = plan_delete(place.root, place.cache, ALL)
    with path.open("ab") as file:

        def write() -> None:
            file.write(b"{}\n")
            file.flush()

        once_after(monkeypatch, "rename_new", write)
        done = execute_delete(planned)
    assert (deleted(done), list(reasons(done))) == ([], [A])
    assert path.read_bytes().endswith(b"\n{}\n")
    assert not place.cache.exists()


def test_a_changed_history_is_kept_even_where_its_name_is_taken_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers: one that has the file open, and one that makes it anew."""
    path = write_unit(place, A)[0]
    history = path.read_bytes()
    planned = plan_delete(place.root, place.cache, ALL)
    with path.open("ab") as file:

        def write() -> None:
            file.write(b"{}\n")
            file.flush()
            path.write_bytes(b"new\n")

        once_after(monkeypatch, "rename_new", write)
        done = execute_delete(planned)
    contents = [entry[3] for entry in snapshot(place.root).values()]
    assert history + b"{}\n" in contents
    assert b"new\n" in contents
    assert (deleted(done), done.failed) == ([], ())
    assert str(superseded(path)) in reasons(done)[A]
    assert A not in load_tombstones(place.cache)


def live_later(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """A is opened after the transcripts are staged."""
    answers = iter([Live({}), Live({A: "held by process 1"})])

    def call(config: str | None) -> Live:
        found = next(answers)
        if found.sessions:
            action()
        return found

    monkeypatch.setattr(delete, "live_sessions", call)


def test_a_session_opened_while_it_is_staged_comes_back_and_the_rest_goes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_unit(place, A)
    other = write_unit(place, B)
    before = snapshot(place.config)
    live_later(monkeypatch, lambda: None)
    done = delete_sessions(place.root, place.cache, ALL)
    assert (deleted(done), reasons(done)) == ([B], {A: "live: held by process 1"})
    assert snapshot(place.config) == without(before, other)


def test_a_session_opened_and_written_to_while_it_is_staged_does_not_stop_the_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_unit(place, A)[0]
    history = path.read_bytes()
    write_unit(place, B)
    live_later(monkeypatch, lambda: append(place, path))
    done = delete_sessions(place.root, place.cache, ALL)
    assert (deleted(done), done.failed) == ([B], ())
    assert str(superseded(path)) in reasons(done)[A]
    assert history in [entry[3] for entry in snapshot(place.root).values()]
    assert load_tombstones(place.cache) == {B}


def test_what_is_written_to_the_name_after_the_commit_stays_and_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_unit(place, A)[0]
    before = snapshot(place.config)
    once_after(monkeypatch, "tombstone_ids", lambda: append(place, path))
    done = delete_sessions(place.root, place.cache, ALL)
    assert deleted(done) == [A]
    assert reasons(done) == {A: "written anew while it was deleted; the new file is left"}
    assert path.read_bytes() == b"{}\n"
    assert without(snapshot(place.config), [path]) == without(before, [path])


def test_a_last_look_that_fails_gives_the_session_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_unit(place, session_id)[0] for session_id in (A, B)]
    before = snapshot(paths[0].parent)
    original = PlanItem.is_at

    def is_at(item: PlanItem, path: str) -> bool:
        if path.endswith(f"{A}.lcdel"):
            raise OSError(errno.EIO, "Input/output error", path)
        return original(item, path)

    monkeypatch.setattr(PlanItem, "is_at", is_at)
    done = delete_sessions(place.root, place.cache, ALL)
    assert (deleted(done), reasons(done)) == ([B], {A: "input/output error"})
    assert load_tombstones(place.cache) == {B}
    assert snapshot(paths[0]) == {str(paths[0]): before[str(paths[0])]}


def test_a_staged_transcript_that_somebody_took_away_is_gone_and_not_tombstoned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, *companions = write_unit(place, A)
    once_after(monkeypatch, "rename_new", lambda: path.with_suffix(".lcdel").unlink())
    done = delete_sessions(place.root, place.cache, ALL)
    assert (deleted(done), reasons(done)) == ([], {A: "gone since the plan was made"})
    assert load_tombstones(place.cache) == frozenset()
    assert all(companion.exists() for companion in companions)


def test_a_name_written_anew_while_others_are_removed_keeps_its_companions(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_unit(place, A)
    path = write_unit(place, B)[0]
    once_after(monkeypatch, "reap", lambda: append(place, path))
    done = delete_sessions(place.root, place.cache, ALL)
    assert reasons(done) == {B: "written anew while it was deleted; the new file is left"}
    assert path.exists()
    assert path.with_suffix("").exists()


def test_a_failure_to_end_the_run_is_told_with_what_was_done(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_unit(place, A)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", str(place.root))

    monkeypatch.setattr(delete, "close_journal", fail)
    done = delete_sessions(place.root, place.cache, ALL)
    assert deleted(done) == [A]
    assert [skip.reason for skip in done.failed] == ["all is done, but: input/output error"]


# The commit


def make_directory(path: Path) -> None:
    path.mkdir(parents=True)


def make_rubbish(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe\0rubbish")


def make_fifo(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


def make_no_directory(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.touch()


BAD: dict[str, tuple[Callable[[Path], None], type[Exception]]] = {
    "tombstone file is a directory": (make_directory, OSError),
    "tombstone file is rubbish": (make_rubbish, TombstoneFileError),
    "tombstone file is a FIFO": (make_fifo, OSError),
    "cache directory is a file": (make_no_directory, OSError),
}


@pytest.mark.parametrize(("make", "error"), BAD.values(), ids=BAD)
def test_where_the_ids_cannot_be_tombstoned_everything_gets_its_name_back(
    place: Place, make: Callable[[Path], None], error: type[Exception]
) -> None:
    write_unit(place, A)
    write_unit(place, B, IN_WEB)
    make(place.tombstones)
    before = snapshot(place.base)
    with pytest.raises(error):
        delete_sessions(place.root, place.cache, ALL)
    assert snapshot(place.base) == before


def test_the_ids_are_tombstoned_before_the_first_byte_goes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session_id in (A, B):
        write_unit(place, session_id)
    seen = []

    def remove(path: str) -> None:
        seen.append(load_tombstones(place.cache))
        _disk.remove(path)

    monkeypatch.setattr(_staging, "remove", remove)
    delete_sessions(place.root, place.cache, ALL)
    assert len(seen) > 40
    assert set(seen) == {frozenset({A, B})}


@pytest.mark.parametrize("committed", [False, True], ids=["before", "after"])
def test_an_interrupt_at_the_commit_ends_on_one_side_of_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    unit = write_unit(place, A)
    before = snapshot(place.config)

    def interrupted(cache: Path, ids: Iterable[str]) -> None:
        if committed:
            tombstone_ids(cache, ids)
        raise KeyboardInterrupt

    monkeypatch.setattr(delete, "tombstone_ids", interrupted)
    with pytest.raises(KeyboardInterrupt):
        delete_sessions(place.root, place.cache, ALL)
    assert snapshot(place.config) == (without(before, unit) if committed else before)


def test_an_interrupt_before_the_commit_takes_nothing_though_an_id_was_tombstoned_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_unit(place, A)
    write_unit(place, B)
    tombstone_ids(place.cache, [A])
    before = snapshot(place.config)
    planned = plan_delete(place.root, place.cache, ALL)
    calls: list[str] = []

    def interrupted(item: object, companions: object) -> str:
        calls.append("look")
        if len(calls) == 2:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(delete, "change_in", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute_delete(planned)
    assert snapshot(place.config) == before


# What an interrupted run left


def stage(path: Path, place: Place, cache: Path | None = None) -> Path:
    """Leaves a transcript as a run that was killed before its first reaping does."""
    _staging.open_journal(str(place.root), (cache or place.cache) / ".deleted")
    return path.rename(path.with_suffix(".lcdel"))


def next_delete(place: Place) -> None:
    assert deleted(delete_sessions(place.root, place.cache, DeleteOpts(session_id=C))) == [C]


def next_archive(place: Place) -> None:
    archive_session(C, place.archive, projects_root=place.root)


def next_restore(place: Place) -> None:
    archived = place.archive / f"{C}.jsonl"
    (place.archive / C / "projects" / IN_WEB).mkdir(parents=True)
    (place.root / IN_WEB / f"{C}.jsonl").rename(archived)
    restore_session(C, place.archive, projects_root=place.root, cache_dir=place.cache)


@pytest.mark.parametrize("following", [next_delete, next_archive, next_restore])
@pytest.mark.parametrize("verdict", ["none", "here", "elsewhere"])
def test_every_command_that_changes_files_settles_what_is_staged(
    place: Place, verdict: str, following: Callable[[Place], None]
) -> None:
    """By the tombstone file of the run that staged it, whatever the next one's is."""
    cache = place.base / "other-cache" if verdict == "elsewhere" else place.cache
    unit = write_unit(place, A)
    write_session(place.root, IN_WEB, C, at=AT)
    before = snapshot(place.root)
    stage(unit[0], place, cache)
    if verdict != "none":
        tombstone_ids(cache, [A])
    following(place)
    last = place.root / IN_WEB / f"{C}.jsonl"
    expected = before if verdict == "none" else without(before, unit)
    assert without(snapshot(place.root), [last]) == without(expected, [last])
    assert not [path for path in unit if path.exists() == (verdict != "none")]


def test_recovery_tells_what_it_gave_back_and_what_it_removed(place: Place) -> None:
    back, gone = write_unit(place, A)[0], write_unit(place, B)[0]
    stage(back, place)
    stage(gone, place)
    tombstone_ids(place.cache, [B])
    outcome = recover_sessions(place.root, place.cache)
    assert (outcome.given_back, outcome.reaped, outcome.failed) == ([back], [gone], [])


def test_where_a_tombstone_file_cannot_be_read_everything_stays_staged(place: Place) -> None:
    stage(write_unit(place, A)[0], place)
    make_rubbish(place.tombstones)
    before = place.everything()
    with pytest.raises(TombstoneFileError):
        recover_sessions(place.root, place.base / "other-cache")
    assert place.everything() == before


@pytest.mark.parametrize("tombstoned", [False, True], ids=["no tombstone", "tombstone"])
def test_a_transcript_with_both_names_keeps_its_own(place: Place, tombstoned: bool) -> None:
    """Killed between the two halves of the staging, or of the giving back."""
    path = write_unit(place, A)[0]
    before = snapshot(place.config)
    path.hardlink_to(stage(path, place))
    if tombstoned:
        tombstone_ids(place.cache, [A])
    recover_sessions(place.root, place.cache)
    assert snapshot(place.config) == before


def test_a_link_to_the_staged_transcript_is_not_taken_for_it(place: Place) -> None:
    path = write_session(place.root, IN_APP, A, at=AT)
    content = path.read_bytes()
    path.symlink_to(stage(path, place))
    recover_sessions(place.root, place.cache)
    (kept,) = path.parent.glob(f"{A}.jsonl.superseded-*")
    assert kept.read_bytes() == content


def test_a_pipe_for_a_journal_is_an_error_and_not_waited_for(place: Place) -> None:
    write_unit(place, A)
    os.mkfifo(place.root / ".lifecycle-journal")
    with pytest.raises(OSError, match="not a regular file"):
        delete_sessions(place.root, place.cache, ALL)


def test_what_a_kill_left_of_a_journal_goes_with_the_next_run(place: Place) -> None:
    write_unit(place, A)
    half = place.root / ".lifecycle-journal.lifecycle-tmp"
    half.write_bytes(b"/half")
    assert deleted(delete_sessions(place.root, place.cache, ALL)) == [A]
    assert not half.exists()


def test_nothing_is_removed_behind_a_linked_store(place: Place, tmp_path: Path) -> None:
    write_unit(place, A)
    (tmp_path / "elsewhere").mkdir()
    kept = tmp_path / "elsewhere" / ".lifecycle-tmp"
    kept.write_text("x")
    shutil.rmtree(place.config / "todos", ignore_errors=True)
    (place.config / "todos").symlink_to(kept.parent)
    assert deleted(delete_sessions(place.root, place.cache, ALL)) == [A]
    assert kept.exists()


def superseded(path: Path) -> Path:
    """Where the old content of a transcript is kept beside the new."""
    return max(path.parent.glob(f"{path.name}.superseded-*"), key=lambda found: found.suffix)


def test_where_the_name_was_taken_the_old_content_is_kept_as_the_session_s_own(
    place: Place,
) -> None:
    path = write_unit(place, A)[0]
    old = path.read_bytes()
    stage(path, place)
    append(place, path)
    new = path.read_bytes()
    outcome = recover_sessions(place.root, place.cache)
    assert (outcome.given_back, outcome.reaped, outcome.failed) == ([superseded(path)], [], [])
    assert (superseded(path).read_bytes(), path.read_bytes()) == (old, new)
    # From here on it is a companion like any other.
    (item,) = plan_delete(place.root, place.cache, ALL).matched
    assert superseded(path) in item.companions


def test_what_was_kept_beside_since_the_plan_was_made_is_not_deleted_by_it(place: Place) -> None:
    path = write_unit(place, A)[0]
    old = path.read_bytes()
    stage(path, place)
    append(place, path)
    other = write_unit(place, B)
    planned = plan_delete(place.root, place.cache, ALL)
    done = execute_delete(planned)
    assert deleted(done) == [B]
    assert not any(part.exists() for part in other)
    assert superseded(path).read_bytes() == old
    assert path.exists()


def test_a_new_file_of_a_tombstoned_name_stays_with_all_companions(place: Place) -> None:
    path = write_unit(place, A)[0]
    staged = stage(path, place)
    append(place, path)
    tombstone_ids(place.cache, [A])
    before = snapshot(place.config)
    recover_sessions(place.root, place.cache)
    journal = place.root / _staging.JOURNAL
    assert snapshot(place.config) == without(before, [staged, journal])


def deny_removal(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    def remove(given: str) -> None:
        if given == str(path):
            raise PermissionError(13, "Permission denied", given)
        _disk.remove(given)

    monkeypatch.setattr(_staging, "remove", remove)


def test_the_place_of_the_verdict_is_remembered_until_the_last_staged_file_is_settled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete with another cache directory in between must not make it forgotten."""
    elsewhere = place.base / "other-cache"
    unit = write_unit(place, A)
    stage(unit[0], place, elsewhere)
    tombstone_ids(elsewhere, [A])
    other = write_unit(place, B)
    before = snapshot(place.config)
    with monkeypatch.context() as patch:
        deny_removal(patch, unit[1])
        assert deleted(delete_sessions(place.root, place.cache, DeleteOpts(session_id=B))) == [B]
    recover_sessions(place.root, place.cache)
    remains = [unit[0].with_suffix(".lcdel"), place.root / _staging.JOURNAL]
    assert snapshot(place.config) == without(before, [*unit, *other, *remains])


# Copies, live sessions, failures


def test_what_is_keyed_by_the_id_stays_until_the_last_copy_goes(place: Place) -> None:
    first = write_unit(place, A, IN_APP)
    last = write_unit(place, A, IN_WEB)
    before = snapshot(place.config)
    delete_sessions(place.root, place.cache, DeleteOpts(project="app"))
    beside = [path for path in first if path.parent == first[0].parent]
    assert snapshot(place.config) == without(before, beside)
    delete_sessions(place.root, place.cache, DeleteOpts(project="web"))
    assert snapshot(place.config) == without(before, first + last)


def test_all_copies_at_once_go_with_everything_under_one_tombstone(place: Place) -> None:
    units = write_unit(place, A, IN_APP) + write_unit(place, A, IN_WEB)
    before = snapshot(place.config)
    assert deleted(delete_sessions(place.root, place.cache, ALL)) == [A, A]
    assert snapshot(place.config) == without(before, units)
    assert place.tombstones.read_text() == f"{A}\n"


def test_of_all_copies_one_that_changed_keeps_what_is_keyed_by_the_id(place: Place) -> None:
    first = write_unit(place, A, IN_APP)
    last = write_unit(place, A, IN_WEB)
    planned = plan_delete(place.root, place.cache, ALL)
    append(place, first[0])
    before = snapshot(place.config)
    execute_delete(planned)
    assert snapshot(place.config) == without(
        before, [path for path in last if path.parent == last[0].parent]
    )


def test_a_live_session_is_skipped(place: Place) -> None:
    write_unit(place, A)
    add_live(place.config, A, os.getpid())
    other = write_unit(place, B)
    before = snapshot(place.config)
    done = delete_sessions(place.root, place.cache, ALL)
    assert (deleted(done), list(reasons(done))) == ([B], [A])
    assert snapshot(place.config) == without(before, other)


def test_a_live_session_goes_where_that_was_asked_for(place: Place) -> None:
    unit = write_unit(place, A)
    add_live(place.config, A, os.getpid())
    before = snapshot(place.config)
    opts = DeleteOpts(session_id=A, include_live=True)
    assert deleted(delete_sessions(place.root, place.cache, opts)) == [A]
    assert snapshot(place.config) == without(before, unit)


def test_one_that_cannot_be_staged_does_not_stop_the_others(place: Place) -> None:
    path = write_unit(place, A)[0]
    path.with_suffix(".lcdel").mkdir()
    other = write_unit(place, B)
    before = snapshot(place.config)
    done = delete_sessions(place.root, place.cache, ALL)
    assert deleted(done) == [B]
    assert [(skip.path, skip.reason) for skip in done.failed] == [(path, "file exists")]
    assert load_tombstones(place.cache) == {B}
    assert snapshot(place.config) == without(before, other)


def test_one_that_cannot_be_reaped_is_named_and_the_next_run_finishes_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [write_unit(place, A), write_unit(place, B)]
    before = snapshot(place.config)
    with monkeypatch.context() as patch:
        deny_removal(patch, units[0][3])
        done = delete_sessions(place.root, place.cache, ALL)
    assert deleted(done) == [B]
    reason = f"tombstoned, but not all of it is removed: {units[0][3]}: permission denied"
    assert [(skip.session_id, skip.reason) for skip in done.failed] == [(A, reason)]
    assert load_tombstones(place.cache) == {A, B}
    recover_sessions(place.root, place.cache)
    assert snapshot(place.config) == without(before, units[0] + units[1])


# Upstream mistakes that no test above pins


def test_a_prefix_of_several_deletes_none(place: Place) -> None:
    for session_id in (A, A[:-1] + "2"):
        write_unit(place, session_id)
    before = place.everything()
    with pytest.raises(AmbiguousSessionError):
        delete_sessions(place.root, place.cache, DeleteOpts(session_id=A[:8]))
    assert place.everything() == before


def test_a_line_of_17_mib_is_one_message_and_stops_nothing(place: Place) -> None:
    records = [{"type": "user", "message": {"role": "user", "content": "x" * (17 << 20)}}]
    write_lines(place.root / IN_APP / f"{A}.jsonl", records, modified=AT)
    write_lines(place.root / IN_APP / f"{B}.jsonl", [{"type": "mode"}], modified=AT)
    before = datetime(2026, 11, 2, tzinfo=UTC)
    opts = DeleteOpts(before=before, max_messages=1)
    done = delete_sessions(place.root, place.cache, opts)
    assert deleted(done) == [A, B]
    assert done.matched[0].bytes > 17 << 20


def test_bystanders_of_every_kind_are_no_sessions_and_untouched(place: Place) -> None:
    unit = write_unit(place, A)
    add_bystanders(place.config)
    before = snapshot(place.config)
    delete_sessions(place.root, place.cache, DeleteOpts(max_messages=9_999))
    assert snapshot(place.config) == without(before, unit)


def test_what_fails_after_the_first_name_is_gone_does_not_take_the_second(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_session(place.root, IN_APP, A, at=AT)
    content = path.read_bytes()
    target = path.with_suffix(".lcdel")
    original = os.unlink

    def unlink(given: str) -> None:
        original(given)
        raise OSError(errno.EIO, "said too late")

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(OSError, match="said too late"):
        _disk.rename_new(str(path), str(target))
    assert target.read_bytes() == content


def test_by_a_link_to_the_root_sessions_are_whole_and_the_live_ones_left_alone(
    place: Place,
) -> None:
    unit = write_unit(place, A)
    write_unit(place, B)
    add_live(place.config, B, os.getpid())
    link = place.base / "by-another-name"
    link.symlink_to(place.root)
    done = delete_sessions(link, place.cache, ALL)
    assert deleted(done) == [A]
    assert "live" in reasons(done)[B]
    assert not any(path.exists() for path in unit)


REASONS = {
    "about what it says": (("/a/b", "/a/b"), "/a/b", "permission denied"),
    "about something else": (("/a/c",), "/a/b", "/a/c: permission denied"),
    "a target beside": (("/a/b", None, "/a/b.lcdel"), "/a/b", "permission denied"),
    "a target elsewhere": (("/a/b", None, "/c/b"), "/a/b", "/c/b: permission denied"),
    "nothing": ((), "/a/b", "permission denied"),
}


@pytest.mark.parametrize(("names", "about", "text"), REASONS.values(), ids=REASONS)
def test_a_reason_names_what_it_is_about(
    names: tuple[str | None, ...], about: str, text: str
) -> None:
    error = PermissionError(errno.EACCES, "Permission denied", *names[:1])
    error.filename2 = names[2] if len(names) > 2 else None
    assert why(error, about) == text
