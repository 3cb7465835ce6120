"""Lines are counted exactly, read no further than asked, and nothing but a file is opened."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from deadline import deadline
from lifecycle._transcript import FIRST_PIECE, PIECE, WINDOW, blocks, head_and_tail, lines, measure

# Piece and first piece: as they are, and so small that every border is met.
SIZES = [
    pytest.param(PIECE, FIRST_PIECE, id="real sizes"),
    pytest.param(1, 1, id="single bytes"),
    pytest.param(2, 3, id="two bytes"),
    pytest.param(7, 5, id="seven bytes"),
    pytest.param(64, 16, id="64 bytes"),
]
RECORD = b'{"type":"user","message":{"content":"caf\xc3\xa9 \xe2\x80\xa8 \xc2\x85"}}'
CONTENTS = {
    "empty": b"",
    "one line": RECORD + b"\n",
    "no final newline": RECORD + b"\n" + RECORD,
    "only newlines": b"\n" * 20,
    "a lone newline first": b"\n" + RECORD + b"\n",
    "CRLF": (RECORD + b"\r\n") * 3 + b"\r\n",
    "lone carriage returns": RECORD + b"\r" + RECORD + b"\r\r\n\r",
    "white space of each kind": b" \n\t\n\r\n\v\n\f\n \t\r\v\f\n",
    "white space at the end": RECORD + b"\n \t",
    "white space before text": b" \t\r\v\f{}\n  {}\n{}\n",
    "white space behind text": b"{} \n{}\t\t\t\t\t\t\t\t\t\n",
    "what only text calls white space": b"\x85\n\xa0\n\xe2\x80\xa8\n\x1c\n\x00\n",
    "NULs in a line of their own": RECORD + b"\n" + b"\0" * 50 + b"\n" + RECORD + b"\n",
    "NULs at the end": RECORD + b"\n" + b"\0" * 50,
    "invalid UTF-8": b"\xff\xfe\n\xc3\n",
    "a line as long as a real piece": b"a" * (PIECE - 1) + b"\nb\n",
    "a line one longer than a real piece": b"a" * PIECE + b"\n\nb\n",
    "blanks over a real border": b"a" * (PIECE - 3) + b"\n" + b" " * 9 + b"\n" + b" " * 9 + b"b",
    "a text that starts at a real border": b"a" * (PIECE - 1) + b"\n" + b"b\n" * 9,
    "a long line among short ones": b"a\n" * 9 + b"b" * 9000 + b"\n \n" + b"c\n" * 9,
    "a long line of blanks": b" " * 9000 + b"\n" + b"\t" * 9000 + b"x\n",
}
TOKENS = (b"a", b"{}" * 9, b"\n", b"\n", b"\n\n", b" ", b"\t", b"\r", b"\v", b"\f", b"\0", b"\x85")


def plain(content: bytes) -> list[bytes]:
    """The lines that are not blank, found the plainest way."""
    return [line for line in content.split(b"\n") if line.strip()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the test writes its one transcript."""
    return tmp_path / "transcript.jsonl"


def shrink(monkeypatch: pytest.MonkeyPatch, piece: int, first: int) -> None:
    for name, size in (("PIECE", piece), ("FIRST_PIECE", first)):
        monkeypatch.setattr(f"lifecycle._transcript.{name}", size)


def check_count(path: Path, content: bytes, what: object) -> None:
    """The exact count without a limit, and on which side of each limit near it the file is."""
    path.write_bytes(content)
    count = len(plain(content))
    assert measure(str(path)).count == count, what
    for limit in {1, max(count - 1, 1), max(count, 1), count + 1}:
        found = measure(str(path), limit).count
        assert found == count if count <= limit else limit < found <= count, (what, limit)


@pytest.mark.parametrize(("piece", "first"), SIZES)
def test_the_count_is_exact(
    monkeypatch: pytest.MonkeyPatch, path: Path, piece: int, first: int
) -> None:
    shrink(monkeypatch, piece, first)
    for what, content in CONTENTS.items():
        check_count(path, content[-300:] if piece < 64 else content, what)


@pytest.mark.parametrize(("piece", "first"), SIZES[1:])
def test_the_count_of_random_bytes_is_exact(
    monkeypatch: pytest.MonkeyPatch, path: Path, piece: int, first: int
) -> None:
    shrink(monkeypatch, piece, first)
    source = random.Random(20261101)
    for _ in range(60):
        content = b"".join(source.choices(TOKENS, k=source.randrange(60)))
        check_count(path, content, content)


