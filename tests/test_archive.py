"""Archive and restore move whole sessions, give them back exactly and never overwrite."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Place, Run, snapshot, without
from lifecycle import (
    AmbiguousSessionError,
    ArchiveConflictError,
    DeleteOpts,
    LiveSessionError,
    NoFilterError,
    RestoreResult,
    SessionNotFoundError,
    TombstoneFileError,
    _move,
    archive,
    archive_session,
    load_tombstones,
    plan_delete,
    restore_session,
    tombstone_ids,
)
from lifecycle.archive import archived_sessions, execute_archive, fitting, plan_archive
from sample import (
    APP,
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
B = "bbbbbbbb-0000-4000-8000-000000000002"
C = "cccccccc-0000-4000-8000-000000000003"
# Well inside every retention period, so that times stay as they are.
AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
DAY = timedelta(days=1)
IN_APP = project_name(APP)
IN_WEB = "-home-me-web"
ALL = DeleteOpts(project="-home-me")


pytestmark = pytest.mark.usefixtures("no_waiting")


def write_unit(place: Place, session_id: str, project: str = IN_APP) -> list[Path]:
    """A session with every kind of companion; the transcript comes first."""
    path = write_session(place.root, project, session_id, at=AT)
    return [path, *add_companions(place.config, project, session_id)]


def archived_path(place: Place, path: Path) -> Path:
    """Where something of the unit of A lies in the archive."""
    if path == place.root / IN_APP / f"{A}.jsonl":
        return place.archive / path.name
    return place.archive / A / path.relative_to(place.config)


def put(source: Path, target: Path) -> None:
    """Moves something by hand, with the directories that it needs."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source.rename(target)


