"""What a user may not read or write: refused or left alone by name, and nothing is half done."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

# In the other user's process nothing more can be loaded: where Python lies may be hidden from it.
import injection  # noqa: F401
import lifecycle._json
import lifecycle.cli
from conftest import Place, Result, Tree, snapshot, without
from lifecycle import _staging, archive_session, load_tombstones, tombstone_ids
from sample import APP, add_companions, project_name, write_session

pytestmark = [
    pytest.mark.usefixtures("no_waiting"),
    pytest.mark.skipif(sys.platform == "win32", reason="no such permissions"),
]
NOBODY = 65534
A = "aaaaaaaa-0000-4000-8000-000000000001"
B = "bbbbbbbb-0000-4000-8000-000000000002"
C = "cccccccc-0000-4000-8000-000000000003"
AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
IN_APP = project_name(APP)
IN_WEB = "-home-me-web"
APP_DIRECTORY = f".claude/projects/{IN_APP}"


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """Where another user may come by as well."""
    in_memory.chmod(0o755)
    return in_memory


class Door:
    """Closes parts of a tree, and opens them again."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._modes: dict[Path, int] = {}

    def close(self, name: str, mode: int) -> None:
        path = self._base / name
        self._modes[path] = path.stat().st_mode & 0o7777
        path.chmod(mode)

    def open(self) -> None:
        """All that is still there has the mode that it had."""
        for path, mode in self._modes.items():
            if path.exists():
                path.chmod(mode)
        self._modes.clear()


@pytest.fixture
def door(place: Place, tmp_path: Path) -> Iterator[Door]:
    """A door that stands open in the end; who is not root could not clean up otherwise."""
    made = Door(place.base)
    yield made
    made.open()
    for directory, _, _ in os.walk(tmp_path):
        os.chmod(directory, 0o700)


@pytest.fixture
def units(place: Place) -> dict[str, list[Path]]:
    """A and B in one project, C in another, each with all companions; A's copy is archived."""
    found = {}
    for session_id, project in ((A, IN_APP), (B, IN_APP), (C, IN_WEB)):
        path = write_session(place.root, project, session_id, at=AT)
        found[session_id] = [path, *add_companions(place.config, project, session_id)]
    return found


def run_as_other(place: Place, *arguments: str, not_theirs: Sequence[Path] = ()) -> Result:
    """Runs the command as somebody to whom permissions apply; the rest of the tree is theirs."""
    out, err = place.base.parent / "out", place.base.parent / "err"
    for file in (out, err):
        file.write_bytes(b"")
        file.chmod(0o666)
    if os.geteuid() == 0:
        for path in [place.base, *place.base.rglob("*")]:
            os.lchown(path, *((0, 0) if path in not_theirs else (NOBODY, NOBODY)))
    child = os.fork()
    if not child:
        status = 70
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            for number, file in ((1, out), (2, err)):
                os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
            sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115
            status = lifecycle.cli.main(list(arguments))
            sys.stderr.flush()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Result(status, out.read_text(), err.read_text())


DELETE = ("delete", "--project", "-home-me", "-y")
ARCHIVE = ("archive", "--project", "-home-me", "-y")
REFUSED = {
    "root not to be read": (".claude/projects", 0o300, DELETE, "projects"),
    "root not to be entered": (".claude/projects", 0o600, DELETE, "projects"),
    "root not to be written": (".claude/projects", 0o500, DELETE, "projects"),
    "project not to be written": (APP_DIRECTORY, 0o500, ("delete", A, "-y"), A),
    "transcript not to be read": (f"{APP_DIRECTORY}/{A}.jsonl", 0, ("delete", A, "-y"), A),
    "project that hides its entries": (APP_DIRECTORY, 0o400, ("delete", A, "-y"), A),
    "archive from where nothing may leave": (".claude/debug", 0o500, ("archive", A), "debug"),
    "restore from where nothing may leave": (
        *(f".claude/archive/{C}/debug", 0o500, ("restore", C)),
        "debug",
    ),
    "session directory not to be read": (f"{APP_DIRECTORY}/{A}", 0, ("delete", A, "-y"), A),
    "store not to be read": (".claude/file-history", 0o300, ("delete", A, "-y"), "file-history"),
    "cache not to be written": (".cache/session-search", 0o500, DELETE, "session-search"),
    "cache not to be entered": (".cache/session-search", 0o600, DELETE, "session-search"),
    "tombstones not to be read": (".cache/session-search/.deleted", 0o200, DELETE, ".deleted"),
    "tombstones not to be written": (".cache/session-search/.deleted", 0o400, DELETE, ".deleted"),
    "archive not to be written": (".claude/archive", 0o500, ("archive", A), "archive"),
    "archive not to be entered": (".claude/archive", 0o600, ("archive", A), "archive"),
    "archive by filter, not to be written": (".claude/archive", 0o500, ARCHIVE, "archive"),
    "restore from where nothing may go": (".claude/archive", 0o500, ("restore", C), "archive"),
    "restore to where nothing may come": (
        *(f".claude/projects/{IN_WEB}", 0o500, ("restore", C)),
        IN_WEB,
    ),
    "restore beside tombstones not to be read": (
        *(".cache/session-search/.deleted", 0o200, ("restore", C)),
        ".deleted",
    ),
    "tombstones not to be listed": (
        ".cache/session-search/.deleted",
        0,
        ("tombstones",),
        "deleted",
    ),
    "transcript not to be judged": (f"{APP_DIRECTORY}/{A}.jsonl", 0, ("floor", A), A),
}


