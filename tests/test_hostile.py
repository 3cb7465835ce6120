"""Surroundings that are out to get the command: it never ends in a traceback, or half."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import Place, Result, Run, command, finish, snapshot
from lifecycle import load_tombstones
from sample import Sample, add_companions, make_sample, set_modified, write_session

ONE = "11111111-1111-4111-8111-111111111111"
OLD = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def session(place: Place) -> Path:
    """One old session with all that can belong to it."""
    path = write_session(place.root, "-home-me-app", ONE, at=OLD)
    add_companions(place.config, "-home-me-app", ONE)
    return path


def shell(script: str, **variables: str | None) -> Result:
    """Runs a line of shell in which `$L` is the command; a variable that is None is unset."""
    environment = {**os.environ, "L": f"{sys.executable} -W error -m lifecycle"}
    for name, value in variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, timeout=60, check=False
    )
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode())


def test_without_home_the_directories_that_are_named_will_do(session: Path, place: Place) -> None:
    result = shell(f"$L delete {ONE} -y --cache-dir {place.cache}", HOME=None)
    assert (result.status, set(load_tombstones())) == (0, {ONE})


def test_a_working_directory_that_is_gone_matters_only_to_relative_paths(
    session: Path, place: Place
) -> None:
    gone = place.base / "gone"
    gone.mkdir()
    result = shell(f"cd {gone}; rmdir {gone}; $L list; $L list --projects-root here; echo $?")
    assert ONE[:8] in result.out
    assert result.out.endswith("\n1\n")
    assert result.err.startswith("session-lifecycle: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "script",
    ["$L list | head -1", "$L list --json | head -1", "$L delete --before 1d -n | true"],
    ids=["list", "json", "plan"],
)
def test_a_reader_that_leaves_early_gets_no_complaint(sample: Sample, script: str) -> None:
    result = shell(f"{script}; exit ${{PIPESTATUS[0]}}")
    assert (result.status in (0, 1), result.err) == (True, "")


@pytest.fixture
def sample(place: Place) -> Sample:
    return make_sample(place.config)


@pytest.mark.parametrize("where", [">&-", ">/dev/full"], ids=["closed", "full"])
def test_a_plan_that_cannot_be_shown_is_not_carried_out(
    session: Path, place: Place, where: str
) -> None:
    before = place.everything()
    result = shell(f"$L delete {ONE} -y {where}")
    assert result.status == 1
    assert result.err.startswith("session-lifecycle: ")
    assert "Traceback" not in result.err
    assert place.everything() == before


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_a_locale_without_unicode_does_not_matter(sample: Sample, locale: str) -> None:
    result = shell("$L list", LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (result.status, result.err) == (0, "")
    assert "total: 15 sessions" in result.out


def test_a_tree_that_changes_under_the_walk_is_no_error(place: Place) -> None:
    over = threading.Event()
    threading.Thread(target=_churn, args=(place.root, over), daemon=True).start()
    try:
        for _ in range(8):
            for words in (("list",), ("delete", "--before", "1d", "-n")):
                result = finish(command(*words))
                assert (result.status, result.err) == (0, "")
    finally:
        over.set()


def _churn(root: Path, over: threading.Event) -> None:
    number = 0
    while not over.is_set():
        number += 1
        directory = root / f"-p{number % 5}"
        for one in range(20):
            write_session(root, directory.name, f"session-{one}-{number % 3}", at=OLD)
        (directory / "session-1-1.jsonl").unlink(missing_ok=True)
        (directory / "session-1-1.jsonl").mkdir(exist_ok=True)
        shutil.rmtree(directory)


def test_names_of_255_bytes_are_archived_restored_and_deleted(place: Place, run: Run) -> None:
    name = "n" * 249
    path = write_session(place.root, "p" * 255, name, at=OLD)
    (path.with_suffix("") / "tool-results").mkdir(parents=True)
    assert [run(*words).status for words in (
        ("archive", name), ("restore", name), ("delete", name, "-y"),
    )] == [0, 0, 0]  # fmt: skip
    assert list((place.root / ("p" * 255)).iterdir()) == []
    assert load_tombstones() == {name}


def test_a_clock_set_back_makes_every_session_one_of_the_future(place: Place, run: Run) -> None:
    session = write_session(place.root, "-home-me-app", ONE, at=OLD)
    set_modified(session, datetime.now(UTC) + timedelta(days=400))
    assert "nothing to delete" in run("delete", "--before", "1h", "-y").out
    assert run("archive", ONE).status == 0
    assert "dated now" not in run("restore", ONE).out


@pytest.mark.parametrize("target", ["cache", "tombstones"])
def test_a_cache_directory_or_tombstone_file_that_is_a_link_is_followed(
    session: Path, place: Place, run: Run, target: str
) -> None:
    real = place.base / "elsewhere"
    real.mkdir()
    if target == "cache":
        place.cache.parent.mkdir()
        place.cache.symlink_to(real)
    else:
        place.cache.mkdir(parents=True)
        place.tombstones.symlink_to(real / ".deleted")
    assert run("delete", ONE, "-y").status == 0
    assert (real / ".deleted").read_text() == f"{ONE}\n"
    assert (place.cache if target == "cache" else place.tombstones).is_symlink()


def test_one_directory_in_several_roles_does_not_lock_itself_out(
    session: Path, place: Place
) -> None:
    both = place.base / "both"
    words = ("--archive-dir", both, "--cache-dir", both)
    assert finish(command("archive", ONE, *words)).status == 0
    assert finish(command("restore", ONE, *words)).status == 0
    assert finish(command("delete", ONE, "-y", "--cache-dir", place.root)).status == 0


@pytest.mark.parametrize("name", [".", ".."])
def test_an_id_that_would_lead_elsewhere_is_no_session(
    session: Path, place: Place, run: Run, name: str
) -> None:
    (session.parent / f"{name}.jsonl").write_bytes(b"{}\n")
    (session.parent / f"{name}.precompact.json").write_bytes(b"{}\n")
    before = place.everything()
    assert [run(*words).status for words in (
        ("archive", name), ("restore", name), ("delete", name, "-y"),
    )] == [1, 1, 1]  # fmt: skip
    assert place.everything() == before


@pytest.mark.parametrize("which", ["unit", "store", "projects"])
def test_a_link_in_the_archive_is_never_entered(
    session: Path, place: Place, run: Run, which: str
) -> None:
    elsewhere = place.base / "elsewhere"
    (elsewhere / "keep").mkdir(parents=True)
    home = place.archive / ONE
    link = {"unit": home, "store": home / "tasks", "projects": home / "projects"}[which]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    before = snapshot(place.base)
    assert "symbolic link" in run("archive", ONE).err
    assert snapshot(place.base) == before


def test_a_session_is_not_restored_through_a_linked_project(
    session: Path, place: Place, run: Run
) -> None:
    assert run("archive", ONE).status == 0
    session.parent.rename(place.base / "elsewhere")
    session.parent.symlink_to(place.base / "elsewhere")
    before = snapshot(place.base)
    result = run("restore", ONE)
    assert (result.status, "symbolic link" in result.err) == (1, True)
    assert snapshot(place.base) == before


def test_a_directory_deeper_than_python_recurses_is_deleted_whole(
    session: Path, place: Place, run: Run
) -> None:
    deepest = str(session.with_suffix(""))
    for _ in range(1200):
        deepest += "/d"
        os.mkdir(deepest)
    assert run("delete", ONE, "-y").status == 0
    assert not any(ONE in name for name in snapshot(place.root))


def test_settings_that_are_a_fifo_do_not_hang_a_restore(
    session: Path, place: Place, run: Run
) -> None:
    assert run("archive", ONE).status == 0
    os.mkfifo(place.config / "settings.json")
    assert run("restore", ONE).status == 0


def test_a_closed_standard_error_changes_nothing_in_what_is_done(session: Path) -> None:
    result = shell(f"$L delete {ONE} -y 2>&-")
    assert (result.status, set(load_tombstones())) == (0, {ONE})


def test_json_that_cannot_be_written_is_no_traceback(session: Path, place: Place) -> None:
    before = place.everything()
    assert shell(f"$L delete {ONE} -y --json >&-").status == 1
    assert place.everything() == before
    result = shell("$L list --json >/dev/full")
    assert (result.status, "Traceback" in result.err) == (1, False)


@pytest.fixture
def mounted(place: Place) -> Iterator[Path]:
    """A small file system of its own; skips where mounting is not allowed."""
    point = place.base / "small"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", str(point)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("a file system cannot be mounted here")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


@pytest.mark.parametrize(
    "words", [("delete", ONE, "-y"), ("archive", ONE)], ids=["delete", "archive"]
)
def test_a_read_only_file_system_is_one_clear_line(
    session: Path, place: Place, mounted: Path, words: tuple[str, ...]
) -> None:
    root = mounted / "projects"
    shutil.copytree(place.root, root)
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    before = snapshot(place.base)
    result = finish(command(*words, "--projects-root", root, "--archive-dir", place.base / "kept"))
    assert result.status == 1
    assert "read-only file system" in result.err
    assert "Traceback" not in result.err
    assert snapshot(place.base) == before


@pytest.mark.parametrize("room", [0, 2, 10, 40, 100, 180])
def test_an_archive_disk_that_fills_leaves_the_source_whole(
    session: Path, place: Place, mounted: Path, room: int
) -> None:
    (place.config / "file-history" / ONE / "big").write_bytes(b"x" * 200_000)
    (mounted / "ballast").write_bytes(b"x" * (256 - room) * 1000)
    before = snapshot(place.config)
    result = finish(command("archive", ONE, "--archive-dir", mounted))
    assert result.status == 1
    assert result.err.count("\n") == 1
    assert "no space left on device" in result.err
    assert snapshot(place.config) == before
    assert [path.name for path in mounted.iterdir()] == ["ballast"]


@pytest.mark.parametrize("room", [0, 10], ids=["no byte", "half an id"])
def test_a_cache_disk_that_is_full_deletes_nothing(
    session: Path, place: Place, mounted: Path, room: int
) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    (mounted / ".deleted").write_bytes(b"older-session\n".rjust(page - room, b"\n"))
    space = os.statvfs(mounted)
    (mounted / "ballast").write_bytes(b"x" * (space.f_bavail * space.f_frsize))
    before = snapshot(place.base)
    result = finish(command("delete", ONE, "-y", "--cache-dir", mounted))
    assert (result.status, "no space left on device" in result.err) == (1, True)
    dead = str(mounted / ".deleted")
    after = snapshot(place.base)
    assert after.pop(dead)[3] == before.pop(dead)[3]
    assert after == before