def copy(source: Path, target: Path) -> None:
    """Copies something as a move between two file systems does: with modes and times."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


# There and back


@pytest.fixture(params=["same file system", "other file system"])
def kept(request: pytest.FixtureRequest, place: Place) -> Path:
    """An archive directory beside the config directory, or in memory."""
    if request.param == "same file system":
        return place.base / "kept"
    memory: Path = request.getfixturevalue("in_memory")
    if memory.stat().st_dev == place.base.stat().st_dev:
        pytest.skip("no second file system is mounted at /dev/shm")
    return memory


def add_odd_entries(directory: Path) -> None:
    """What a session directory may hold and a careless copy does not keep."""
    deep = directory.joinpath("subagents", *["deeper"] * 40)
    deep.mkdir(parents=True)
    (deep / "agent-1.jsonl").write_bytes(os.urandom(3 << 20))
    for name, mode in (("locked", 0o400), ("read", 0o444), ("run", 0o755), ("shut", 0o640)):
        (directory / name).write_text(name)
        (directory / name).chmod(mode)
    for name, mode in (("empty", 0o700), ("shared", 0o2775), ("closed", 0o500)):
        (directory / name).mkdir()
        (directory / name).chmod(mode)
    (directory / "relative").symlink_to("read")
    (directory / "dangling").symlink_to("/nowhere/at/all")
    (directory / "parent").symlink_to("..")
    (directory / "new\nline").touch()
    os.link(directory / "read", directory / "shared" / "read again")
    for number, path in enumerate([directory, *sorted(directory.rglob("*"))]):
        moment = int(AT.timestamp()) * 1_000_000_000 + number * 1_000_007
        os.utime(path, ns=(moment, moment), follow_symlinks=False)


def test_there_and_back_gives_the_same_tree_again(place: Place, kept: Path) -> None:
    unit = write_unit(place, A)
    add_odd_entries(place.root / IN_APP / A)
    unit[0].chmod(0o640)
    write_unit(place, B)
    add_bystanders(place.config)
    before = snapshot(place.config), snapshot(*unit, directory_times=True)
    archive_session(A, kept, projects_root=place.root)
    assert not [path for path in unit if os.path.lexists(path)]
    result = restore_session(A, kept, projects_root=place.root)
    assert result == RestoreResult(unit[0], times_reset=False, tombstone_removed=False)
    assert (snapshot(place.config), snapshot(*unit, directory_times=True)) == before
    assert list(kept.iterdir()) == []


@pytest.mark.usefixtures("place")
def test_hard_links_are_still_one_file_and_links_still_links(place: Place, kept: Path) -> None:
    write_unit(place, A)
    add_odd_entries(place.root / IN_APP / A)
    for function in (archive_session, restore_session):
        function(A, kept, projects_root=place.root)
    first, second = sorted((place.config / "file-history" / A).iterdir())
    assert first.samefile(second)
    session = place.root / IN_APP / A
    assert (session / "read").samefile(session / "shared" / "read again")
    assert os.readlink(session / "dangling") == "/nowhere/at/all"


def test_the_archive_mirrors_the_config_directory(place: Place) -> None:
    unit = write_unit(place, A)
    write_unit(place, B)
    before = snapshot(place.config)
    parts = snapshot(*unit)
    assert archive_session(A) == place.archive / f"{A}.jsonl"
    expected = {str(archived_path(place, Path(name))): entry for name, entry in parts.items()}
    after = snapshot(place.archive)
    assert {name: after.get(name) for name in expected} == expected
    made = {name: entry for name, entry in after.items() if name not in expected}
    assert set(made.values()) == {("directory", 0o700, 0, b"")}
    assert without(snapshot(place.config), [place.archive]) == without(before, unit)


def test_the_origin_directory_is_there_for_a_session_without_companions(place: Place) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    archive_session(A)
    names = [str(path.relative_to(place.archive)) for path in sorted(place.archive.rglob("*"))]
    assert names == [A, f"{A}/projects", f"{A}/projects/{IN_APP}", f"{A}.jsonl"]


@pytest.mark.parametrize("length", [249, 248])
def test_the_longest_ids_go_there_and_back(place: Place, kept: Path, length: int) -> None:
    session_id = "x" * length
    write_session(place.root, IN_APP, session_id, at=AT)
    (place.root / IN_APP / session_id / "tool-results").mkdir(parents=True)
    before = snapshot(place.config)
    for function in (archive_session, restore_session):
        function(session_id, kept, projects_root=place.root)
    assert snapshot(place.config) == before
    assert list(kept.iterdir()) == []


def test_a_project_that_is_gone_is_made_again(place: Place) -> None:
    write_unit(place, A)
    before = snapshot(place.config)
    archive_session(A)
    (place.root / IN_APP).rmdir()
    restore_session(A)
    assert without(snapshot(place.config), [place.archive]) == before


def test_under_a_root_of_another_name_the_stores_take_no_part(place: Place) -> None:
    unit = write_unit(place, A)
    root = place.root.rename(place.config / "transcripts")
    before = snapshot(place.config)
    archive_session(A, projects_root=root)
    inside = [root / path.relative_to(place.root) for path in unit if IN_APP in path.parts]
    assert without(snapshot(place.config), [place.archive]) == without(before, inside)
    restore_session(A, projects_root=root)
    assert without(snapshot(place.config), [place.archive]) == before


def test_what_has_no_place_under_a_root_of_another_name_is_refused(place: Place) -> None:
    write_unit(place, A)
    archive_session(A)
    root = place.base / "transcripts"
    root.mkdir()
    before = place.everything()
    with pytest.raises(ValueError, match="projects"):
        restore_session(A, projects_root=root)
    assert place.everything() == before


# Which session


GIVEN: dict[str, Callable[[Place], str | Path]] = {
    "id": lambda place: A,
    "prefix": lambda place: A[:8],
    "path that it had": lambda place: place.root / IN_APP / f"{A}.jsonl",
    "path that it has": lambda place: str(place.archive / f"{A}.jsonl"),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_an_archived_session_is_archived_again_without_a_change(
    place: Place, given: Callable[[Place], str | Path]
) -> None:
    write_unit(place, A)
    write_unit(place, B)
    archive_session(A)
    before = place.everything()
    assert archive_session(given(place)) == place.archive / f"{A}.jsonl"
    assert place.everything() == before


@pytest.mark.parametrize("with_root", [True, False], ids=["root given", "root implied"])
def test_a_path_says_which_session_is_meant(place: Place, with_root: bool) -> None:
    other = place.base / "backup" / "projects"
    path = write_session(other, IN_APP, A, at=AT)
    assert archive_session(path, projects_root=other if with_root else None).exists()
    assert not path.exists()


@pytest.mark.parametrize(
    "given", ["unknown!", A[:7], "", f"/nowhere/{A}.txt", f"/nowhere/{A}.jsonl", f"{B}.jsonl"]
)
@pytest.mark.parametrize("function", [archive_session, restore_session])
def test_an_unknown_session_is_an_error_and_nothing_changes(
    place: Place, function: Callable[[str], object], given: str
) -> None:
    write_unit(place, A)
    write_unit(place, C)
    archive_session(C)
    before = place.everything()
    with pytest.raises(SessionNotFoundError):
        function(given)
    assert place.everything() == before


def test_a_prefix_of_a_session_in_place_and_an_archived_one_is_ambiguous(place: Place) -> None:
    near = A[:-1] + "2"
    paths = [write_session(place.root, IN_APP, session_id, at=AT) for session_id in (A, near)]
    paths[0] = archive_session(A)
    before = place.everything()
    with pytest.raises(AmbiguousSessionError) as caught:
        archive_session(A[:8])
    assert caught.value.paths == tuple(sorted(paths))
    assert place.everything() == before


def test_a_prefix_of_several_archived_sessions_is_not_restored(place: Place) -> None:
    paths = []
    for session_id in (A, A[:-1] + "2"):
        write_session(place.root, IN_APP, session_id, at=AT)
        paths.append(archive_session(session_id))
    before = place.everything()
    with pytest.raises(AmbiguousSessionError) as caught:
        restore_session(A[:8])
    assert caught.value.paths == tuple(paths)
    assert place.everything() == before


@pytest.mark.parametrize("given", ["id", "path that it had"])
def test_an_id_in_two_projects_is_ambiguous_and_stays_in_both(place: Place, given: str) -> None:
    paths = [write_unit(place, A, project)[0] for project in (IN_APP, IN_WEB)]
    before = place.everything()
    with pytest.raises(AmbiguousSessionError) as caught:
        archive_session(GIVEN[given](place))
    assert caught.value.paths == tuple(paths)
    assert place.everything() == before


def deny_listing(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """The directory cannot be listed, by whomever."""
    original = os.scandir

    def scandir(path: str) -> Any:
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_another_project_that_cannot_be_read_does_not_matter(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = write_unit(place, A)
    closed = write_session(place.root, IN_WEB, B, at=AT).parent

    deny_listing(monkeypatch, closed)
    archive_session(A)
    assert not [path for path in unit if path.exists()]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_only_looks_like_a_transcript_is_not_archived(
    place: Place, make: Callable[[Path], None]
) -> None:
    path = place.root / IN_APP / f"{A}.jsonl"
    path.parent.mkdir()
    make(path)
    before = place.everything()
    for given in (A, path):
        with pytest.raises(SessionNotFoundError):
            archive_session(given)
    assert place.everything() == before


# Refused


def link_into_root(place: Place) -> Path:
    link = place.base / "link"
    link.symlink_to(place.root)
    return link / "archive"


def make_file(place: Place) -> Path:
    (place.base / "file").touch()
    return place.base / "file"


UNUSABLE: dict[str, tuple[Callable[[Place], Path], type[Exception]]] = {
    "inside the root": (lambda place: place.root / "archive", ValueError),
    "in a project": (lambda place: place.root / IN_APP / "archive", ValueError),
    "the root": (lambda place: place.root, ValueError),
    "around the root": (lambda place: place.config, ValueError),
    "by a link inside": (link_into_root, ValueError),
    "a file": (make_file, OSError),
    "below a file": (lambda place: make_file(place) / "archive", OSError),
}
ACTIONS: dict[str, Callable[[Place, Path], object]] = {
    "archive": lambda place, path: archive_session(A, path),
    "archive by filters": lambda place, path: execute_archive(plan_archive(None, path, ALL)),
    "restore": lambda place, path: restore_session(A, path),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize(("where", "error"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_archive_directory_that_cannot_be_one_is_refused(
    place: Place,
    where: Callable[[Place], Path],
    error: type[Exception],
    action: Callable[[Place, Path], object],
) -> None:
    write_unit(place, A)
    path = where(place)
    before = place.everything()
    with pytest.raises(error):
        action(place, path)
    assert place.everything() == before


@pytest.mark.parametrize("project", [IN_APP, IN_WEB], ids=["same project", "other project"])
def test_an_id_archived_with_other_bytes_is_not_overwritten(place: Place, project: str) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    target = archive_session(A)
    path = write_session(place.root, project, A, at=AT, prompts=["Go on"])
    before = snapshot(place.base)
    with pytest.raises(ArchiveConflictError) as caught:
        archive_session(A)
    assert (caught.value.source, caught.value.target) == (path, target)
    assert all(str(one) in str(caught.value) for one in (path, target))
    assert snapshot(place.base) == before


def test_a_companion_archived_with_other_bytes_is_not_overwritten(place: Place) -> None:
    write_unit(place, A)
    task = place.archive / A / "tasks" / A / "1.json"
    task.parent.mkdir(parents=True)
    task.write_text("{}")
    before = snapshot(place.base)
    with pytest.raises(ArchiveConflictError) as caught:
        archive_session(A)
    assert (caught.value.source, caught.value.target) == (
        place.config / "tasks" / A,
        task.parent,
    )
    assert snapshot(place.base) == before


def hold_other(place: Place) -> Path:
    return write_session(place.root, IN_APP, A, at=AT, prompts=["Go on"])


def hold_same(place: Place) -> Path:
    copy(place.archive / f"{A}.jsonl", place.root / IN_WEB / f"{A}.jsonl")
    return place.root / IN_WEB / f"{A}.jsonl"


def make_session_directory(place: Place) -> Path:
    (place.root / IN_APP / A).mkdir()
    return place.root / IN_APP / A


def make_store_directory(place: Place) -> Path:
    (place.config / "file-history" / A).mkdir()
    (place.config / "file-history" / A / "new@v1").touch()
    return place.config / "file-history" / A


def make_sidecar(place: Place) -> Path:
    path = place.root / IN_APP / f"{A}.ccr-tip.json"
    path.write_text("{}")
    return path


def link_sidecar(place: Place) -> Path:
    path = place.root / IN_APP / f"{A}.ccr-tip.json"
    path.symlink_to("nowhere")
    return path


IN_THE_WAY = {
    "held with other bytes": hold_other,
    "held by another project": hold_same,
    "empty session directory": make_session_directory,
    "store directory": make_store_directory,
    "sidecar": make_sidecar,
    "dangling link": link_sidecar,
}


@pytest.mark.parametrize("make", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_a_restore_onto_anything_that_exists_is_refused(
    place: Place, make: Callable[[Place], Path]
) -> None:
    write_unit(place, A)
    archive_session(A)
    target = make(place)
    before = place.everything()
    with pytest.raises(ArchiveConflictError) as caught:
        restore_session(A)
    assert caught.value.target == target
    assert caught.value.source.exists()
    assert all(str(one) in str(caught.value) for one in (target, caught.value.source))
    assert place.everything() == before


def test_a_live_session_is_not_archived_unless_asked_for(place: Place) -> None:
    unit = write_unit(place, A)
    add_live(place.config, A, os.getpid())
    before = place.everything()
    with pytest.raises(LiveSessionError, match=A):
        archive_session(A)
    assert place.everything() == before
    archive_session(A, include_live=True)
    assert not [path for path in unit if path.exists()]


def test_nothing_is_restored_over_a_live_session(place: Place) -> None:
    write_unit(place, A)
    archive_session(A)
    add_live(place.config, A, os.getpid())
    before = place.everything()
    with pytest.raises(LiveSessionError, match=A):
        restore_session(A)
    assert place.everything() == before


# What comes back as new


SETTINGS: dict[str, tuple[bytes | None, int]] = {
    "absent": (None, 30),
    "valid": (b'{"cleanupPeriodDays": 7}', 7),
    "longer": (b'{"cleanupPeriodDays": 365, "model": "x"}', 365),
    "one day more than the margin": (b'{"cleanupPeriodDays": 2}', 2),
    "no such key": (b'{"model": "x"}', 30),
    "empty": (b"", 30),
    "broken": (b'{"cleanupPeriodDays": 7', 30),
    "no object": (b"[7]", 30),
    "no UTF-8": (b'{"cleanupPeriodDays": 7, "x": "\xff"}', 30),
    "zero": (b'{"cleanupPeriodDays": 0}', 30),
    "negative": (b'{"cleanupPeriodDays": -1}', 30),
    "true": (b'{"cleanupPeriodDays": true}', 30),
    "text": (b'{"cleanupPeriodDays": "7"}', 30),
    "null": (b'{"cleanupPeriodDays": null}', 30),
    "trillion": (b'{"cleanupPeriodDays": 1e12}', 30),
    "endless": (b'{"cleanupPeriodDays": 1' + b"0" * 400 + b"}", 30),
    "NaN": (b'{"cleanupPeriodDays": NaN}', 30),
    "infinite": (b'{"cleanupPeriodDays": Infinity}', 30),
}


@pytest.mark.parametrize("is_old", [True, False], ids=["older", "younger"])
@pytest.mark.parametrize(("settings", "period"), SETTINGS.values(), ids=SETTINGS)
def test_a_session_older_than_the_period_less_a_day_is_dated_now(
    place: Place, settings: bytes | None, period: int, is_old: bool
) -> None:
    if settings is not None:
        (place.config / "settings.json").write_bytes(settings)
    age = (period - 1) * DAY + timedelta(minutes=5 if is_old else -5)
    path = write_session(place.root, IN_APP, A, at=AT)
    set_modified(path, datetime.now(UTC) - age)
    modified = path.stat().st_mtime_ns
    archive_session(A)
    start = time.time_ns()
    assert restore_session(A).times_reset == is_old
    if is_old:
        assert start - 10**9 <= path.stat().st_mtime_ns <= time.time_ns() + 10**9
    else:
        assert path.stat().st_mtime_ns == modified


def test_what_the_sweep_judges_gets_the_new_time_and_the_rest_keeps_its_own(
    place: Place,
) -> None:
    unit = write_unit(place, A)
    old = AT - 60 * DAY
    for path in (inner for top in unit for inner in [top, *top.rglob("*")]):
        set_modified(path, old)
    before = snapshot(*unit, directory_times=True)
    archive_session(A)
    restore_session(A)
    after = snapshot(*unit, directory_times=True)
    changed = {name for name, entry in after.items() if entry != before[name]}
    stores = {place.config / name / A for name in ("file-history", "session-env", "tasks")}
    results = place.root / IN_APP / A / "tool-results" / "toolu_0001.txt"
    judged = {unit[0], results, place.config / "uploads" / A, *stores}
    assert changed == set(map(str, judged))
    assert len({after[name][2] for name in changed}) == 1


def test_an_old_directory_of_a_young_session_is_dated_now_alone(place: Place) -> None:
    unit = write_unit(place, A)
    history = place.config / "file-history" / A
    set_modified(history, AT - 60 * DAY)
    before = snapshot(*unit, directory_times=True)
    archive_session(A)
    assert restore_session(A).times_reset
    after = snapshot(*unit, directory_times=True)
    assert [name for name in after if after[name] != before[name]] == [str(history)]


def test_the_tombstone_of_a_restored_session_goes_and_the_others_stay(place: Place) -> None:
    write_unit(place, A)
    archive_session(A)
    tombstone_ids(place.cache, [B, A, C])
    assert restore_session(A).tombstone_removed
    assert place.tombstones.read_text() == f"{B}\n{C}\n"


@pytest.mark.parametrize("cache", ["given", "default"])
def test_the_tombstone_file_is_that_of_the_cache_directory(place: Place, cache: str) -> None:
    write_unit(place, A)
    archive_session(A)
    other = place.base / "other"
    tombstone_ids(other, [A])
    result = restore_session(A, cache_dir=other if cache == "given" else None)
    assert result.tombstone_removed == (cache == "given")
    assert load_tombstones(other) == (frozenset() if cache == "given" else {A})


def make_directory(path: Path) -> None:
    path.mkdir(parents=True)


def make_rubbish(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe\0rubbish")


@pytest.mark.parametrize(
    ("make", "error"),
    [(make_directory, OSError), (make_rubbish, TombstoneFileError)],
    ids=["directory", "rubbish"],
)
def test_where_the_tombstones_cannot_be_read_nothing_is_restored(
    place: Place, make: Callable[[Path], None], error: type[Exception]
) -> None:
    write_unit(place, A)
    archive_session(A)
    make(place.tombstones)
    before = place.everything()
    with pytest.raises(error):
        restore_session(A)
    assert place.everything() == before


# What another tool archived


def add_foreign(place: Place, cwd: str | None = APP) -> Path:
    """A transcript in the archive and nothing that tells where it came from."""
    path = place.archive / f"{A}.jsonl"
    if cwd is not None:
        return write_lines(path, [{"type": "mode"}, user("Go on", A, AT, cwd=cwd)], modified=AT)
    return write_lines(path, [{"type": "summary", "summary": "Go on"}], modified=AT)


@pytest.mark.parametrize(
    ("project", "cwd", "expected"),
    [
        (IN_WEB, APP, IN_WEB),
        ("-", None, "-"),
        ("/home/me/my web", None, "-home-me-my-web"),
        (None, APP, IN_APP),
        ("", "/home/me/🚀", "-home-me---"),
        (None, "/" + "x" * 199, "-" + "x" * 199),
    ],
    ids=["named", "short name", "directory", "recorded", "recorded, empty name", "200 characters"],
)
def test_a_foreign_transcript_goes_where_it_is_told_or_where_it_began(
    place: Place, project: str | None, cwd: str | None, expected: str
) -> None:
    entry = snapshot(add_foreign(place, cwd)).popitem()[1]
    result = restore_session(A, project=project)
    assert result.path == place.root / expected / f"{A}.jsonl"
    assert snapshot(result.path).popitem()[1] == entry
    assert list(place.archive.iterdir()) == []


@pytest.mark.parametrize(
    ("project", "cwd"),
    [
        (None, None),
        (None, "app"),
        (None, "/" + "x" * 200),
        ("..", APP),
        (".", APP),
        ("../elsewhere", APP),
        ("a/b", APP),
        ("a\0b", APP),
    ],
    ids=["nothing", "relative", "too long", "parent", "here", "outside", "below", "NUL"],
)
def test_a_foreign_transcript_with_no_clear_place_is_refused(
    place: Place, project: str | None, cwd: str | None
) -> None:
    add_foreign(place, cwd)
    before = place.everything()
    with pytest.raises(ValueError, match="project"):
        restore_session(A, project=project)
    assert place.everything() == before


def test_another_project_than_the_recorded_origin_is_refused(place: Place) -> None:
    write_unit(place, A)
    archive_session(A)
    before = place.everything()
    with pytest.raises(ValueError, match=IN_APP):
        restore_session(A, project=IN_WEB)
    assert place.everything() == before


def test_what_the_table_does_not_know_stays_in_the_archive_and_is_named(place: Place) -> None:
    write_unit(place, A)
    before = snapshot(place.config)
    archive_session(A)
    extra = [place.archive / A / name for name in ("note.txt", "plans/x.md", "tasks/other/1.json")]
    for path in extra:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("unknown")
    result = restore_session(A)
    assert result.left == place.archive / A
    assert without(snapshot(place.config), [place.archive]) == before
    assert sorted(path for path in place.archive.rglob("*") if path.is_file()) == sorted(extra)


# Interrupted runs

State = tuple[str, str, str]
STATES: dict[str, State] = {
    # Where the transcript is, where the first half of the companions, where the second.
    "archive: transcript linked": ("linked", "here", "here"),
    "archive: half of the companions placed": ("linked", "there", "here"),
    "archive: all placed": ("linked", "there", "there"),
    "archive: copied": ("both", "both", "both"),
    "archive: copied in part": ("here", "both", "here"),
    "archive: copied, transcript gone": ("there", "both", "both"),
    "archive: copied, half gone": ("there", "there", "both"),
    "restore: half of the companions placed": ("linked", "here", "there"),
    "restore: copied, transcript gone": ("here", "both", "both"),
    "restore: copied, half gone": ("here", "here", "both"),
    "older run: transcript moved": ("there", "here", "here"),
    "older run: transcript back": ("here", "there", "there"),
}


def bring(place: Place, path: Path, where: str) -> None:
    """Leaves something of the unit of A in place, in the archive, or in both."""
    target = archived_path(place, path)
    if where == "there":
        put(path, target)
    elif where == "linked":
        target.parent.mkdir(exist_ok=True)
        target.hardlink_to(path)
    elif where == "both":
        copy(path, target)


def interrupt(place: Place, unit: list[Path], state: State) -> None:
    """Leaves what a run that was killed leaves."""
    (place.archive / A / "projects" / IN_APP).mkdir(parents=True)
    half = len(unit) // 2
    for path, where in zip(unit, [state[0]] + [state[1]] * half + [state[2]] * half, strict=False):
        bring(place, path, where)


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_an_archive_finishes_what_was_interrupted(place: Place, state: State) -> None:
    unit = write_unit(place, A)
    write_unit(place, B)
    parts = snapshot(*unit)
    before = without(snapshot(place.config), unit)
    interrupt(place, unit, state)
    archive_session(A)
    expected = {str(archived_path(place, Path(name))): entry for name, entry in parts.items()}
    after = snapshot(place.archive)
    assert {name: entry for name, entry in after.items() if entry[0] != "directory"} == {
        name: entry for name, entry in expected.items() if entry[0] != "directory"
    }
    assert expected.keys() <= after.keys()
    assert without(snapshot(place.config), [place.archive]) == before


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_restore_finishes_what_was_interrupted(place: Place, state: State) -> None:
    unit = write_unit(place, A)
    write_unit(place, B)
    before = snapshot(place.config)
    interrupt(place, unit, state)
    restore_session(A)
    assert without(snapshot(place.config), [place.archive]) == before
    assert list(place.archive.iterdir()) == []


@pytest.mark.parametrize("function", [archive_session, restore_session])
@pytest.mark.parametrize("lies", ["here", "there"])
def test_the_place_that_was_made_for_a_directory_is_in_nobodys_way(
    place: Place, function: Callable[[str], object], lies: str
) -> None:
    """Killed between the making of a companion's place and the move into it."""
    unit = write_unit(place, A)
    session = place.root / IN_APP / A
    whole = snapshot(session)
    interrupt(place, unit, ("linked", lies, lies))
    (archived_path(place, session) if lies == "here" else session).mkdir(mode=0o700)
    function(A)
    end = archived_path(place, session) if function is archive_session else session
    found = {name.replace(str(end), str(session)): entry for name, entry in snapshot(end).items()}
    assert found == whole
    assert os.path.lexists(session) == (function is restore_session)


