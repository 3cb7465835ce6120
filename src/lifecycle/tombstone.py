"""The tombstone file: the ids of deleted sessions, one a line, for any later index pass.

UTF-8 text. Blank lines and white space around an id are ignored, so is a missing file.
"""

from __future__ import annotations

import errno
import os
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path

from lifecycle._disk import (
    append_or_undo,
    create_directories,
    exclusive,
    remove_empty_directories,
    replace_atomically,
    require_removable,
)
from lifecycle._places import cache_directory
from lifecycle._transcript import open_regular

__all__ = [
    "TombstoneFileError",
    "is_tombstoned",
    "load_tombstone_file",
    "load_tombstones",
    "remove_tombstones",
    "require_removable_id",
    "require_usable",
    "tombstone_ids",
    "tombstone_path",
    "unrecordable",
]

# Larger ones cost more to allocate than they save.
PIECE = 64 * 1024


class TombstoneFileError(ValueError):
    """The tombstone file (`path`) is no UTF-8 text, so it is left as it is."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not a tombstone file: it holds bytes that are no text")
        self.path = path


def tombstone_path(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where the tombstone file is: `<cache dir>/.deleted`. It need not exist."""
    return Path(cache_directory(cache_dir), ".deleted")


def load_tombstones(cache_dir: str | os.PathLike[str] | None = None) -> frozenset[str]:
    """All tombstoned ids; none where there is no file.

    Raises `TombstoneFileError` where the file is no text, OSError where it cannot be read.
    """
    return load_tombstone_file(tombstone_path(cache_dir))


def load_tombstone_file(path: Path) -> frozenset[str]:
    """`load_tombstones` for a file by its own path."""
    return frozenset(filter(None, (line.strip() for line in _text(path).split("\n"))))


def _text(path: Path) -> str:
    return "".join(_checked(path))


def _checked(path: Path) -> Iterator[str]:
    decoder = getincrementaldecoder("utf-8")()
    try:
        for piece in _pieces(path):
            if b"\0" in piece:
                raise TombstoneFileError(path)
            yield decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise TombstoneFileError(path) from None


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        descriptor = open_regular(str(path), follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return
    with open(descriptor, "rb", buffering=0) as file:
        while piece := file.read(PIECE):
            yield piece


def is_tombstoned(cache_dir: str | os.PathLike[str] | None, session_id: str) -> bool:
    """Whether the id stands in the tombstone file as a whole line.

    Reads the file in pieces and stops at the id: for one question cheaper than loading all.
    Raises `TombstoneFileError` only for NUL bytes, OSError where the file cannot be read.
    """
    if unrecordable(session_id):
        return False
    path = tombstone_path(cache_dir)
    wanted = session_id.encode()
    begun: list[bytes] = []
    for piece in _pieces(path):
        if b"\0" in piece:
            raise TombstoneFileError(path)
        first, last = piece.find(b"\n"), piece.rfind(b"\n")
        if first < 0:
            begun.append(piece)
            continue
        if _is_line(b"".join([*begun, piece[:first]]), wanted):
            return True
        # Most pieces do not hold it at all, which this tells without a copy of any line.
        if piece.find(wanted, first, last) >= 0 and any(
            _is_line(line, wanted) for line in piece[first:last].split(b"\n")
        ):
            return True
        begun = [piece[last + 1 :]]
    return _is_line(b"".join(begun), wanted)


def _is_line(line: bytes, wanted: bytes) -> bool:
    return wanted in line and line.decode("utf-8", "replace").strip().encode() == wanted


def tombstone_ids(cache_dir: str | os.PathLike[str] | None, ids: Iterable[str]) -> None:
    """Appends the ids, one a line; when it returns they are on disk.

    - The directory (mode 0700) and the file (0600) are made if need be.
    - No ids: nothing happens. A bad one refuses all before anything is written: TypeError for
      a bare string or something that is none, ValueError for an empty id, one that holds a
      line break, surrounding white space, or what UTF-8 cannot hold.
    - Where it fails (OSError, `TombstoneFileError`), the file is as it was.
    """
    if isinstance(ids, str | bytes):
        raise TypeError("ids must be several strings, not one")
    batch = list(ids)
    for session_id in batch:
        if reason := unrecordable(session_id):
            raise ValueError(f"cannot tombstone {session_id!r}: {reason}")
    if batch:
        data = "\n".join([*batch, ""]).encode()
        _append(Path(os.path.realpath(tombstone_path(cache_dir))), data)


def unrecordable(session_id: str) -> str:
    """Why a tombstone cannot hold the id, or empty where it can."""
    if not isinstance(session_id, str):
        raise TypeError(f"a session id must be a string, not {type(session_id).__name__}")
    if not session_id.strip():
        return "the id is empty"
    if len(session_id.splitlines()) > 1 or session_id.strip() != session_id or "\0" in session_id:
        return "the id holds a line break or white space around it"
    try:
        session_id.encode()
    except UnicodeEncodeError:
        return "the id is not UTF-8"
    return ""


def require_usable(path: Path) -> None:
    """Raises OSError or `TombstoneFileError` where an append to the file would fail.

    Reads only; what it lets through may still fail, on a full disk for one.
    """
    for _ in _checked(path):
        pass
    path = place = Path(os.path.realpath(path))
    while not os.path.lexists(place):
        place = place.parent
    if place != path and not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    if place == path and not place.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(place))
    if not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def require_removable_id(path: Path, session_id: str) -> None:
    """Raises OSError or `TombstoneFileError` where the id could not be taken out of the file.

    Reads only. An id that is not there can always be.
    """
    if session_id in load_tombstone_file(path):
        require_removable(os.path.realpath(path))


def _append(path: Path, data: bytes) -> None:
    made = create_directories(str(path.parent))
    try:
        with exclusive(str(path.parent)):
            last = reduce(lambda _, piece: piece, _checked(path), "\n")
            append_or_undo(str(path), data if last.endswith("\n") else b"\n" + data)
    except BaseException:
        remove_empty_directories(made[::-1])
        raise


def remove_tombstones(
    cache_dir: str | os.PathLike[str] | None, ids: Iterable[str]
) -> frozenset[str]:
    """Takes the ids out and returns those that were there.

    Every other line stays byte for byte; readers see the old file or the new. Nothing is
    written where none of the ids is there. Raises TypeError for a bare string, OSError and
    `TombstoneFileError` as `tombstone_ids` does.
    """
    if isinstance(ids, str | bytes):
        raise TypeError("ids must be several strings, not one")
    wanted = set(ids) - {""}
    path = Path(os.path.realpath(tombstone_path(cache_dir)))
    if not wanted or not path.exists():
        return frozenset()
    with exclusive(str(path.parent)):
        lines = [line + "\n" for line in _text(path).split("\n")]
        found = wanted.intersection(line.strip() for line in lines)
        if found:
            # The last line ends where the file did: what follows its last line break.
            lines[-1] = lines[-1].removesuffix("\n")
            kept = "".join(line for line in lines if line.strip() not in found)
            replace_atomically(str(path), kept.encode())
    return frozenset(found)
