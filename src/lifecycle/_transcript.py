"""Reads transcripts as bytes: how many lines are not blank, and their beginning and end.

Bytes are never decoded here, no line is too long to be counted, and memory does not grow with
the file, but for a line that `lines` is asked for in full.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BytesIO
from operator import itemgetter

__all__ = ["Measure", "blocks", "head_and_tail", "lines", "measure", "open_regular"]

PIECE = 64 * 1024
BLOCK = 1 << 20
FIRST_PIECE = 16 * 1024
WINDOW = 16 * 1024
BLANKS = b" \t\n\r\v\f"

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_CLOEXEC", 0)
# Without it the open of a FIFO would wait for a writer for ever.
_FLAGS |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_first_byte = itemgetter(0)


class Measure:
    """What one pass over a transcript found."""

    __slots__ = ("count", "is_whole", "stat", "tail")

    def __init__(self, count: int, found: os.stat_result, tail: bytes, size: int) -> None:
        self.count = count
        """Lines that are not blank; more than the limit, where one was given and passed."""
        self.stat = found
        """Taken from the open file."""
        self.tail = tail
        """At least the last 16 KiB, or all there is; empty where the limit was passed."""
        self.is_whole = len(tail) == size
        """Whether the tail is all there is."""


def open_regular(path: str, *, follow: bool = False) -> int:
    """A descriptor of a regular file; OSError for a directory, a FIFO, a device, or a link.

    With `follow` a link to a regular file will do.
    """
    descriptor = os.open(path, _FLAGS & ~_NO_FOLLOW if follow else _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def measure(path: str, limit: int = 0) -> Measure:
    """Counts the lines that are not blank; with a limit, stops once there are more.

    Lines end at `\\n` only, and a last one without it counts. Blank is what `bytes.strip`
    leaves nothing of. Raises OSError where the file cannot be read, or is no regular file.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return _measure(descriptor, found, limit)
    finally:
        os.close(descriptor)


def _measure(descriptor: int, found: os.stat_result, limit: int) -> Measure:
    count = done = 0
    started = False
    before = last = b""
    size = FIRST_PIECE if limit else PIECE
    while piece := os.read(descriptor, size):
        more, started = count_lines(piece, started)
        count += more
        done += len(piece)
        if limit and count > limit:
            return Measure(count, found, b"", done)
        before, last = last, piece
        # A regular file gives all that is asked for, but at its end.
        if len(piece) < size and done >= found.st_size:
            break
        size = PIECE
    tail = last if len(last) >= WINDOW else before[-WINDOW:] + last
    return Measure(count, found, tail, done)


def count_lines(piece: bytes, started: bool) -> tuple[int, bool]:
    """Counts the lines of a piece that are not blank.

    `started` says whether the line that the piece goes on with has been counted already;
    returned with the count is the same for the next piece.
    """
    if b"\n" not in piece and piece[:1].strip(BLANKS):
        return int(not started), True
    first = bytes(map(_first_byte, BytesIO(piece)))
    if len(first.translate(None, BLANKS)) < len(first):
        return _count_exactly(piece, started)
    return len(first) - started, not piece.endswith(b"\n")


def _count_exactly(piece: bytes, started: bool) -> tuple[int, bool]:
    count = 0
    for line in BytesIO(piece):
        if not started and line.strip():
            count += 1
            started = True
        if line.endswith(b"\n"):
            started = False
    return count, started


def lines(path: str, longest: int = 0) -> Iterator[bytes]:
    """The lines that are not blank, in order, without their end.

    Of a line longer than `longest` bytes (0: any) only so many are given.
    Raises OSError as `measure` does.
    """
    with open(open_regular(path), "rb", buffering=PIECE) as file:
        while line := file.readline(longest or -1):
            rest = line
            while longest and not rest.endswith(b"\n") and (rest := file.readline(PIECE)):
                pass
            if line.strip():
                yield line.rstrip(b"\n")


def blocks(path: str, longest: int) -> Iterator[bytes]:
    """The content in blocks of whole lines; of one longer than `longest` bytes only both ends.

    Raises OSError as `measure` does.
    """
    with open(open_regular(path), "rb", buffering=0) as file:
        rest = end = b""
        while piece := file.read(BLOCK):
            whole, newline, after = piece.rpartition(b"\n")
            if newline:
                yield rest + end + whole
                rest, end = after, b""
            elif len(rest) < longest:
                rest += piece
            else:
                # What a record says last, it says after what made it so long.
                end = piece
        yield rest + end


def head_and_tail(path: str, size: int) -> tuple[bytes, bytes | None]:
    """The whole lines in the first and in the last `size` bytes.

    None for the last where the first are the whole file. Raises OSError as `measure` does.
    """
    descriptor = open_regular(path)
    try:
        length = os.fstat(descriptor).st_size
        head = os.read(descriptor, size)
        if length <= len(head):
            return head, None
        # From one byte earlier, which tells whether a line begins where the end begins.
        os.lseek(descriptor, max(length - size - 1, 0), os.SEEK_SET)
        tail = os.read(descriptor, size + 1)
    finally:
        os.close(descriptor)
    return head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 or len(tail) :]