@pytest.mark.parametrize("function", [archive_session, restore_session])
def test_temporary_entries_of_interrupted_moves_go(
    place: Place, function: Callable[[str], object]
) -> None:
    unit = write_unit(place, A)
    interrupt(place, unit, ("linked", "here", "here"))
    copy(place.config / "tasks" / A, place.archive / ".lifecycle-tmp")
    for directory in (unit[0].parent, place.config / "tasks"):
        (directory / ".lifecycle-tmp").touch()
    function(A)
    assert not list(place.base.rglob(".lifecycle-*"))


def test_a_session_staged_by_an_interrupted_delete_is_given_back_and_archived(
    place: Place,
) -> None:
    path = write_session(place.root, IN_APP, A, at=AT)
    content = path.read_bytes()
    path.rename(path.with_suffix(".lcdel"))
    assert archive_session(A).read_bytes() == content
    assert list((place.root / IN_APP).iterdir()) == []


# Somebody writes meanwhile


def once_placed(
    monkeypatch: pytest.MonkeyPatch, source: Path, action: Callable[[], None], error: bool = False
) -> None:
    """Does something as soon as the source is at its target; the next move may fail."""
    original = _move.Move.place
    failing: list[bool] = []

    def place_it(move: _move.Move) -> None:
        if failing:
            raise OSError(28, "No space left on device", move.target)
        original(move)
        if move.source == str(source):
            action()
            failing.extend([True] if error else [])

    monkeypatch.setattr(_move.Move, "place", place_it)


