"""The tombstone file: what is taken in, what is refused, and that nobody else's line is lost."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from conftest import Place
from deadline import deadline
from lifecycle import (
    TombstoneFileError,
    is_tombstoned,
    load_tombstones,
    remove_tombstones,
    tombstone_ids,
    tombstone_path,
)

# White space of every kind, blank lines, a repeated id, one that holds another, no end.
NASTY = "\n  alpha \r\n\r\n\t\nbeta\u2003\né-😀-id\nalpha\nalpha-and-more\n\u2028omega".encode()
IDS = frozenset({"alpha", "beta", "é-😀-id", "alpha-and-more", "omega"})


def fill(place: Place, content: bytes) -> Path:
    """The tombstone file with this content."""
    place.cache.mkdir(parents=True, exist_ok=True)
    place.tombstones.write_bytes(content)
    return place.tombstones


@pytest.mark.parametrize(
    ("given", "directory"),
    [
        pytest.param(None, ".cache/session-search", id="None"),
        pytest.param("", ".cache/session-search", id="empty"),
        pytest.param("~/own", "own", id="a tilde"),
        pytest.param(Path("~/own"), "own", id="a tilde in a PathLike"),
    ],
)
def test_the_file_is_called_deleted_in_the_cache_directory(
    place: Place, given: str | Path | None, directory: str
) -> None:
    path = tombstone_path(given)
    assert isinstance(path, Path)
    assert path == place.base / directory / ".deleted"
    tombstone_ids(given, ["one"])
    assert path.read_bytes() == b"one\n"
    assert load_tombstones(given) == {"one"}
    assert is_tombstoned(given, "one")
    assert remove_tombstones(given, ["one"]) == {"one"}


@pytest.mark.parametrize("missing", ["home", "missing", ".claude/settings.json/below a file"])
def test_where_there_is_no_file_nothing_is_tombstoned_and_nothing_is_made(
    place: Place, missing: str
) -> None:
    (place.config / "settings.json").touch()
    before = place.everything()
    cache = place.base / missing
    assert load_tombstones(cache) == frozenset()
    assert not is_tombstoned(cache, "one")
    assert remove_tombstones(cache, ["one"]) == frozenset()
    assert place.everything() == before


def test_blank_lines_and_white_space_around_an_id_are_ignored(place: Place) -> None:
    fill(place, NASTY)
    assert load_tombstones(place.cache) == IDS


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 16, 1 << 20])
def test_one_question_has_the_answer_of_the_whole_set_wherever_pieces_end(
    place: Place, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("lifecycle.tombstone.PIECE", piece)
    fill(place, NASTY)
    assert load_tombstones(place.cache) == IDS
    for session_id in IDS:
        assert is_tombstoned(place.cache, session_id)
    for session_id in ("", "alph", "lpha", "alpha-", "-and-more", "gamma", "beta\né-😀-id", " "):
        assert not is_tombstoned(place.cache, session_id)


def test_ids_are_appended_one_a_line_in_a_private_file_and_directory(place: Place) -> None:
    tombstone_ids(place.cache, (f"id-{n}" for n in range(3)))
    tombstone_ids(place.cache, {"é-😀": None})
    assert place.tombstones.read_bytes() == "id-0\nid-1\nid-2\né-😀\n".encode()
    assert os.listdir(place.cache) == [".deleted"]
    assert stat.S_IMODE(place.tombstones.stat().st_mode) == 0o600
    for directory in (place.cache, place.cache.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_no_ids_make_neither_file_nor_directory(place: Place) -> None:
    before = place.everything()
    tombstone_ids(place.cache, [])
    assert place.everything() == before


@pytest.mark.parametrize("piece", [1, 2, 1 << 20])
@pytest.mark.parametrize(
    ("content", "ending"),
    [(b"whole\n", b""), (b"", b""), (b"torn", b"\n"), ("torn-é".encode(), b"\n"), (b"a\r", b"\n")],
    ids=["whole", "empty file", "torn", "torn after two bytes", "carriage return"],
)
def test_what_stands_there_stays_and_a_torn_last_line_swallows_no_id(
    place: Place, monkeypatch: pytest.MonkeyPatch, content: bytes, ending: bytes, piece: int
) -> None:
    monkeypatch.setattr("lifecycle.tombstone.PIECE", piece)
    fill(place, content).chmod(0o640)
    tombstone_ids(place.cache, ["new"])
    assert place.tombstones.read_bytes() == content + ending + b"new\n"
    assert stat.S_IMODE(place.tombstones.stat().st_mode) == 0o640


@pytest.mark.parametrize("content", [None, b"there\n"], ids=["no file", "a file"])
@pytest.mark.parametrize(
    ("ids", "error"),
    [
        pytest.param("one", TypeError, id="a bare string"),
        pytest.param(b"one", TypeError, id="bare bytes"),
        pytest.param(["good", b"one"], TypeError, id="bytes"),
        pytest.param(["good", None], TypeError, id="None"),
        pytest.param(["good", ""], ValueError, id="empty"),
        pytest.param(["good", " \t"], ValueError, id="white space"),
        pytest.param(["good", "one "], ValueError, id="a space behind"),
        pytest.param(["good", "one\n"], ValueError, id="a newline behind"),
        pytest.param(["good", "one\ntwo"], ValueError, id="a newline"),
        pytest.param(["good", "one\rtwo"], ValueError, id="a carriage return"),
        pytest.param(["good", "one\u2028two"], ValueError, id="a line separator"),
        pytest.param(["good", "one\x85two"], ValueError, id="a next line"),
        pytest.param(["good", "one\0two"], ValueError, id="a NUL"),
        pytest.param(["good", "one\udcff"], ValueError, id="not UTF-8"),
    ],
)
def test_one_bad_id_refuses_all_before_anything_is_written(
    place: Place, content: bytes | None, ids: Iterable[str], error: type[Exception]
) -> None:
    if content is not None:
        fill(place, content)
    before = place.everything()
    with pytest.raises(error):
        tombstone_ids(place.cache, ids)
    assert place.everything() == before


@pytest.mark.parametrize(
    ("content", "ids", "left", "found"),
    [
        pytest.param(b"a\nb\nc\n", ["b"], b"a\nc\n", {"b"}, id="the middle"),
        pytest.param(b"a\nb\nc\n", ["c", "a", "x"], b"b\n", {"a", "c"}, id="two and an unknown"),
        pytest.param(b"a\nb", ["b"], b"a\n", {"b"}, id="torn and last"),
        pytest.param(b"a\nb", ["a"], b"b", {"a"}, id="before a torn one"),
        pytest.param(b"a\n", ["a"], b"", {"a"}, id="the only one"),
        pytest.param(b"a\nb\n a \r\na\n", ["a"], b"b\n", {"a"}, id="each of its lines"),
        pytest.param(
            b"\n \r\n a\r\n\xc3\xa9 \n\nb\r\nab\n\t",
            ["b"],
            b"\n \r\n a\r\n\xc3\xa9 \n\nab\n\t",
            {"b"},
            id="odd lines around",
        ),
    ],
)
def test_removal_takes_the_ids_and_no_byte_of_another_line(
    place: Place, content: bytes, ids: list[str], left: bytes, found: set[str]
) -> None:
    fill(place, content).chmod(0o640)
    assert remove_tombstones(place.cache, (each for each in ids)) == found
    assert place.tombstones.read_bytes() == left
    assert stat.S_IMODE(place.tombstones.stat().st_mode) == 0o640
    assert os.listdir(place.cache) == [".deleted"]


@pytest.mark.parametrize(
    "ids",
    [[], ["x"], ["al"], [""], [" "]],
    ids=["no ids", "unknown", "part of one", "empty", "white space"],
)
def test_removal_of_what_is_not_there_writes_nothing(place: Place, ids: list[str]) -> None:
    fill(place, b"alpha\n\n \nbeta")
    before = (place.everything(), place.tombstones.stat().st_ino)
    assert remove_tombstones(place.cache, ids) == frozenset()
    assert (place.everything(), place.tombstones.stat().st_ino) == before


@pytest.mark.parametrize("ids", ["alpha", b"alpha"], ids=["str", "bytes"])
def test_removal_of_a_bare_string_is_refused(place: Place, ids: Iterable[str]) -> None:
    fill(place, b"a\nl\nalpha\n")
    with pytest.raises(TypeError):
        remove_tombstones(place.cache, ids)
    assert place.tombstones.read_bytes() == b"a\nl\nalpha\n"


CALLS: dict[str, Callable[[Path], object]] = {
    "load": load_tombstones,
    "ask": partial(is_tombstoned, session_id="one"),
    "append": partial(tombstone_ids, ids=["one"]),
    "remove": partial(remove_tombstones, ids=["one"]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a directory", "a FIFO"])
def test_what_is_no_file_in_its_place_is_an_error_that_names_it(
    place: Place, call: Callable[[Path], object], make: Callable[[Path], None]
) -> None:
    place.cache.mkdir(parents=True)
    make(place.tombstones)
    before = place.everything()
    with deadline(), pytest.raises(OSError, match=str(place.tombstones)):
        call(place.cache)
    assert place.everything() == before


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_directory_in_its_place_leaves_no_descriptor_open(
    place: Place, call: Callable[[Path], object]
) -> None:
    place.tombstones.mkdir(parents=True)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match="directory"):
        call(place.cache)
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize(
    ("content", "call"),
    [(b"one\n\0\0", name) for name in CALLS if name != "ask"]
    + [(b"two\n\0\0\none\n", "ask")]
    + [(b"one\n\xff\xfe", name) for name in CALLS if name != "ask"]
    + [(b"one\n\xc3", "load")],
    ids=lambda value: value if isinstance(value, str) else repr(value)[2:-1],
)
def test_binary_rubbish_is_an_error_that_names_it_and_stays(
    place: Place, content: bytes, call: str
) -> None:
    fill(place, content)
    before = place.everything()
    with pytest.raises(TombstoneFileError, match=str(place.tombstones)) as caught:
        CALLS[call](place.cache)
    assert caught.value.path == place.tombstones
    assert place.everything() == before


def test_a_cache_directory_that_is_a_file_is_an_error_and_stays(place: Place) -> None:
    place.cache.parent.mkdir()
    place.cache.write_bytes(b"precious")
    before = place.everything()
    with pytest.raises(OSError, match=str(place.cache)):
        tombstone_ids(place.cache, ["one"])
    assert place.everything() == before


@pytest.mark.parametrize("linked", ["the directory", "the file"])
def test_a_link_stays_one_and_what_it_points_to_is_used(place: Place, linked: str) -> None:
    real = place.base / "real" / ".deleted"
    real.parent.mkdir()
    real.write_bytes(b"old\n")
    link = place.cache if linked == "the directory" else place.tombstones
    link.parent.mkdir(parents=True)
    link.symlink_to(real.parent if linked == "the directory" else real)
    tombstone_ids(place.cache, ["new"])
    assert load_tombstones(place.cache) == {"old", "new"}
    assert remove_tombstones(place.cache, ["old"]) == {"old"}
    assert link.is_symlink()
    assert real.read_bytes() == b"new\n"
    assert [path.name for path in real.parent.iterdir()] == [".deleted"]


def append_each(cache: Path, ids: list[str]) -> frozenset[str]:
    """Appends the ids one by one."""
    for each in ids:
        tombstone_ids(cache, [each])
    return frozenset()


def remove_each(cache: Path, ids: list[str]) -> frozenset[str]:
    """Removes the ids one by one; returns all that were found."""
    return frozenset().union(*(remove_tombstones(cache, [each]) for each in ids))


def missed_by_reading(cache: Path, ids: list[str]) -> frozenset[str]:
    """Reads again and again; returns the ids that were once not there."""
    missed: set[str] = set()
    for _ in range(60):
        missed.update(set(ids) - load_tombstones(cache))
        missed.update(each for each in ids[-2:] if not is_tombstoned(cache, each))
    return frozenset(missed)


def _start(pool: Executor, cache: Path) -> dict[str, Future[frozenset[str]]]:
    def names(word: str) -> list[str]:
        return [f"{word}-{n}" for n in range(40)]

    work = {"one": append_each, "two": append_each, "gone": remove_each, "kept": missed_by_reading}
    return {word: pool.submit(call, cache, names(word)) for word, call in work.items()}


@pytest.mark.parametrize(
    "make",
    [ThreadPoolExecutor, partial(ProcessPoolExecutor, mp_context=get_context("spawn"))],
    ids=["threads", "processes"],
)
def test_appending_removing_and_reading_at_once_loses_nothing(
    place: Place, make: Callable[[int], Executor]
) -> None:
    lines = [f"{word}-{n}\n" for n in range(40) for word in ("kept", "gone")]
    fill(place, "".join(lines).encode())
    with deadline(60), make(4) as pool:
        found = {word: future.result() for word, future in _start(pool, place.cache).items()}
    assert found["kept"] == frozenset()
    assert found["gone"] == {f"gone-{n}" for n in range(40)}
    expected = [f"{word}-{n}" for word in ("kept", "one", "two") for n in range(40)]
    assert sorted(place.tombstones.read_text().split("\n")) == sorted(["", *expected])
    assert os.listdir(place.cache) == [".deleted"]