@pytest.mark.parametrize(("name", "mode", "words", "named"), REFUSED.values(), ids=REFUSED)
def test_where_permission_is_missing_nothing_changes_and_it_is_named(
    place: Place,
    units: dict[str, list[Path]],
    door: Door,
    name: str,
    mode: int,
    words: tuple[str, ...],
    named: str,
) -> None:
    archive_session(C)
    place.cache.mkdir(parents=True)
    if (name, mode) != (".cache/session-search", 0o500):
        place.tombstones.write_text("gone-long-ago\n")
    before = snapshot(place.base)
    door.close(name, mode)
    result = run_as_other(place, *words)
    door.open()
    assert snapshot(place.base) == before
    assert result.status == 1
    assert named in result.err
    assert "Traceback" not in result.err
    assert "ermission denied" in result.err


def delete_rest(place: Place, *, status: int = 0) -> Result:
    result = run_as_other(place, *DELETE)
    assert (result.status, "Traceback" in result.err) == (status, False), result
    return result


def test_a_transcript_that_cannot_be_read_is_left_alone_and_the_others_go(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    before = snapshot(place.base)
    door.close(f"{APP_DIRECTORY}/{A}.jsonl", 0)
    result = delete_rest(place)
    door.open()
    assert f"{A}.jsonl: permission denied" in result.out
    gone = [path for session_id in (B, C) for path in units[session_id]]
    assert snapshot(place.root, place.config / "todos") == without(
        snapshot_of(before, place.root, place.config / "todos"), gone
    )
    assert load_tombstones() == {B, C}


def snapshot_of(tree: Tree, *roots: Path) -> Tree:
    """The part of a tree that lies at and below the roots."""
    return {
        name: entry
        for name, entry in tree.items()
        if any(Path(name).is_relative_to(root) for root in roots)
    }


def test_a_project_that_cannot_be_listed_but_asked_hides_no_copy(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    before = snapshot(place.config)
    door.close(f".claude/projects/{IN_WEB}", 0o300)
    result = delete_rest(place)
    door.open()
    assert f"{IN_WEB}: permission denied" in result.out
    assert snapshot(place.config) == without(before, units[A] + units[B])
    assert load_tombstones() == {A, B}


def test_what_a_hidden_project_may_own_as_well_is_left_alone(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    lone = write_session(place.root, IN_APP, "dddddddd-with-no-store", at=AT)
    before = snapshot(place.config)
    door.close(f".claude/projects/{IN_WEB}", 0)
    result = delete_rest(place)
    door.open()
    assert result.out.count("may hold the same session") == 2
    assert f"{IN_WEB}: permission denied" in result.out
    assert snapshot(place.config) == without(before, [lone])
    assert load_tombstones() == {lone.stem}


def test_what_is_staged_stays_so_while_a_hidden_project_may_own_a_part(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    # What a delete leaves that was killed when it had just written its tombstone.
    _staging.open_journal(str(place.root), place.tombstones)
    units[A][0].rename(units[A][0].with_suffix(".lcdel"))
    tombstone_ids(place.cache, [A])
    door.close(f".claude/projects/{IN_WEB}", 0)
    result = run_as_other(place, "delete", B, "-y")
    assert result.status == 1
    assert list(place.root.rglob("*.lcdel"))
    door.open()
    delete_rest(place)
    assert [str(path) for path in place.base.rglob("*") if A in path.name] == []


def test_a_session_directory_that_cannot_be_emptied_is_finished_once_it_can(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    door.close(f"{APP_DIRECTORY}/{A}", 0o500)
    result = delete_rest(place, status=3)
    assert "not all of it is removed" in result.err
    assert load_tombstones() == {A, B, C}
    assert not (place.root / IN_APP / f"{A}.jsonl").exists()
    door.open()
    result = delete_rest(place)
    assert "1 session removed" in result.err
    left = [str(path) for path in place.base.rglob("*") if A in path.name]
    assert left == []


def test_one_session_that_is_tombstoned_and_not_all_gone_is_partly_done(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    door.close(f"{APP_DIRECTORY}/{A}", 0o500)
    assert run_as_other(place, "delete", A, "-y").status == 3


def test_an_archive_with_a_directory_that_is_none_of_ours_can_be_used(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    archive_session(C)
    (place.archive / "lost+found").mkdir()
    door.close(".claude/archive/lost+found", 0)
    assert C[:8] in run_as_other(place, "list", "--archived").out
    assert run_as_other(place, "archive", A).status == 0
    assert run_as_other(place, "restore", C).status == 0


def test_what_the_archive_hides_is_not_taken_for_nothing(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    archive_session(C)
    notes = place.archive / C / "notes"
    notes.mkdir()
    (notes / "mine").write_text("x")
    door.close(f".claude/archive/{C}/notes", 0)
    result = run_as_other(place, "restore", C)
    assert (result.status, "holds more, which was left" in result.out) == (0, True)
    door.open()
    assert run_as_other(place, "archive", A).status == 0
    assert (notes / "mine").read_text() == "x"


@pytest.mark.parametrize("words", [("archive", A), ("restore", C)], ids=["archive", "restore"])
def test_nothing_that_a_hidden_project_may_hold_as_well_is_moved(
    place: Place, units: dict[str, list[Path]], door: Door, words: tuple[str, ...]
) -> None:
    archive_session(C)
    hidden = write_session(place.root, "-home-me-z", B, at=AT).parent
    door.close(f".claude/projects/{hidden.name}", 0)
    before = snapshot(place.config)
    result = run_as_other(place, *words)
    assert (result.status, f"{hidden.name} cannot be read" in result.err) == (1, True), result
    assert snapshot(place.config) == before


@pytest.mark.parametrize("words", [("archive", A), ("archive", "--project", IN_APP, "-y")])
def test_what_cannot_be_taken_apart_is_not_copied_to_another_file_system(
    place: Place,
    units: dict[str, list[Path]],
    door: Door,
    tmp_path_factory: pytest.TempPathFactory,
    words: tuple[str, ...],
) -> None:
    archive = tmp_path_factory.mktemp("archive")
    if archive.stat().st_dev == place.root.stat().st_dev:
        pytest.skip("no second file system is mounted at /dev/shm")
    for directory in (archive, *archive.parents[:2]):
        directory.chmod(0o777)
    closed = units[A][0].with_suffix("") / "tool-results"
    closed.mkdir(exist_ok=True)
    (closed / "x").write_text("x")
    door.close(str(closed.relative_to(place.base)), 0o500)
    before = snapshot_of(snapshot(place.config), *units[A])
    result = run_as_other(place, *words, "--archive-dir", str(archive))
    assert (result.status, str(closed) in result.err) == (1 if A in words else 3, True), result
    assert snapshot_of(snapshot(place.config), *units[A]) == before
    assert [path.name for path in archive.rglob("*") if A in path.name] == []


def test_tombstones_that_may_not_be_written_stop_no_restore_of_an_id_that_has_none(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    archive_session(C)
    tombstone_ids(place.cache, [A])
    door.close(".cache/session-search/.deleted", 0o400)
    door.close(".cache/session-search", 0o500)
    assert run_as_other(place, "restore", C).status == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="takes files of two users")
@pytest.mark.parametrize("words", [("delete", A, "-y"), ("archive", A)], ids=["delete", "archive"])
def test_what_is_another_s_stays_whole_in_a_directory_that_all_may_write_to(
    place: Place, units: dict[str, list[Path]], words: tuple[str, ...]
) -> None:
    shared, transcript = place.root / IN_APP, units[A][0]
    shared.chmod(0o1777)
    transcript.chmod(0o666)
    place.archive.mkdir()
    place.cache.mkdir(parents=True)
    before = snapshot(place.base)
    result = run_as_other(place, *words, not_theirs=[shared, transcript])
    assert (result.status, "permission denied" in result.err) == (1, True)
    assert snapshot(place.base) == before


def test_where_its_tombstone_could_not_be_taken_out_a_session_is_not_restored(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    archive_session(C)
    tombstone_ids(place.cache, [C])
    before = snapshot(place.base)
    door.close(".cache/session-search", 0o500)
    result = run_as_other(place, "restore", C)
    door.open()
    assert (result.status, "session-search" in result.err) == (1, True)
    assert snapshot(place.base) == before


def test_a_list_shows_what_can_be_read_and_names_the_rest(
    place: Place, units: dict[str, list[Path]], door: Door
) -> None:
    before = snapshot(place.base)
    door.close(f"{APP_DIRECTORY}/{A}.jsonl", 0)
    door.close(f".claude/projects/{IN_WEB}", 0o300)
    result = run_as_other(place, "list")
    door.open()
    assert (result.status, result.err) == (0, "")
    assert result.out.count("permission denied") == 2
    assert "total: 1 session" in result.out
    assert snapshot(place.base) == before


@pytest.mark.parametrize("words", [ARCHIVE, ("archive", A, B, C)], ids=["by filter", "by id"])
def test_an_archive_moves_what_it_can_and_leaves_the_rest_whole(
    place: Place,
    units: dict[str, list[Path]],
    door: Door,
    words: tuple[str, ...],
) -> None:
    before = snapshot(place.config)
    door.close(f"{APP_DIRECTORY}/{A}/subagents", 0o500)
    door.close(f".claude/projects/{IN_WEB}", 0o500)
    result = run_as_other(place, *words)
    door.open()
    assert (result.status, "Traceback" in result.err) == (3, False), result
    gone = [path for session_id in (A, B) for path in units[session_id]]
    after = without(snapshot(place.config), [place.archive])
    assert after == without(before, gone)
    assert sorted(path.stem for path in place.archive.glob("*.jsonl")) == [A, B]