def contents(place: Place) -> set[bytes]:
    return {entry[3] for entry in snapshot(place.base).values() if entry[0] == "file"}


@pytest.mark.parametrize("error", [False, True], ids=["goes on", "disk full then"])
def test_what_is_written_into_a_moved_directory_is_kept_and_so_is_what_was_moved(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: bool
) -> None:
    """A subagent makes the session directory anew at its old name."""
    session = write_unit(place, A)[0].with_suffix("")
    before = contents(place)

    def write() -> None:
        (session / "subagents").mkdir(parents=True)
        (session / "subagents" / "agent-new.jsonl").write_bytes(b"new\n")

    once_placed(monkeypatch, session, write, error)
    with suppress(OSError):
        archive_session(A)
    assert before | {b"new\n"} <= contents(place)


@pytest.mark.parametrize("error", [False, True], ids=["goes on", "disk full then"])
def test_what_replaced_a_moved_transcript_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: bool
) -> None:
    """A compaction writes a new file and renames it over the old one."""
    path = write_unit(place, A)[0]

    def write() -> None:
        (place.base / "new").write_bytes(b"new\n")
        (place.base / "new").replace(path)

    once_placed(monkeypatch, path, write, error)
    with suppress(OSError):
        archive_session(A)
    assert b"new\n" in contents(place)