def test_a_line_longer_than_16_mib_counts_as_one(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(17):
            file.write(b"x" * (1 << 20))
        file.write(b"\n\n{}")
    assert measure(str(path)).count == 2


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of what each `os.read` returned, from now on."""
    sizes: list[int] = []
    read = os.read

    def counting(descriptor: int, size: int) -> bytes:
        sizes.append(len(piece := read(descriptor, size)))
        return piece

    monkeypatch.setattr(os, "read", counting)
    return sizes


@pytest.mark.parametrize(
    ("content", "limit", "reads"),
    [
        pytest.param(b"{}\n" * 100_000, 1, [FIRST_PIECE], id="passed in the first piece"),
        pytest.param(
            b"\n" * FIRST_PIECE + b"{}\n" * 100_000, 1, [FIRST_PIECE, PIECE], id="in the second"
        ),
        pytest.param(b"x" * PIECE + b"\n{}", 2, [FIRST_PIECE, PIECE - FIRST_PIECE + 3], id="never"),
    ],
)
def test_a_limit_that_is_passed_ends_the_reading(
    monkeypatch: pytest.MonkeyPatch, path: Path, content: bytes, limit: int, reads: list[int]
) -> None:
    path.write_bytes(content)
    sizes = count_reads(monkeypatch)
    passed = measure(str(path), limit).count > limit
    assert sizes == reads
    assert passed is (len(plain(content)) > limit)


@pytest.mark.parametrize(
    "size",
    [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, PIECE, PIECE + 1, PIECE + WINDOW, 3 * PIECE + 5],
)
@pytest.mark.parametrize("limit", [0, 1 << 20], ids=["no limit", "a limit"])
def test_the_tail_holds_the_last_16_kib_and_the_status_is_the_files_own(
    path: Path, size: int, limit: int
) -> None:
    content = (b"".join(b"%d\n" % number for number in range(size // 4 + 1)))[:size]
    path.write_bytes(content)
    found = measure(str(path), limit)
    assert content.endswith(found.tail)
    assert min(size, WINDOW) <= len(found.tail) <= PIECE + WINDOW
    status = path.stat()
    assert (found.stat.st_ino, found.stat.st_size) == (status.st_ino, size)
    assert found.stat.st_mtime_ns == status.st_mtime_ns


def test_there_is_no_tail_where_the_limit_was_passed(path: Path) -> None:
    path.write_bytes(b"{}\n{}\n")
    assert measure(str(path), 1).tail == b""


def test_lines_come_whole_and_in_order_without_blank_ones(path: Path) -> None:
    for what, content in CONTENTS.items():
        path.write_bytes(content)
        assert list(lines(str(path))) == plain(content), what


@pytest.mark.parametrize("longest", [1, 4, 5, 6, 100_000])
def test_of_a_long_line_only_the_beginning_is_given(path: Path, longest: int) -> None:
    whole = [b"short", b"12345", b"123456", b"x" * 3 * PIECE, b"last"]
    path.write_bytes(b"\n".join(whole))
    assert list(lines(str(path), longest)) == [line[:longest] for line in whole]


@pytest.mark.parametrize("block", [1, 2, 7, 64, 1 << 20])
def test_blocks_hold_everything_and_no_line_is_in_two(
    monkeypatch: pytest.MonkeyPatch, path: Path, block: int
) -> None:
    monkeypatch.setattr("lifecycle._transcript.BLOCK", block)
    for what, content in CONTENTS.items():
        expected = content[-300:] if block < 64 else content
        path.write_bytes(expected)
        assert b"\n".join(blocks(str(path), 1 << 30)) == expected, what


def test_of_a_line_longer_than_blocks_may_be_only_the_beginning_is_held(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setattr("lifecycle._transcript.BLOCK", 16)
    path.write_bytes(b"first\n" + b"x" * 10_000 + b"\nlast")
    found = list(blocks(str(path), 100))
    first, long, last = b"\n".join(found).split(b"\n")
    assert (first, last) == (b"first", b"last")
    assert 100 <= len(long) <= 100 + 2 * 16


@pytest.mark.parametrize(
    ("content", "head", "tail"),
    [
        pytest.param(b"a1\na2\nb1\nb2\nc1\nc2\n", [b"a1", b"a2"], [b"c1", b"c2"], id="whole lines"),
        pytest.param(b"a1\na2\nb1\nlong\nc1\nc2", [b"a1", b"a2"], [b"c1", b"c2"], id="torn"),
        pytest.param(b"a1\na2\nb1\nb2\nc1\nc2", [b"a1", b"a2"], [b"b2", b"c1", b"c2"], id="exact"),
        pytest.param(b"a1\n" + b"x" * 9 + b"\nc1\n", [b"a1"], [b"c1"], id="a long one between"),
        pytest.param(b"x" * 20 + b"\n", [], [], id="one long line"),
    ],
)
def test_the_ends_of_a_longer_file_are_the_whole_lines_in_them(
    path: Path, content: bytes, head: list[bytes], tail: list[bytes]
) -> None:
    path.write_bytes(content)
    found = head_and_tail(str(path), 8)
    assert [list(filter(None, (part or b"").split(b"\n"))) for part in found] == [head, tail]


@pytest.mark.parametrize("content", [b"", b"a1\na2\nb1", b"a1\na2\n\n\n"])
def test_the_beginning_of_a_file_that_fits_is_all_of_it(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert head_and_tail(str(path), 8) == (content, None)


READERS: dict[str, Callable[[str], object]] = {
    "measure": measure,
    "lines": lambda path: next(lines(path)),
    "blocks": lambda path: next(blocks(path, 100)),
    "head_and_tail": lambda path: head_and_tail(path, 100),
}
OTHERS: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a link": lambda path: path.symlink_to(__file__),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "nothing": lambda path: None,
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_regular_file_is_refused_at_once_and_closed(
    path: Path, read: Callable[[str], object], make: Callable[[Path], object]
) -> None:
    make(path)
    before = len(os.listdir("/dev/fd"))
    with deadline(), pytest.raises(OSError, match="transcript"):
        read(str(path))
    assert len(os.listdir("/dev/fd")) == before
