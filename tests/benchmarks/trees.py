"""Makes the trees that the benchmark measures: realistic records, the same for the same seed.

Runs as a process of its own (`trees.py KIND DIRECTORY NUMBER [MEGABYTES]`): what a child of
the benchmark is said to have used at most includes what its parent used before.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sample import Record, assistant, bookkeeping, identifier, project_name, record, user

__all__ = ["LARGEST_LINE", "make"]

LARGEST_LINE = 2_000_000
SEED = 1
_SESSION = identifier("template")
_CWD = "/home/me/work-000"
_TEXT = (
    "the a of to and in is it for page test file login button color layout header footer "
    'width error value result module import return "quoted" größer 検索 line\nbreak\ttab '
    "checkout session render update cache filter query index token request response"
)
_WORDS = _TEXT.split(" ")


class _Writer:
    """Makes records of one template session, a little later each."""

    def __init__(self, random: Random, at: datetime) -> None:
        self.random = random
        self.at = at
        self.image = base64.b64encode(random.randbytes(LARGEST_LINE)).decode()

    def opening(self) -> Iterator[Record]:
        yield bookkeeping("mode", _SESSION, mode="normal")
        yield bookkeeping("permission-mode", _SESSION, permissionMode="default")
        inner = {"messageId": identifier(self.at), "timestamp": self._stamp()}
        yield {"type": "file-history-snapshot", "snapshot": inner, "isSnapshotUpdate": False}

    def exchange(self, result: int, image: int = 0) -> Iterator[Record]:
        """Prompt, attachment, answer, tool call, a result of so many characters, answer."""
        prompt: list[Record] = [{"type": "text", "text": self._text(200)}]
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": self.image[:image]}
            prompt.append({"type": "image", "source": source})
        tool = identifier(self.at, "tool")[:8]
        call: Record = {"type": "tool_use", "id": tool, "name": "Read", "input": {"path": _CWD}}
        answer: Record = {"type": "tool_result", "tool_use_id": tool, "content": self._text(result)}
        yield user(prompt if image else self._text(200), _SESSION, self._next(), cwd=_CWD)
        extra = {"type": "date_change", "newDate": f"{self.at:%F}"}
        yield record("attachment", _SESSION, self._next(), cwd=_CWD, attachment=extra)
        yield assistant(self._text(600), _SESSION, self._next(), cwd=_CWD)
        yield assistant([call], _SESSION, self._next(), cwd=_CWD)
        yield user([answer], _SESSION, self._next(), cwd=_CWD)
        yield assistant(self._text(900), _SESSION, self._next(), cwd=_CWD)

    def closing(self) -> list[Record]:
        title = bookkeeping("ai-title", _SESSION, aiTitle=self._text(50).replace("\n", " "))
        prompt = bookkeeping("last-prompt", _SESSION, lastPrompt=self._text(80))
        return [title, prompt, title, prompt]

    def _text(self, about: int) -> str:
        count = self.random.randint(about // 2, about * 3 // 2) // 7 + 1
        return " ".join(self.random.choices(_WORDS, k=count))

    def _next(self) -> datetime:
        self.at += timedelta(milliseconds=self.random.randint(200, 60_000))
        return self.at

    def _stamp(self) -> str:
        return self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode(records: Iterator[Record] | list[Record]) -> bytes:
    texts = (json.dumps(_real(each), ensure_ascii=False, separators=(",", ":")) for each in records)
    return "".join(f"{text}\n" for text in texts).encode()


def _real(each: Record) -> Record:
    """The record with its message before its id and time, as Claude Code writes them."""
    last = {key: each[key] for key in ("uuid", "timestamp") if key in each}
    return {key: value for key, value in each.items() if key not in last} | last


def _start(random: Random) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randrange(400_000))


def _small(random: Random) -> tuple[bytes, datetime]:
    """A session around 20 KB, most between 8 and 40."""
    writer = _Writer(random, _start(random))
    parts = [_encode(writer.opening())]
    wanted = random.lognormvariate(0, 0.4) * 18_000
    while sum(map(len, parts)) < wanted:
        parts.append(_encode(writer.exchange(random.choice((200, 800, 2_000, 4_000)))))
    return b"".join([*parts, _encode(writer.closing())]), writer.at


def _large(random: Random, size: int) -> tuple[bytes, datetime]:
    """A session with images and long tool results among ordinary records."""
    writer = _Writer(random, _start(random))
    parts = [_encode(writer.opening())]
    total = 0
    while total < size:
        image = random.choice((0, 0, 0, 100_000, 700_000, LARGEST_LINE - 2_000))
        # Few begin with an image: that they are long cannot be told at a glance.
        image = image if total or random.random() < 0.03 else 0
        result = random.choice((500, 2_000, 10_000, 60_000, 180_000))
        parts.append(_encode(writer.exchange(result, image)))
        total += len(parts[-1])
    parts.append(_encode(writer.exchange(1_000)))
    return b"".join([*parts, _encode(writer.closing())]), writer.at


def _write(root: Path, number: int, cwd: str, pieces: list[bytes], at: datetime) -> None:
    """Writes the pieces under a session id and a working directory of their own."""
    session_id = identifier("session", number)
    path = root / project_name(cwd) / f"{session_id}.jsonl"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for piece in pieces:
            own = piece.replace(_SESSION.encode(), session_id.encode())
            file.write(own.replace(_CWD.encode(), cwd.encode()))
    nanoseconds = int(at.timestamp() * 1_000) * 1_000_000
    os.utime(path, ns=(nanoseconds, nanoseconds))


def make(kind: str, directory: Path, number: int, megabytes: int = 0) -> None:
    """Makes one tree: `small`, `large` or `huge` sessions, or a `tombstones` file.

    `number` counts sessions or ids, `megabytes` is the size of `large` and `huge` trees.
    """
    random = Random(f"{SEED} {kind}")
    if kind == "tombstones":
        directory.mkdir(parents=True)
        with open(directory / ".deleted", "w", encoding="utf-8") as file:
            ids = (UUID(int=random.getrandbits(128), version=4) for _ in range(number))
            file.writelines(f"{each}\n" for each in ids)
        return
    if kind == "huge":
        writer = _Writer(random, _start(random))
        results = random.choices(
            (200, 800, 2_000, 4_000, 20_000, 180_000), (9, 9, 9, 9, 9, 1), k=99
        )
        blocks = [_encode(writer.exchange(result)) for result in results]
        pieces, total = [_encode(writer.opening())], 0
        while total < megabytes * 1_000_000:
            pieces.append(random.choice(blocks))
            total += len(pieces[-1])
        pieces += [_encode(writer.exchange(1_000)), _encode(writer.closing())]
        _write(directory, 0, _CWD, pieces, writer.at)
        return
    if kind == "small":
        templates = [_small(random) for _ in range(200)]
    else:
        templates = [_large(random, megabytes * 1_000_000 // number) for _ in range(12)]
    projects = max(number // 100, 3)
    for each in range(number):
        content, at = random.choice(templates)
        _write(directory, each, f"/home/me/work-{each % projects:03}", [content], at)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