def test_what_is_appended_to_a_moved_transcript_is_kept(
    place: Place, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_unit(place, A)[0]
    content = path.read_bytes()

    def write() -> None:
        with path.open("ab") as file:
            file.write(b"new\n")

    try:
        with monkeypatch.context() as patch:
            once_placed(patch, path, write)
            archive_session(A, kept)
    except OSError:
        assert path.read_bytes() == content + b"new\n"
        assert not (kept / f"{A}.jsonl").exists()
        assert archive_session(A, kept).read_bytes() == content + b"new\n"
    else:
        assert (kept / f"{A}.jsonl").read_bytes() == content + b"new\n"


def test_a_changed_history_is_kept_even_where_its_name_is_taken_meanwhile(
    place: Place, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers: one that has the file open, and one that makes it anew."""
    path = write_session(place.root, IN_APP, A, at=AT)
    write_session(place.root, IN_APP, B, at=AT)
    history = path.read_bytes()
    original = os.rename

    def rename(source: str, target: str) -> None:
        if source == str(path):
            append(place, path)
        original(source, target)
        if source == str(path):
            path.write_bytes(b"new\n")

    with monkeypatch.context() as patch, suppress(OSError):
        patch.setattr(os, "rename", rename)
        archive_session(A, kept, projects_root=place.root)
    archive_session(B, kept, projects_root=place.root)
    found = contents(place) | {entry[3] for entry in snapshot(kept).values()}
    assert {history + b"{}\n", b"new\n"} <= found


# By filters


@pytest.mark.parametrize("opts", [DeleteOpts(), DeleteOpts(include_live=True)], ids=str)
def test_no_filter_is_refused_before_anything_is_read(place: Place, opts: DeleteOpts) -> None:
    message = "refusing to archive all sessions: set at least one filter"
    with pytest.raises(NoFilterError, match=message):
        plan_archive(make_file(place), None, opts)


def test_a_plan_changes_nothing_and_its_execution_moves_what_it_shows(place: Place) -> None:
    units = write_unit(place, A) + write_unit(place, B, IN_WEB)
    write_unit(place, C, "-srv-other")
    before = place.everything()
    planned = plan_archive(None, None, ALL)
    assert place.everything() == before
    assert [item.session_id for item in planned.matched] == [A, B]
    assert planned.total_bytes == plan_delete(place.root, None, ALL).total_bytes
    tree = snapshot(place.config)
    done = execute_archive(planned)
    assert (done.archived, done.failed) == (planned.matched, ())
    assert without(snapshot(place.config), [place.archive]) == without(tree, units)


def test_a_copy_of_an_id_in_another_project_is_shown_as_skipped(place: Place) -> None:
    paths = [write_unit(place, A, project)[0] for project in (IN_APP, IN_WEB)]
    unit = write_unit(place, B)
    before = snapshot(place.config)
    done = execute_archive(plan_archive(None, None, ALL))
    assert ([item.session_id for item in done.matched], done.failed) == ([B], ())
    assert [(skip.path, skip.reason) for skip in done.skipped] == [
        (paths[0], f"also in {IN_WEB}"),
        (paths[1], f"also in {IN_APP}"),
    ]
    assert without(snapshot(place.config), [place.archive]) == without(before, unit)


def append(place: Place, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"{}\n")


def change_companion(place: Place, path: Path) -> None:
    append(place, place.config / "tasks" / A / "1.json")


def open_session(place: Place, path: Path) -> None:
    add_live(place.config, A, os.getpid())


CHANGES: dict[str, tuple[Callable[[Place, Path], None], str]] = {
    "appended to": (append, "changed since the plan was made"),
    "companion changed": (change_companion, "what belongs to it changed since the plan was made"),
    "removed": (lambda place, path: path.unlink(), "gone since the plan was made"),
    "live now": (open_session, "live: "),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_what_changed_since_it_was_shown_is_left_and_named_and_the_rest_moves(
    place: Place, change: Callable[[Place, Path], None], reason: str
) -> None:
    path = write_unit(place, A)[0]
    other = write_unit(place, B, IN_WEB)
    planned = plan_archive(None, None, ALL)
    change(place, path)
    before = snapshot(place.config)
    done = execute_archive(planned)
    assert [item.session_id for item in done.archived] == [B]
    assert [(skip.session_id, skip.reason[: len(reason)]) for skip in done.skipped] == [(A, reason)]
    assert without(snapshot(place.config), [place.archive]) == without(before, other)


def test_what_matches_only_since_it_was_shown_is_left_where_it_is(place: Place) -> None:
    shown = write_unit(place, A)
    planned = plan_archive(None, None, ALL)
    write_unit(place, B)
    before = snapshot(place.config)
    execute_archive(planned)
    assert without(snapshot(place.config), [place.archive]) == without(before, shown)


def test_a_plan_leaves_alone_what_the_archive_holds_with_other_content(place: Place) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    archive_session(A)
    write_session(place.root, IN_APP, A, at=AT, prompts=["Go on"])
    plan = plan_archive(None, None, ALL)
    assert plan.matched == ()
    assert [skip.reason for skip in plan.skipped] == ["the archive holds other content for it"]


def test_one_that_cannot_be_archived_does_not_stop_the_others(place: Place) -> None:
    path = write_session(place.root, IN_APP, A, at=AT)
    unit = write_unit(place, B)
    plan = plan_archive(None, None, ALL)
    target = place.archive / f"{A}.jsonl"
    target.parent.mkdir()
    target.write_text("{}\n")
    before = snapshot(place.config)
    done = execute_archive(plan)
    assert [item.session_id for item in done.archived] == [B]
    assert [(skip.session_id, skip.path) for skip in done.failed] == [(A, path)]
    assert str(target) in done.failed[0].reason
    moved = [place.archive / f"{B}.jsonl", place.archive / B]
    assert without(snapshot(place.config), moved) == without(before, unit)


def half_archive(place: Place, session_id: str) -> list[Path]:
    """An archive that was killed when its transcript had gone, and not yet its companions."""
    path, *companions = write_unit(place, session_id)
    archive_session(session_id)
    for companion in companions:
        mirrored = place.archive / session_id / companion.relative_to(place.config)
        companion.parent.mkdir(parents=True, exist_ok=True)
        if mirrored.is_file():
            companion.hardlink_to(mirrored)
    return [path, *companions]


def test_an_archive_by_filter_finishes_what_another_left(place: Place, run: Run) -> None:
    unit = half_archive(place, A)
    assert [path for path in unit if path.exists()]
    result = run("archive", "--before", "9000d", "-y")
    assert "finished an interrupted archive of 1 session" in result.err
    assert [path for path in unit if path.exists()] == []


def test_what_it_cannot_finish_it_names_and_leaves(place: Place, run: Run) -> None:
    unit = half_archive(place, A)
    todo = next(path for path in unit if path.parent.name == "todos")
    todo.unlink()
    todo.write_text("other")
    before = place.everything()
    result = run("archive", "--before", "9000d", "-y")
    assert f"{A}.jsonl: not all of it is archived: " in result.err
    assert place.everything() == before


def test_beside_a_project_that_cannot_be_read_the_others_are_archived(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_archive(place, A)
    write_session(place.root, IN_WEB, B, at=AT)
    closed = write_session(place.root, "-closed", C, at=AT).parent
    deny_listing(monkeypatch, closed)
    result = run("archive", "--before", "1h", "-y")
    assert (result.status, "-closed: permission denied" in result.out) == (0, True), result
    assert (place.archive / f"{B}.jsonl").exists(), result


# What is in the archive


def test_archived_sessions_are_listed_the_last_archived_first(place: Place) -> None:
    for session_id, project in ((B, IN_WEB), (A, IN_APP)):
        write_session(place.root, project, session_id, at=AT)
        archive_session(session_id)
        time.sleep(0.02)
    foreign = write_lines(place.archive / f"{C}.jsonl", [{"type": "mode"}])
    (place.archive / "interrupted" / "projects" / IN_APP).mkdir(parents=True)
    (place.archive / "directory.jsonl").mkdir()
    found = archived_sessions()
    told = [(one.session_id, one.project) for one in found]
    assert told == [(C, ""), (A, IN_APP), (B, IN_WEB)]
    assert [one.bytes for one in found] == [one.path.stat().st_size for one in found]
    assert found[0].path == foreign


@pytest.mark.parametrize(
    ("wanted", "found"),
    [(None, [A, B]), (A, [A]), (A[:8], [A]), (A[:7], []), ("", []), (f"{A}.jsonl", [])],
)
def test_the_archive_is_asked_for_one_session_as_the_projects_are(
    place: Place, wanted: str | None, found: list[str]
) -> None:
    for session_id in (A, B):
        write_session(place.root, IN_APP, session_id, at=AT)
        archive_session(session_id)
    assert sorted(one.session_id for one in archived_sessions(None, wanted)) == sorted(found)


def test_no_id_restores_nothing_even_where_only_one_session_is_archived(place: Place) -> None:
    write_session(place.root, IN_APP, A, at=AT)
    archive_session(A)
    before = place.everything()
    with pytest.raises(SessionNotFoundError):
        restore_session("")
    assert place.everything() == before


def test_a_missing_archive_lists_nothing_and_is_not_made(place: Place) -> None:
    before = place.everything()
    assert archived_sessions() == ()
    assert place.everything() == before


@pytest.mark.parametrize(
    "filters",
    [
        {"before": AT},
        {"before": AT + DAY},
        {"project": "app"},
        {"project": "APP"},
        {"project": APP},
        {"project": APP + "/x"},
        {"max_messages": 2},
        {"max_messages": 1},
        {"session_id": A[:8]},
        {"session_id": A[:7]},
        {"routine": True},
        {"routine": True, "project": "web"},
    ],
    ids=lambda filters: json.dumps(filters, default=str),
)
@pytest.mark.parametrize("reply", ["Hello!", "Done. " * 100], ids=["routine", "not routine"])
def test_an_archived_session_passes_the_filters_that_it_passed_in_its_place(
    place: Place, filters: dict[str, Any], reply: str
) -> None:
    records = [user("hi", A, AT), assistant(reply, A, AT)]
    write_lines(place.root / IN_APP / f"{A}.jsonl", records, modified=AT)
    opts = DeleteOpts(**filters)
    matched = plan_delete(None, None, opts).matched
    archive_session(A)
    (archived,) = archived_sessions()
    assert bool(fitting([archived], opts)) == bool(matched)


# What fails late


def fail_once(monkeypatch: pytest.MonkeyPatch, name: str, error: OSError) -> None:
    """The next call of something that `archive` uses fails, and later ones do not."""
    original = getattr(archive, name)

    def function(*arguments: Any) -> Any:
        monkeypatch.setattr(archive, name, original)
        raise error

    monkeypatch.setattr(archive, name, function)


def test_a_foreign_transcript_is_restored_to_the_end_by_a_second_call(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_foreign(place)
    tombstone_ids(place.cache, [A])
    fail_once(monkeypatch, "remove_tombstones", PermissionError(errno.EACCES, "no"))
    with pytest.raises(PermissionError):
        restore_session(A, cache_dir=place.cache)
    result = restore_session(A, cache_dir=place.cache)
    assert (result.path.exists(), result.tombstone_removed, result.left) == (True, True, None)
    assert list(place.archive.iterdir()) == []


def test_what_cannot_be_dated_now_is_restored_to_the_end_and_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_session(place.root, IN_APP, A, at=AT - 400 * DAY)
    archive_session(A)
    tombstone_ids(place.cache, [A])
    refusal = PermissionError(errno.EPERM, "not yours", str(path))
    monkeypatch.setattr("lifecycle._retention.set_modified", raiser(refusal))
    with pytest.raises(PermissionError) as caught:
        restore_session(A, cache_dir=place.cache)
    assert "may delete it" in caught.value.__notes__[0]
    assert path.exists()
    assert load_tombstones(place.cache) == frozenset()
    assert list(place.archive.iterdir()) == []


def raiser(error: OSError) -> Callable[..., None]:
    def function(*_: object) -> None:
        raise error

    return function


def test_a_companion_that_vanishes_in_the_middle_is_a_failure_and_not_a_session_that_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_unit(place, A)
    planned = plan_archive(place.root, None, ALL)
    original = _move.Move.finish

    def finish(move: _move.Move) -> None:
        if move.source.endswith(".txt"):
            os.unlink(move.source)
        original(move)

    monkeypatch.setattr(_move.Move, "finish", finish)
    done = execute_archive(planned)
    assert (done.archived, done.skipped) == ((), ())
    (failure,) = done.failed
    assert "no such file" in failure.reason


def test_a_link_to_a_directory_in_the_archive_is_left_and_named(place: Place) -> None:
    write_unit(place, A)
    archive_session(A)
    link = place.archive / A / "elsewhere"
    link.symlink_to("/tmp")
    assert restore_session(A).left == place.archive / A
    assert link.is_symlink()


def test_the_working_directory_may_be_written_with_a_slash(place: Place) -> None:
    add_foreign(place, None)
    assert restore_session(A, project=f"{APP}/").path.parent.name == IN_APP


def test_a_file_that_is_no_transcript_is_not_archived_by_its_path(
    place: Place, tmp_path: Path
) -> None:
    data = tmp_path / "data" / "app" / "rows.jsonl"
    data.parent.mkdir(parents=True)
    data.write_text('{"row": 1}\n{"row": 2}\n')
    before = snapshot(tmp_path)
    with pytest.raises(ValueError, match="no records"):
        archive_session(data)
    assert snapshot(tmp_path) == before


PARTS = [
    f"projects/{IN_APP}/agent-1a2b3c4d.jsonl",
    f"projects/{IN_APP}/{A}.orphaned-1-0123abcd.jsonl",
    f"projects/{IN_APP}/{A}/subagents/agent-1a2b3c4d.jsonl",
    f"projects/{IN_APP}/{A}/workflows/step.jsonl",
]
PARTS_OF_THE_KNOWN = [
    f"projects/{IN_APP}/memory/log.jsonl",
    "projects/loose.jsonl",
    f"archive/{B}/projects/{IN_APP}/{B}/step.jsonl",
]


@pytest.mark.parametrize(
    ("path", "config"),
    [(path, ".claude") for path in PARTS + PARTS_OF_THE_KNOWN]
    + [(path, "other") for path in PARTS],
)
def test_what_is_part_of_a_session_is_not_archived_by_its_path(
    place: Place, monkeypatch: pytest.MonkeyPatch, path: str, config: str
) -> None:
    for session_id in (A, B):
        write_session(place.root, IN_APP, session_id, at=AT)
    archive_session(B)
    part = write_lines(place.config / path, [user("hi", A, AT)])
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.base / config))
    before = place.everything()
    with pytest.raises(SessionNotFoundError):
        archive_session(part)
    assert place.everything() == before


def test_without_a_config_directory_no_settings_are_read(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings.json").write_text('{"cleanupPeriodDays": 1000}')
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "sessions"
    write_session(root, IN_APP, A, at=AT - 400 * DAY)
    archive_session(A, projects_root=root)
    assert restore_session(A, projects_root=root).times_reset
