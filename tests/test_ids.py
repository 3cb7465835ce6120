"""Which id means which session, and what is said where it means none or several."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import Place
from deadline import deadline
from lifecycle import (
    AmbiguousSessionError,
    SessionNotFoundError,
    matches_session_id,
    resolve_session,
)
from sample import write_session

AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
FULL = "0b54a1c2-7d1e-4f0a-9c55-3e2f1d4b8a90"
OTHER = "0b54a1c2-0000-4000-8000-000000000001"


@pytest.fixture
def path(place: Place) -> Path:
    """The transcript of the one session there is."""
    return write_session(place.root, "-home-me-app", FULL, at=AT)


@pytest.mark.parametrize(
    ("stem", "asked", "fits"),
    [
        pytest.param(FULL, FULL, True, id="the full id"),
        pytest.param("abc", "abc", True, id="equal and short"),
        pytest.param(FULL, FULL[:8], True, id="8 characters"),
        pytest.param(FULL, FULL[:-1], True, id="all but one"),
        pytest.param("ééééééééé", "éééééééé", True, id="8 characters of two bytes"),
        pytest.param(FULL, FULL[:7], False, id="7 characters"),
        pytest.param("ééééé", "éééé", False, id="4 characters of two bytes"),
        pytest.param(FULL, FULL + "0", False, id="longer than the stem"),
        pytest.param(FULL, FULL[1:], False, id="the end"),
        pytest.param(FULL, "0b54a1c3", False, id="another last character"),
        pytest.param(FULL, FULL.upper(), False, id="upper case"),
        pytest.param(FULL, f" {FULL}", False, id="a space before"),
        pytest.param(FULL, "", False, id="empty"),
        pytest.param("", "", False, id="both empty"),
    ],
)
def test_an_id_fits_when_equal_or_a_prefix_of_8_characters(
    stem: str, asked: str, fits: bool
) -> None:
    assert matches_session_id(stem, asked) is fits


@pytest.mark.parametrize("asked", [FULL, FULL[:8]], ids=["full id", "prefix"])
def test_an_id_is_found_in_the_default_root(path: Path, asked: str) -> None:
    assert resolve_session(asked) == path


@pytest.mark.parametrize("convert", [str, Path], ids=["str", "PathLike"])
def test_an_existing_transcript_path_is_the_answer_wherever_it_lies(
    tmp_path: Path, convert: Callable[[Path], str | Path]
) -> None:
    elsewhere = write_session(tmp_path, "elsewhere", FULL, at=AT)
    found = resolve_session(convert(elsewhere))
    assert isinstance(found, Path)
    assert found == elsewhere


def test_a_tilde_in_a_path_and_in_the_root_is_expanded(place: Place) -> None:
    path = write_session(place.base / "own", "-p", FULL, at=AT)
    assert resolve_session(f"~/own/-p/{FULL}.jsonl") == path
    assert resolve_session(FULL, "~/own") == path


def test_the_projects_root_may_be_a_link(place: Place, path: Path) -> None:
    link = place.base / "link"
    link.symlink_to(place.root)
    assert resolve_session(FULL, link) == link / "-home-me-app" / path.name


def test_a_name_that_is_not_utf_8_is_found(place: Place) -> None:
    name = os.fsdecode(b"caf\xe9-of-1999")
    path = write_session(place.root, os.fsdecode(b"-p\xff"), "x", at=AT)
    path = path.rename(path.with_name(f"{name}.jsonl"))
    assert resolve_session(name) == path


def test_another_project_that_cannot_be_read_does_not_stop_the_search(
    place: Place, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = write_session(place.root, "-a-locked", OTHER, at=AT).parent
    scan = os.scandir

    def refuse(directory: str) -> object:
        if directory == str(locked):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)
        return scan(directory)

    monkeypatch.setattr(os, "scandir", refuse)
    assert resolve_session(FULL) == path


@pytest.mark.parametrize(
    "asked",
    [
        "",
        FULL[:7],
        "11111111",
        "../" + FULL,
        f"{FULL}.jsonl",
        f"/nowhere/{FULL}.jsonl",
        "~no-such-user/x.jsonl",
        "nul\0.jsonl",
    ],
    ids=[
        "empty",
        "short prefix",
        "unknown",
        "a path without suffix",
        "a bare file name",
        "a missing path",
        "an unknown home",
        "a NUL",
    ],
)
def test_what_fits_nothing_is_not_found(path: Path, asked: str) -> None:
    with pytest.raises(SessionNotFoundError) as caught:
        resolve_session(asked)
    assert caught.value.session_id == asked
    assert repr(asked) in str(caught.value)


@pytest.mark.parametrize(
    "relative",
    [
        f"-p/agent-{FULL[:8]}.jsonl",
        f"-p/{FULL}.orphaned-1780300800000-0a1b2c3d.jsonl",
        f"-p/{FULL}.jsonl.superseded-1780300800000",
        f"-p/{FULL}.lcdel",
        f"-p/{OTHER}/subagents/{FULL}.jsonl",
        f"{FULL}.jsonl",
    ],
    ids=["an agent", "orphaned", "superseded", "staged", "nested", "in the root itself"],
)
def test_files_that_are_no_session_are_not_found_by_id(place: Place, relative: str) -> None:
    write_session(place.root, "-p", "x", at=AT)
    path = place.root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    for asked in (path.name.removesuffix(".jsonl"), FULL[:8]):
        with pytest.raises(SessionNotFoundError):
            resolve_session(asked)


def _linked(path: Path, real: Path) -> None:
    path.symlink_to(real)


def _in_linked_project(path: Path, real: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(real.parent)


@pytest.mark.parametrize(
    "make",
    [
        _linked,
        _in_linked_project,
        lambda path, real: path.symlink_to(path),
        lambda path, real: path.mkdir(),
        lambda path, real: os.mkfifo(path),
    ],
    ids=["a link", "a linked project", "a circular link", "a directory", "a FIFO"],
)
def test_a_link_and_what_is_no_file_are_not_found_by_id(
    place: Place, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    real = write_session(tmp_path, "elsewhere", FULL, at=AT)
    path = place.root / "-p" / real.name
    path.parent.mkdir()
    make(path, real)
    before = place.everything()
    with deadline(), pytest.raises(SessionNotFoundError):
        resolve_session(FULL)
    assert place.everything() == before


@pytest.mark.parametrize(
    "make",
    [lambda path: path.symlink_to(__file__), Path.mkdir, os.mkfifo],
    ids=["a link", "a directory", "a FIFO"],
)
def test_a_path_that_leads_to_no_file_of_its_own_is_not_found(
    place: Place, make: Callable[[Path], None]
) -> None:
    make(place.base / "x.jsonl")
    with deadline(), pytest.raises(SessionNotFoundError):
        resolve_session(place.base / "x.jsonl")


def test_an_id_in_two_projects_and_a_prefix_of_two_ids_name_them_all(
    place: Place, path: Path
) -> None:
    copy = write_session(place.root, "-home-me-web", FULL, at=AT)
    third = write_session(place.root, "-a-first", OTHER, at=AT)
    for asked, paths in ((FULL, (path, copy)), (FULL[:8], (third, path, copy))):
        with pytest.raises(AmbiguousSessionError) as caught:
            resolve_session(asked)
        assert caught.value.session_id == asked
        assert caught.value.paths == paths
        for each in paths:
            assert f"{each.stem} ({each})" in str(caught.value)


def test_a_missing_root_holds_no_session_and_an_empty_one_is_an_error(place: Place) -> None:
    with pytest.raises(SessionNotFoundError):
        resolve_session(FULL, place.base / "missing")
    with pytest.raises(ValueError, match="projects root must not be empty"):
        resolve_session(FULL, "")


def test_the_errors_are_those_that_a_caller_would_catch_anyway() -> None:
    assert issubclass(SessionNotFoundError, FileNotFoundError)
    assert issubclass(AmbiguousSessionError, LookupError)
